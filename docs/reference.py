"""Write the reference from the code: cli.md, rules.md, json.md, fields.md, table of inputs.md.

    .venv/bin/python docs/reference.py

A test compares the pages with what this writes.
"""

import ast
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import click
import msgspec

from nodewise.audit.rules import read_rules
from nodewise.cli.help import inputs
from nodewise.cli.main import SECTIONS, nodewise
from nodewise.decide.decide import Decision
from nodewise.explain.causes import CauseName
from nodewise.measure.engines import registry
from nodewise.report.schema import PARTS
from nodewise.study.spec import Baseline, EngineSpec, Precision, Quality, Rehearsal, Spec, Workload
from nodewise.study.spec_text import toml_value

HERE = Path(__file__).parent
WRITTEN = "<!-- Written by docs/reference.py. -->\n"
INPUTS_TITLE = "| key | in TOML | unit | default | meaning |\n|---|---|---|---|---|\n"


def row(*cells: object) -> str:
    """One row of a table in Markdown."""
    return "| " + " | ".join(" ".join(str(c).split()).replace("|", "\\|") for c in cells) + " |"


def cli_page() -> str:
    """Every command with its help and its options."""
    lines = [
        "# Commands", WRITTEN,
        "Every command prints its help with `--help`. Options that several commands share are "
        "inputs of a question: [inputs.md](inputs.md).", "",
        "| exit code | meaning |", "|---|---|",
        row(0, "the command did what you asked, and every gate is met"),
        row(1, "a gate is not met, a rule of the audit fails, or the measurement is invalid"),
        row(2, "the spec or the arguments are wrong"),
        row(3, "a run failed"),
        row(4, "the data cannot be used"),
    ]  # fmt: skip
    context = click.Context(nodewise, info_name="nodewise")
    for title, names in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in names:
            command = nodewise.get_command(context, name)
            assert command is not None
            lines += _command(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("", f"### {context.command_path}", "")
    text, _, examples = (
        inspect.cleandoc(command.help or "").replace("\b\n", "").partition("Examples:")
    )
    yield text.strip()
    yield from (
        "",
        "```text",
        context.command_path + " " + " ".join(command.collect_usage_pieces(context)),
    )
    yield from ("```", "")
    if examples:
        yield from ("```text", inspect.cleandoc(examples), "```", "")
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        yield from ("| option | meaning |", "|---|---|")
    for option in options:
        record = option.get_help_record(context)
        assert record is not None
        yield row(f"`{record[0]}`", record[1])
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))


def rules_page() -> str:
    """Every rule of the audit."""
    lines = [
        "# Rules of the audit", WRITTEN,
        "`nodewise audit` asks these of a claim, and of your own study ([audit.md](audit.md)). "
        "If a rule of severity `fail` is broken, the command exits with 1.", "",
        "| key | rule | severity | fix | source |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for rule in read_rules():
        of = " (servers)" if rule.applies == "serving" else ""
        lines.append(row(f"`{rule.key}`", rule.rule + of, rule.severity, rule.remedy, rule.source))
    return "\n".join(lines) + "\n"


def json_page() -> str:
    """Every key of `nodewise decide --json`, with the comment beside it in the source."""
    lines = [
        "# JSON of a decision", WRITTEN,
        "`nodewise decide --json`, `nodewise study --json` and `result.json` have the keys of a "
        "decision, and these:", "",
        "| key | type |", "|---|---|",
        *(row(f"`{key}`", _type(kind)) for key, kind in PARTS.items()),
        "", "`nodewise help json` prints the JSON Schema. `null` means unknown or not applicable, "
        "never zero.",
    ]  # fmt: skip
    for kind in _structs([Decision, *PARTS.values()]):
        lines += ["", f"## {kind.__name__}", "", inspect.getdoc(kind) or "", ""]
        lines += ["| key | type | meaning |", "|---|---|---|"]
        meaning = _comments(kind)
        lines += [
            row(f"`{field.encode_name}`", _type(field.type), meaning.get(field.name, ""))
            for field in msgspec.structs.fields(kind)
        ]
    causes = " · ".join(f"`{one}`" for one in typing.get_args(CauseName))
    lines += ["", "## Causes", "", f"A cause is one of: {causes}."]
    return "\n".join(lines) + "\n"


def _structs(kinds: list[Any]) -> list[type[msgspec.Struct]]:
    """The structs that a document holds, each once, in the order in which they are met."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found[kind] = None
                waiting += [field.type for field in msgspec.structs.fields(kind)]
        else:
            waiting += typing.get_args(getattr(kind, "__value__", kind))
    return list(found)


def _comments(kind: type) -> dict[str, str]:
    """The comment behind each field of a class in its source."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("nodewise"):
            lines, _ = inspect.getsourcelines(one)
            source = inspect.cleandoc("\n" + "".join(lines))
            (body,) = ast.parse(source).body
            assert isinstance(body, ast.ClassDef)
            for node in body.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    line = source.splitlines()[(node.end_lineno or node.lineno) - 1]
                    found[node.target.id] = line.partition("  # ")[2]
    return found


def _type(kind: Any) -> str:
    """A type as a reader of JSON knows it."""
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        date: "date",
        types.NoneType: "null",
    }
    arguments = typing.get_args(kind)
    if kind in names:
        return names[kind]
    if kind is typing.Any:
        return "any value"
    if typing.get_origin(kind) is typing.Annotated:
        return _type(arguments[0]) + _bounds(arguments[1])
    if arguments == typing.get_args(CauseName):
        return "[cause](#causes)"
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in arguments)
    if typing.get_origin(kind) in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if typing.get_origin(kind) in (dict, typing.get_origin(typing.Mapping[str, str])):
        return f"{_type(arguments[1])} by {_type(arguments[0])}"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return _type(kind.__value__) if hasattr(kind, "__value__") else str(kind)


