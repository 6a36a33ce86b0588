"""Tables that people write, in any layout, and figures in sentences. Text to claims."""

import re
from collections.abc import Mapping
from pathlib import Path

from nodewise.base.errors import DataError
from nodewise.importers.files import read_text, runs_at
from nodewise.importers.tables.layouts import sheets_of
from nodewise.importers.tables.prose import claims_of_prose
from nodewise.importers.tables.reading import claims_of_cells
from nodewise.study.claim import Claim, claim_of_study
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table
from nodewise.study.titles import Column


def read_runs(path: Path, nodes: int | None) -> list[Run]:
    """The runs in the one table of a file; with `nodes`, those of that K."""
    claims = claims_of_text(read_text(path), path.stem, None)
    if len(claims) > 1:
        names = ", ".join(claim.name for claim in claims[:5])
        raise DataError(f"{path} has several tables: {names}.", "Keep one of them in a file.")
    study = claims[0].study if claims[0].has_seconds else None
    if study is None:
        raise DataError(
            f"{path} has ratios and no times.", f"Check the claim: nodewise audit {path}"
        )
    return runs_at(path, study.runs, nodes)


def read_unit(path: Path) -> ScaleUnit:
    """What K counts in the first table of a file."""
    text = read_text(path)
    study = _study(text, path.stem, None)
    return study.scale_unit if study else claims_of_text(text, path.stem, None)[0].scale_unit


def read_csv(path: Path, nodes: int | None) -> list[Run]:
    """The runs in one CSV of timings (docs/tables.md); with `nodes`, those of that K."""
    text = read_text(path)
    try:
        runs = parse_table(text, path.stem).runs
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.fix) from None
    return runs_at(path, runs, nodes)


def claims_of_text(
    text: str,
    name: str,
    regime: Regime | None,
    corrections: Mapping[str, Column] | None = None,
) -> tuple[Claim, ...]:
    """The claims in the tables of a text, or in its sentences where it has no table."""
    study = _ranked_study(text, name, regime)
    if study is not None:
        return (claim_of_study(study, _comments(text)),)
    sheets = sheets_of(text)
    made: list[Claim] = []
    first: DataError | None = None
    for number, sheet in enumerate(sheets, start=1):
        called = name if len(sheets) == 1 else f"{name}, table {number}"
        try:
            made += claims_of_cells(
                called, sheet.titles, sheet.rows, sheet.words, regime, sheet.above, corrections
            )
        except DataError as error:
            first = first or error
    if made:
        return tuple(made)
    said = claims_of_prose(text, name, regime)
    if said:
        return said
    study = _study(text, name, regime)
    if study is not None and len(study.scales) > 1:
        return (claim_of_study(study, _comments(text)),)
    raise first or DataError(
        "No scaling table was found.", "Give a table with a row for each scale: K and a time."
    )


def _comments(text: str) -> str:
    return "\n".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))


def _ranked_study(text: str, name: str, regime: Regime | None) -> Study | None:
    """A table of runs as nodewise writes them, where its stages and ranks count too."""
    head = next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")
    ranked = "rank" in [title.strip().lower() for title in re.split(r"[,;\t]", head)]
    return _study(text, name, regime) if ranked else None


def _study(text: str, name: str, regime: Regime | None) -> Study | None:
    try:
        return parse_table(text, name, regime)
    except DataError:
        return None
