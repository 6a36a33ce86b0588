"""Arithmetic in the arguments of a command: `{48/n}`, `{round(30*n**(1/3))}`.

What counts as an expression: text in braces that has a name in it and otherwise only letters,
digits, spaces and `_ . , ( ) + - * / %`, and no `$` before it. All other braces are left as they
are: JSON, `awk '{print $1}'`, `${HOME}`, `find -exec {}`, `x{2,3}`. An expression that cannot be
computed is an error, never passed on. `{{` and `}}` around a text become single braces.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from nodewise.base.errors import SpecError

Number = int | float
Values = Mapping[str, Number | str]

_MAX_LENGTH = 200  # characters of one expression
_MAX_BITS = 256  # of a power
_WHOLE = 1e-9  # relative: a power this near to an integer is one, such as 64**(1/3)
_MAX_DIGITS = 15  # of round, before or after the point
_DIGITS = 12  # significant, of a value that is not an integer
_GROUP = re.compile(
    r"\{\{(?P<wrapped>\{[^{}]*\})\}\}"  # {{{n}}}: the value in braces
    r"|\{\{(?P<escaped>[^{}]*)\}\}"
    r"|(?<!\$)\{(?=[^A-Za-z_{}]*[A-Za-z_])(?P<text>[\w\s.,()+\-*/%]*)\}",
    re.ASCII,
)
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "round": lambda x, digits=0: _round(x, digits),
    "int": int,
    "ceil": math.ceil,
    "floor": math.floor,
    "abs": abs,
    "sqrt": math.sqrt,
    "cbrt": math.cbrt,
    "log2": math.log2,
    "min": min,
    "max": max,
}
_OPERATORS: dict[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, exponent: _power(base, exponent),
}
_COMPARISONS: dict[type[ast.AST], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Problem(Exception):
    """What is wrong with an expression, and at which character."""

    def __init__(self, what: str, at: int = 0, lists_names: bool = False) -> None:
        super().__init__(what)
        self.what, self.at, self.lists_names = what, at, lists_names


def expand(words: Sequence[str], values: Values, field: str) -> tuple[str, ...]:
    """The words of a command with their expressions computed.

    >>> expand(["-x", "{round(30*n**(1/3))}", "{48/n}", '{"a": 1}'], {"n": 8}, "workload.command")
    ('-x', '60', '6', '{"a": 1}')
    """
    return tuple(_GROUP.sub(lambda group: _replaced(group, values, field), one) for one in words)


def uses_alone(words: Sequence[str], name: str) -> bool:
    """Whether a name is the whole of a placeholder, as in `{n}`."""
    return any(
        (group["text"] or "").strip() == name for word in words for group in _GROUP.finditer(word)
    )


def holds(condition: str, values: Values, field: str) -> bool:
    """Whether a condition such as `n == round(n**(1/3))**3` is true."""
    try:
        return bool(_evaluate(condition, values))
    except _Problem as problem:
        raise _error(problem, f"'{condition}'", values, field, "Correct it.") from None


def _replaced(group: re.Match[str], values: Values, field: str) -> str:
    if group["escaped"] is not None:
        return f"{{{group['escaped']}}}"
    if group["wrapped"] is not None:
        return (
            "{" + _GROUP.sub(lambda inner: _replaced(inner, values, field), group["wrapped"]) + "}"
        )
    text = group["text"]
    alone = values.get(text.strip())
    if isinstance(alone, str):
        return alone
    literal = f"To pass the braces on as they are, write {{{{{text}}}}}."
    try:
        found = _evaluate(text, values)
        if isinstance(found, bool):
            raise _Problem("is a condition, not a number")
        return _printed(found)
    except _Problem as problem:
        raise _error(problem, f"{{{text}}}", values, field, literal) from None


def _error(problem: _Problem, shown: str, values: Values, field: str, fix: str) -> SpecError:
    known = f"Use {', '.join(values)}. " if problem.lists_names else ""
    what = f"{shown[: _MAX_LENGTH + 2]} {problem.what} (character {problem.at + 1})"
    return SpecError(f"{field}: {what}.", f"{known}{fix}")


def _printed(value: Number) -> str:
    """A number as an argument: an integer without a point.

    >>> _printed(6.0), _printed(119.99999999999999), _printed(9.6)
    ('6', '120', '9.6')
    """
    if isinstance(value, int):
        return str(value)
    short = float(f"{value:.{_DIGITS}g}")
    return str(int(short)) if short.is_integer() and abs(short) < 1e15 else f"{short:.{_DIGITS}g}"


def _evaluate(text: str, values: Values) -> Number | bool:
    if len(text) > _MAX_LENGTH:
        raise _Problem(f"is longer than {_MAX_LENGTH} characters")
    stripped = text.strip()
    indent = text.index(stripped) if stripped else 0
    try:
        tree = ast.parse(stripped, mode="eval").body
        return _value(tree, values)
    except SyntaxError as error:
        at = indent + max((error.offset or 1) - 1, 0)
        raise _Problem("is not an expression", at) from None
    except _Problem as problem:
        problem.at += indent
        raise
    except (RecursionError, MemoryError, ValueError) as error:  # too deep; a null byte
        raise _Problem(f"cannot be computed: {error}") from None


def _value(node: ast.expr, values: Values) -> Number | bool:
    """The value of a node; only numbers, known names, operators and functions are computed."""
    at = node.col_offset
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name():
            return _named(node.id, values, at)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            inner = _value(node.operand, values)
            return -inner if isinstance(node.op, ast.USub) else inner
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, values)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            parts = _value(node.left, values), _value(node.right, values)
            return _computed(_OPERATORS[type(node.op)], parts, at)
        case ast.BoolOp():
            found = (bool(_value(one, values)) for one in node.values)  # until one decides
            return all(found) if isinstance(node.op, ast.And) else any(found)
        case ast.Compare() if all(type(one) in _COMPARISONS for one in node.ops):
            sides = [_value(one, values) for one in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return all(_COMPARISONS[type(one)](left, right) for one, left, right in pairs)
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            return _called(name, [_value(one, values) for one in node.args], at)
    raise _Problem("has something that is not arithmetic", at)


def _named(name: str, values: Values, at: int) -> Number:
    if name not in values:
        raise _Problem(f"has the unknown name {name}", at, lists_names=True)
    found = values[name]
    if isinstance(found, str):
        raise _Problem(f"computes with {name}, which is not a number", at)
    return found


def _called(name: str, arguments: Sequence[Number], at: int) -> Number:
    if name not in _FUNCTIONS:
        known = ", ".join(_FUNCTIONS)
        raise _Problem(f"has the unknown function {name}; there are {known}", at)
    try:
        return _computed(_FUNCTIONS[name], arguments, at)
    except TypeError:
        raise _Problem(f"gives {name} {len(arguments)} values", at) from None


def _computed(function: Callable[..., Number], parts: Sequence[Number], at: int) -> Number:
    try:
        found = function(*parts)
        finite = not isinstance(found, complex) and math.isfinite(found)
    except ZeroDivisionError:
        raise _Problem("divides by zero", at) from None
    except (OverflowError, ValueError) as error:
        raise _Problem(f"cannot be computed: {error}", at) from None
    if not finite:
        raise _Problem("is not a finite number", at)
    return found


def _round(x: Number, digits: int) -> Number:
    """As Python rounds; with digits that a float has."""
    if abs(digits) > _MAX_DIGITS:
        raise ValueError(f"round has at most {_MAX_DIGITS} digits")
    return round(x, digits) if digits else round(x)


def _power(base: Number, exponent: Number) -> Number:
    """A power of bounded size; within rounding of an integer it is that integer."""
    if max(abs(base), 1) > 1 and abs(exponent) * math.log2(max(abs(base), 2)) > _MAX_BITS:
        raise ValueError(f"a power beyond 2**{_MAX_BITS}")
    found = base**exponent
    if isinstance(found, float) and math.isfinite(found):
        nearest = round(found)
        if nearest and abs(found - nearest) <= _WHOLE * abs(nearest):
            return float(nearest)
    return found
