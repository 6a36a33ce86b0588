"""The options of a question, made from the table of inputs, and what they ask of a study."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodewise.base.errors import GATE_NOT_MET, SpecError
from nodewise.cli.options import (
    Decorator,
    Parsed,
    Source,
    emit,
    question_option,
    set_option,
    shared,
)
from nodewise.decide.inputs import INPUTS, Input, default_of, default_text, read_value
from nodewise.study.files import read_regular

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question, Settings
    from nodewise.report.findings import Findings
    from nodewise.study.check import Check
    from nodewise.study.study import Study

_ALIASES = {"own": ("--owned",)}
ANALYSIS = ("regime", "threshold", "center")


def _option(row: Input, as_text: bool = False) -> Decorator:
    """The option of an input. It is None if it is not given; `as_text` keeps what was typed."""

    def read(text: str) -> Any:
        value = read_value(row, text)
        return text if as_text else value

    kind: click.ParamType[Any] = Parsed(row.kind.name, read)
    if row.kind.choices:
        kind = click.Choice(row.kind.choices)
    return click.option(
        f"--{row.key}",
        *_ALIASES.get(row.key, ()),
        row.name,
        type=kind,
        multiple=row.key == "budget",
        hidden=not row.common,
        help=f"{row.help} [{default}]" if (default := default_text(row)) else row.help,
    )


def input_options(*keys: str) -> Decorator:
    """The options of some inputs."""
    return shared(*(_option(INPUTS[key]) for key in keys))


def stated_options(*keys: str) -> Decorator:
    """The options of some inputs, to be written into a spec as they are typed."""
    return shared(*(_option(INPUTS[key], as_text=True) for key in keys))


def stated_inputs(options: dict[str, Any], *keys: str) -> dict[str, Any]:
    """What such options say, by the place of each input in a TOML file."""
    given = {INPUTS[key]: options[INPUTS[key].name] for key in keys}
    return {row.toml: _for_toml(row, typed) for row, typed in given.items() if typed}


def _for_toml(row: Input, typed: Any) -> Any:
    """A number where one was typed, else the text."""
    text = ",".join(typed) if row.key == "budget" else str(typed)
    if row.kind.name in ("text", "file"):
        return text
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


question_options = shared(
    input_options(*(key for key in INPUTS if key not in ANALYSIS)),
    set_option,
    question_option,
)
analysis_options = input_options(*ANALYSIS)


def layers_of(options: dict[str, Any]) -> "list[Settings]":
    """What the command line sets, by key: a question file, then each --set, then the options.

    The source of a price is set last: it belongs to the price of any --set or option beside it.
    """
    layers: list[Settings] = []
    if options.get("question_file") is not None:
        layers.append(_read_question_file(options["question_file"]))
    settings = list(options.get("settings") or ())
    layers += [{key: value} for key, value in settings if key != "price-source"]
    given = {row.key: options.get(row.name) for row in INPUTS.values()}
    budgets = {gate: amount for one in given.pop("budget") or () for gate, amount in one.items()}
    sources = {key: value for key, value in settings if key == "price-source"}
    found = sources | {key: value for key, value in given.items() if value is not None}
    return [*layers, found | ({"budget": budgets} if budgets else {})]


def settings_of(options: dict[str, Any]) -> "Settings":
    """What the command line sets, by key; the last one counts."""
    return {key: value for layer in layers_of(options) for key, value in layer.items()}


def _read_question_file(path: Path) -> "Settings":
    from nodewise.decide.inputs import read_question_tables
    from nodewise.study.spec import read_toml

    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        raise SpecError(f"Cannot read the question {path}.", "Name a TOML file.") from None
    return read_question_tables(read_toml(text))


def asked(question: "Question", options: dict[str, Any]) -> "Question":
    """The question, with what the command line says instead."""
    return _ask_layers(question, layers_of(options))


def _ask_layers(question: "Question", layers: "list[Settings]") -> "Question":
    from nodewise.decide.prices.lookup import ask_today

    for layer in layers:
        question = ask_today(question, layer)
    return question


def value(options: dict[str, Any], key: str) -> Any:
    """One input of a command that takes no whole question: as given, else its default."""
    row = INPUTS[key]
    given = options.get(row.name)
    return default_of(row) if given is None else given


def find_in(table: "Path | Sequence[Source]", options: dict[str, Any]) -> "tuple[Study, Findings]":
    """The study in a table, a study folder or a page, and what it says to the question asked."""
    from nodewise.audit.rules import read_rules
    from nodewise.report.findings import find

    study, question = read_question(table, options)
    return study, find(study, question, read_rules())


def exit_if_invalid(checks: "Sequence[Check]") -> None:
    """End the command with 1 where the measurement is invalid."""
    from nodewise.study.check import validity_of

    if validity_of(checks).state == "invalid":
        sys.exit(GATE_NOT_MET)


def valid_or_exit(study: "Study", question: "Question", as_json: bool) -> None:
    """End the command with 1 where the measurement is invalid."""
    from nodewise.explain.scaling import measurement_checks, timings
    from nodewise.report.text.findings import invalid_report
    from nodewise.study.check import validity_of

    checks = measurement_checks(study, timings(study, question.center))
    validity = validity_of(checks)
    if validity.state == "invalid":
        recommended = {"K": None, "because": validity.clause}
        refused = {"name": study.name, "validity": validity, "recommended": recommended}
        emit({**refused, "checks": checks}, as_json, invalid_report)
        sys.exit(GATE_NOT_MET)


def read_question(
    table: "Path | Sequence[Source]", options: dict[str, Any], work: float | None = None
) -> "tuple[Study, Question]":
    """A study, and what its spec or its page asks, with what the command line says instead."""
    from nodewise.report.open import open_sources

    layers = layers_of(options)
    regimes = [layer["regime"] for layer in layers if "regime" in layer]
    sources = [(None, table)] if isinstance(table, Path) else table
    study, question = open_sources(sources, regimes[-1] if regimes else None, work)
    return study, _ask_layers(question, layers)