def _bounds(meta: msgspec.Meta) -> str:
    """The limits of a number."""
    signs = {"ge": "≥", "gt": ">", "le": "≤"}
    limits = [f"{sign} {value:,}" for name, sign in signs.items()
              if (value := getattr(meta, name)) is not None and value < 1e9]  # fmt: skip
    return ", ".join(["", *limits])


def inputs_page() -> str:
    """The page of inputs with the table as it is now."""
    before, title, _ = (HERE / "inputs.md").read_text().partition(INPUTS_TITLE)
    rows = [row(f"`{one['key']}`", f"`{one['toml']}`", *list(one.values())[2:]) for one in inputs()]
    return before + title + "\n".join(rows) + "\n"


def fields_page() -> str:
    """Every field of a spec, with the comment beside it in the source."""
    lines = [
        "# Fields of a spec", WRITTEN,
        "This page lists what a spec may contain besides [inputs](inputs.md) of a question. "
        "[spec.md](spec.md) explains them with examples. `nodewise init --schema` prints the JSON "
        "Schema.",
    ]  # fmt: skip
    tables: dict[str, Any] = {
        "Top of the file": Spec, "workload": Workload, "baseline": Baseline, "engine": EngineSpec,
        "engine.rehearsal": Rehearsal,
    }  # fmt: skip
    for name in registry.names():
        options = registry.engine_type(name).options_type
        if msgspec.structs.fields(options) and options is not Rehearsal:
            tables[f"engine.{name}"] = options
    tables |= {"quality": Quality, "precision": Precision}
    for title, kind in tables.items():
        heading = title if kind is Spec else f"[{title}]"
        about = (inspect.getdoc(kind) or "").partition("\n")[0]
        lines += ["", f"## {heading}", "", *([] if about.startswith("The table") else [about, ""])]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        meaning = _comments(kind)
        for field in msgspec.structs.fields(kind):
            if field.name not in ("rehearsal", "tables"):  # tables of their own
                words = re.sub(r"^noqa: \w+( - )?", "", meaning.get(field.name, ""))
                lines.append(_field(field, words))
    return "\n".join(lines) + "\n"


def _field(field: msgspec.structs.FieldInfo, meaning: str) -> str:
    default = "required" if field.required else ""
    if field.default is not msgspec.NODEFAULT and isinstance(field.default, str | int | float):
        default = f"`{toml_value(field.default)}`" if field.default != "" else ""
    kind = re.sub(r"\[\w+\]\(#\w+\)", "table", _type(field.type))
    return row(f"`{field.encode_name}`", kind, default, meaning)


PAGES = {
    "cli.md": cli_page,
    "rules.md": rules_page,
    "json.md": json_page,
    "inputs.md": inputs_page,
    "fields.md": fields_page,
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (HERE / name).write_text(write())
        sys.stdout.write(f"{HERE / name}\n")
