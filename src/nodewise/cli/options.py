"""Options that several commands share, and the types that read a time, a share or a law."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from nodewise.base.errors import NodewiseError, SpecError
from nodewise.base.units import parse_amount, parse_fraction, parse_seconds
from nodewise.study.files import replace

if TYPE_CHECKING:
    from nodewise.report.sections import Output, Report

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class Parsed(click.ParamType[Any]):
    """A type whose values are read by one of our own parsers, within bounds."""

    def __init__(
        self,
        name: str,
        parse: Callable[[str], Any],
        least: float | None = None,
        most: float | None = None,
        above: float | None = None,
    ) -> None:
        """`above` is a bound that the value itself may not have."""
        self.name = name
        self._parse = parse
        self._least, self._most, self._above = least, most, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or the parser's complaint."""
        if not isinstance(value, str):
            return value
        try:
            parsed = self._parse(value)
        except ValueError as error:
            self.fail(str(error).rstrip("."), param, ctx)
        except NodewiseError as error:
            self.fail(f"{error.what} {error.fix}", param, ctx)
        if self._least is not None and parsed < self._least:
            self.fail(f"{value} is below {self._least:g}", param, ctx)
        if self._most is not None and parsed > self._most:
            self.fail(f"{value} is above {self._most:g}", param, ctx)
        if self._above is not None and parsed <= self._above:
            self.fail(f"{value} is not above {self._above:g}", param, ctx)
        return parsed


Source = tuple[int | None, Path]


def _parse_source(text: str) -> Source:
    scale, equals, path = text.partition("=")
    if not (equals and scale.isdecimal()):
        return None, Path(text)
    if not 0 < int(scale) < 10_000_000:
        raise ValueError(f"{scale} is not a number of nodes")
    return int(scale), Path(path)


def _parse_whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"'{text}' is not a whole number")
    return int(text)


SOURCE = Parsed("source", _parse_source)  # K=PATH, or a path alone where the file says its scale
POSITIVE_DURATION = Parsed("time", parse_seconds, above=0)
FRACTION = Parsed("share", parse_fraction, least=0, most=1)
MONEY = Parsed("money", parse_amount, least=0)
QUANTITY = Parsed("number", parse_amount, above=0)
WHOLE = Parsed("count", _parse_whole, least=0, most=100_000)
COUNT = Parsed("count", _parse_whole, least=1, most=100_000)


def shared(*options: Decorator) -> Decorator:
    """One decorator out of several options, shown in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def file_option(words: str, **more: Any) -> Decorator:
    """The file that a command writes."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option("-o", "--output", type=kind, help=words, **more)


def _complete_setting(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    from nodewise.decide.inputs import INPUTS

    found = (row for row in INPUTS.values() if row.key.startswith(typed))
    return [CompletionItem(f"{row.key}=", help=row.help) for row in found]


def _read_setting(text: str) -> tuple[str, Any]:
    from nodewise.decide.inputs import input_named, read_value

    key, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"'{text}' is not KEY=VALUE.", "Write KEY=VALUE, for example spot=0.3.")
    row = input_named(key.strip())
    return row.key, read_value(row, value.strip())


set_option = click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    type=Parsed("setting", _read_setting),
    multiple=True,
    shell_complete=_complete_setting,
    help="Set any input; list them: nodewise help inputs.",
)
question_option = click.option(
    "-q",
    "--question",
    "question_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read the question from a TOML file.",
)
table_argument = click.argument("table", metavar="TABLE", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print the same result as JSON.")
output_options = shared(
    json_option,
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=lambda ctx, _, value: _keep(ctx, "verbose", value),
        help="More sections; -vv: everything.",
    ),
    click.option(
        "--only",
        metavar="SECTION",
        expose_value=False,
        callback=lambda ctx, _, value: _keep(ctx, "only", value),
        help="One section: checks, cost, laws, ...",
    ),
)


def _keep(ctx: click.Context, name: str, value: Any) -> None:
    """Keep for `emit` what the reader wants to see."""
    ctx.meta[f"{__name__}.{name}"] = value


def _kept(name: str) -> Any:
    return click.get_current_context().meta.get(f"{__name__}.{name}")


def parse_scales(text: str) -> tuple[int, ...]:
    """The scales in a list, or the doublings in a range and its end.

    >>> parse_scales("4,6"), parse_scales("1..12")
    ((4, 6), (1, 2, 4, 8, 12))
    """
    first, dots, last = text.partition("..")
    try:
        scales = tuple(int(part) for part in ((first, last) if dots else text.split(",")))
    except ValueError:
        scales = ()
    if not scales or min(scales) < 1 or max(scales) > 100_000 or (dots and scales[0] > scales[1]):
        raise SpecError(
            f"'{text}' is not a list of scales.",
            "Write numbers of nodes: 1,2,4,8, or 1..8 (doublings) for these.",
        )
    if not dots:
        return scales
    low, high = scales
    return (*(low << power for power in range(17) if low << power < high), high)


def write(content: str | bytes, output: Path | None) -> None:
    """Write to a file, or to stdout without one."""
    if output is None:
        click.echo(content, nl=False)
        return
    try:
        replace(output, content)
    except OSError as error:
        raise SpecError(
            f"Cannot write {output}: {(error.strerror or 'it fails').lower()}.",
            "Name a file in a folder that you can write to.",
        ) from None
    click.echo(f"Wrote {output}.", err=True)


def to_json(result: Any) -> str:
    """A result as an indented JSON document."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def emit(result: Any, as_json: bool, report: "Callable[[Any], Output | Report]") -> None:
    """Write a result: JSON for machines, or the text that a person reads."""
    only = _kept("only") or ""
    if as_json:
        if only:
            raise click.UsageError("--only is for text; --json has everything")
        click.echo(to_json(result), nl=False)
        return
    import shutil

    from nodewise.report.terminal import WIDTH, render, show

    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    shown = report(result)
    if isinstance(shown, list):
        click.echo(render(shown, width, colour))
    else:
        click.echo(show(shown, width, colour, _kept("verbose") or 0, only))


def is_given(name: str) -> bool:
    """Whether an option is on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source == ParameterSource.COMMANDLINE
