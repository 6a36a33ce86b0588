"""CSV tables of timings: text to a `Study` and back.

A row is a run, or one rank of a run when there is a `rank` column. Bad cells are named by line and
column; assumptions are in the notes of the study.
"""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NoReturn, get_args

from nodewise.base.errors import DataError
from nodewise.study.scale_unit import NODE, ScaleUnit, parse_unit, plural, unit_of_title
from nodewise.study.spec import Regime
from nodewise.study.study import STAGES, Rank, Run, Stage, Study
from nodewise.study.titles import seconds_of_unit, title_column

Column = (
    Literal["nodes", "machines", "per_node", "seconds", "throughput", "round", "rank", "regime"]
    | Stage
    | Literal["quality", "work", "rate_per_hour", "energy_joules"]
)

# The names that people give each column, first the one that we write.
_NAMES: dict[Column, tuple[str, ...]] = {
    "nodes": ("K", "p", "n", "nodes", "workers", "gpus", "ranks", "processes", "cores", "replicas"),
    "machines": ("nodes",),  # beside a column that counts something else
    "per_node": ("per_node", "ppn"),  # and gpus_per_node, ranks_per_node ...
    "seconds": ("time_s", "seconds", "time", "wall_s"),
    "throughput": ("throughput", "items_per_s"),
    "round": ("rep", "round", "repeat"),
    "rank": ("rank",),
    "compute": ("compute_s",),
    "communication": ("comm_s", "communication_s", "transfer_s", "comm_exposed_s"),
    "idle": ("idle_s", "wait_s"),
    "io": ("io_s",),
    "serial": ("serial_s",),
    "overhead": ("overhead_s",),
    "quality": ("quality",),
    "work": ("work", "items"),
    "rate_per_hour": ("rate_per_hour",),
    "energy_joules": ("energy_j",),
    "regime": ("regime",),
}
_COLUMN_OF: dict[str, Column] = {
    name.lower(): column
    for column, names in _NAMES.items()
    for name in names
    if column != "machines"
}
_PER_NODE = re.compile(r"(?P<unit>[a-z]+)[_ ]per[_ ]node", re.IGNORECASE)
_POSITIVE: frozenset[Column] = frozenset({"seconds", "throughput"})
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.ASCII)
_LARGEST = 1e15  # beyond this a figure is a typing error, and products of such figures overflow
_SMALLEST = 1e-12
_MOST_NODES = 10_000_000
_SAME_WORK = 0.01  # relative; work that does not divide by K is rounded by less than this

Row = dict[Column, float]


def parse_table(
    text: str,
    name: str = "table",
    regime: Regime | None = None,
    work: float | None = None,
    units_of_a_rate: float = 1.0,
) -> Study:
    """The study in a CSV text.

    `regime` and `work` (of one run at the smallest K) say what the table leaves out; what it does
    say they must not contradict. Of a throughput alone, a run is `units_of_a_rate`.
    """
    lines = _lines(text)
    _, header = next(lines, (1, []))
    columns, ignored = _columns(header)
    rows = list(_rows(lines, columns, header))
    if not rows:
        raise DataError(
            "The table has no rows of data.", "Write a row for each run below the header."
        )
    scale_unit = _scale_unit(header, columns, rows)
    notes = []
    if ignored:
        notes.append(f"Columns not used: {', '.join(ignored)}.")
    if "seconds" in columns and "throughput" in columns:
        notes.append("Column throughput is not used, because time_s is given.")
    if "round" not in columns:
        notes += _number_rounds(rows)
    declared = _declared_regime(rows, regime)
    if work is not None and "work" in columns:
        raise DataError("Both a column work and the option --work are given.", "Drop --work.")
    grouped = _group(rows)
    if "rank" in columns:
        _check_ranks(grouped)
    found = _regime_of_work(grouped, declared) if "work" in columns else None
    study_regime: Regime = declared or found or "strong"
    is_rate = not (work or columns.keys() & {"seconds", "work"}) and "throughput" in columns
    if is_rate:
        work = units_of_a_rate
        many = "one unit" if work == 1 else f"{work:,.0f} units"
        unit = f"{many} of work" + ("" if study_regime == "strong" else " for each node")
        notes.append(f"No work column: each run counts as {unit}.")
    if declared is None and found == "weak":
        notes.append("The work grows with K: read as weak scaling.")
    least = min(row["nodes"] for row in rows)
    runs = []
    for (nodes, _), rows_of_run in grouped.items():
        grown = nodes / least if study_regime == "weak" else 1.0
        runs.append(_run(rows_of_run, None if work is None else work * grown))
    return Study(
        name=name,
        regime=study_regime,
        runs=tuple(runs),
        notes=tuple(notes),
        scale_unit=scale_unit,
        is_rate=is_rate,
    )


def format_table(study: Study, comments: Sequence[str] = ()) -> str:
    """The CSV text of a study, one row per run, or one row per rank; `parse_table` reads it back.

    A run that failed has no row: its seconds are not the time of the job.
    """
    columns, unit = _columns_of(study), study.scale_unit
    titles = {column: _NAMES[column][0] for column in columns}
    titles["nodes"] = _scale_title(unit)
    if unit.device:
        titles["per_node"] = f"{plural(unit.device).lower()}_per_node"
    lines = [f"# {comment}" for comment in comments]
    lines.append(",".join(titles[column] for column in columns))
    for run in study.runs:
        if run.outcome == "ok":
            for cells in _cells(run, study):
                lines.append(",".join(_cell(cells[column]) for column in columns))
    return "\n".join(lines) + "\n"


def _columns_of(study: Study) -> list[Column]:
    """The columns that a study fills, in the order of the file."""
    ranked = any(run.ranks for run in study.runs)
    is_rate = study.is_rate and not ranked
    columns: list[Column] = ["nodes", "round", "throughput" if is_rate else "seconds"]
    columns += ["rank"] if ranked else []
    columns += [s for s in STAGES if any(s in _stages_of(run) for run in study.runs)]
    columns += ["per_node"] if study.scale_unit.per_node is not None else []
    extras: list[Column] = ["quality", "rate_per_hour", "energy_joules"]
    if not is_rate:
        extras.insert(0, "work")
    for extra in extras:
        if any(getattr(run, extra) is not None for run in study.runs):
            columns.append(extra)
    columns += ["regime"] if study.regime == "weak" else []
    return columns


def _scale_title(unit: ScaleUnit) -> str:
    """The title of the scales, which says what they count where that is known."""
    title = plural(unit.unit).lower()
    is_plain = unit == ScaleUnit() or unit_of_title(title) != unit.unit
    return _NAMES["nodes"][0] if is_plain else title


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each line that is neither empty nor a comment."""
    text = text.removeprefix("\ufeff")
    kept = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not kept:
        raise DataError("The table is empty.", "Give a CSV with a header such as K,time_s.")
    header = kept[0][1]
    delimiter = max(",;\t", key=header.count)
    if delimiter not in header:
        kept = [(number, re.sub(r"\s+", ",", line.strip())) for number, line in kept]
        delimiter = ","
    try:
        for number, line in kept:
            cells = next(csv.reader([line], delimiter=delimiter, strict=True))
            yield number, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise DataError(
            f"Line {number} is not CSV: {error}.", "Write plain cells divided by commas."
        ) from None


def _columns(header: list[str]) -> tuple[dict[Column, int], list[str]]:
    """The position of each column, and the names that are not ours."""
    columns: dict[Column, int] = {}
    ignored = []
    known = [_COLUMN_OF.get(title.lower()) for title in header]
    counts_devices = any(
        column == "nodes" and unit_of_title(title) not in (None, NODE)
        for title, column in zip(header, known, strict=True)
    )
    for position, (title, column) in enumerate(zip(header, known, strict=True)):
        if title.lower() == "nodes" and counts_devices:
            column = "machines"
        elif _PER_NODE.fullmatch(title):
            column = "per_node"
        column = column or _free_title(title, known)
        if column is None:
            ignored.append(title or f"(column {position + 1}, without a name)")
        elif column in columns:
            raise DataError(
                f"Columns '{header[columns[column]]}' and '{title}' both give the {column}.",
                "Keep one of them.",
            )
        else:
            columns[column] = position
    if "nodes" not in columns:
        raise DataError(
            f"No column gives the number of nodes; the header is: {_shorten(','.join(header))}",
            f"Name it {' or '.join(_NAMES['nodes'][:6])}.",
        )
    if not columns.keys() & {"seconds", "throughput", *STAGES}:
        raise DataError(
            f"No column gives the time; the header is: {_shorten(','.join(header))}",
            "Add time_s (seconds), throughput (work per second) or stages such as compute_s.",
        )
    return columns, ignored


def _free_title(title: str, known: Sequence[Column | None]) -> Column | None:
    """The scale or the time under another common title, if no column has our name."""
    column = title_column(title)
    if column in ("nodes", "load") and "nodes" not in known:
        return "nodes"
    has_time = set(known) & {"seconds", "throughput", *STAGES}
    return column if column in ("seconds", "throughput") and not has_time else None


def _scale_unit(header: list[str], columns: dict[Column, int], rows: list[Row]) -> ScaleUnit:
    """What K counts, by its title, and how many share a node, by the columns beside it."""
    title = header[columns["nodes"]]
    unit = unit_of_title(title) or NODE
    shared = _shared_nodes(unit, columns, rows)
    if unit != NODE or shared is None:
        return ScaleUnit(unit=unit, per_node=shared)
    beside = header[columns["per_node"]]
    if unit_of_title(title) is None and shared > 1:
        raise DataError(
            f"Column {title} does not say what it counts, and column {beside} is beside it.",
            "Name it nodes, gpus, ranks or cores.",
        )
    named = _PER_NODE.fullmatch(beside)
    device = parse_unit(named["unit"]) if named else ""
    if len({row["per_node"] for row in rows}) == 1:
        return ScaleUnit(per_node=shared, device=device)
    # Nodes that are filled step by step: then K is what fills them.
    for row in rows:
        row["nodes"] *= row["per_node"]
    return ScaleUnit(unit=device or "process", per_node=shared)


def _shared_nodes(unit: str, columns: dict[Column, int], rows: list[Row]) -> int | None:
    """How many of K share a node; None if no column says."""
    if "per_node" in columns:
        counts = {int(row["per_node"]) for row in rows}
        if unit != NODE and len(counts) > 1:
            raise DataError(
                f"Column {_NAMES['per_node'][0]} holds {', '.join(map(str, sorted(counts)))}: runs "
                "with nodes filled in several ways.",
                "Make a table for each.",
            )
        return max(counts)
    if "machines" not in columns:
        return None
    most = max(math.ceil(row["nodes"] / row["machines"]) for row in rows)
    for row in rows:
        if math.ceil(row["nodes"] / most) != row["machines"]:
            raise DataError(
                f"K={row['nodes']:g} ran on {row['machines']:g} nodes, where {most} share a node "
                "in other rows.",
                "Make a table for each way to fill the nodes.",
            )
    return most


def _rows(
    lines: Iterator[tuple[int, list[str]]], columns: dict[Column, int], header: list[str]
) -> Iterator[Row]:
    titles = len(header)
    in_seconds = seconds_of_unit(header[columns["seconds"]]) if "seconds" in columns else 1.0
    seen: dict[tuple[float, ...], int] = {}
    keys: tuple[Column, ...] = tuple(
        column for column in ("nodes", "per_node", "round", "rank") if column in columns
    )
    for line, cells in lines:
        if len(cells) > titles and any(cells[titles:]):
            raise DataError(
                f"Line {line} has {len(cells)} cells, the header has {titles}.",
                "Write numbers with a point as decimal mark, and a title for each column.",
            )
        row = {
            column: _number(line, column, cells[position] if position < len(cells) else "")
            for column, position in columns.items()
        }
        if "seconds" in row:
            row["seconds"] *= in_seconds
        key = tuple(row[column] for column in keys)
        if key in seen and "round" in columns:  # without one, equal K are repeats
            named = ", ".join(f"{_NAMES[column][0]}={row[column]:g}" for column in keys)
            raise DataError(
                f"Line {line} repeats line {seen[key]}: {named}.",
                "Delete one of the two, or number repeated runs in a column rep.",
            )
        seen[key] = line
        yield row


def _number(line: int, column: Column, cell: str) -> float:
    title = _NAMES[column][0]
    if not cell:
        _bad(line, title, "the value is missing", "Fill the cell, or leave the whole column out.")
    if column == "regime" and cell.lower() in get_args(Regime):
        return float(get_args(Regime).index(cell.lower()))
    if column == "regime":
        _bad(line, title, f"'{_shorten(cell)}' is not a regime", "Write strong or weak.")
    if not _PLAIN_NUMBER.fullmatch(cell.lower()):
        hint = " with a point as decimal mark" if "," in cell else ", for example 12.5"
        _bad(line, title, f"'{_shorten(cell)}' is not a number", f"Write a plain number{hint}.")
    value = float(cell)
    problem = _problem(column, value)
    if problem is not None:
        _bad(line, title, f"{_shorten(cell)} {problem[0]}", problem[1])
    return value


def _problem(column: Column, value: float) -> tuple[str, str] | None:
    """What is wrong with a number in its column, and the fix."""
    if column in ("nodes", "machines", "per_node", "round", "rank"):
        least = 0 if column in ("round", "rank") else 1
        if least <= value <= _MOST_NODES and value == int(value):
            return None
        return "is not a count", f"Write a whole number >= {least}."
    fix = "Write what was measured."
    if not math.isfinite(value) or abs(value) > _LARGEST:
        return "is not a finite number", fix
    if column in _POSITIVE and value < _SMALLEST:
        return ("is not above zero" if value <= 0 else "is too small to be real"), fix
    return ("is negative", fix) if column != "quality" and value < 0 else None


def _bad(line: int, title: str, problem: str, fix: str) -> NoReturn:
    raise DataError(f"Line {line}, column {title}: {problem}.", fix)


def _shorten(text: str, most: int = 60) -> str:
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    return printable if len(printable) <= most else printable[: most - 3] + "..."


def _number_rounds(rows: list[Row]) -> list[str]:
    """Give rows of the same K (and rank) a round each, in the order of the file."""
    counts: dict[tuple[float, ...], int] = {}
    for row in rows:
        key = (row["nodes"], row.get("rank", -1.0))
        row["round"] = float(counts.get(key, 0))
        counts[key] = counts.get(key, 0) + 1
    if max(counts.values()) == 1:
        return []
    return ["No rep column: rows of the same K are taken as rounds, in the order of the table."]


def _declared_regime(rows: list[Row], asked: Regime | None) -> Regime | None:
    if "regime" not in rows[0]:
        return asked
    named = {get_args(Regime)[int(row["regime"])] for row in rows}
    if len(named) > 1:
        raise DataError(
            "Column regime holds strong and weak: two experiments in one table.",
            "Make a table for each, and study them one by one.",
        )
    declared: Regime = named.pop()
    if asked is not None and asked != declared:
        raise DataError(
            f"The table says regime {declared}, the option says {asked}.",
            f"Drop --regime {asked}, or correct the column.",
        )
    return declared


def _group(rows: list[Row]) -> dict[tuple[float, float], list[Row]]:
    grouped: dict[tuple[float, float], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["nodes"], row["round"]), []).append(row)
    return dict(sorted(grouped.items()))


def _regime_of_work(
    grouped: dict[tuple[float, float], list[Row]], declared: Regime | None
) -> Regime | None:
    """What the work column says was held fixed: the job, each node's share, or neither."""
    work = {key: sum(row["work"] for row in rows) for key, rows in grouped.items()}
    for (nodes, number), done in work.items():
        if done < _SMALLEST:
            raise DataError(
                f"K={nodes:g}, round {number:g} did no work.", "Write what was measured."
            )
    (first_nodes, _), first = next(iter(work.items()))
    if all(nodes == first_nodes for nodes, _ in work):
        return None
    steady = all(abs(value / first - 1) <= _SAME_WORK for value in work.values())
    growing = all(
        abs(value / first * first_nodes / nodes - 1) <= _SAME_WORK
        for (nodes, _), value in work.items()
    )
    if not steady and not growing:
        (nodes, _), other = max(work.items(), key=lambda item: abs(math.log(item[1] / first)))
        raise DataError(
            f"The work changes between the rows: {first:g} at K={first_nodes:g}, "
            f"{other:g} at K={nodes:g}: neither strong nor weak scaling.",
            "Keep the work equal (strong), or proportional to K (weak), in all rows.",
        )
    found: Regime = "strong" if steady else "weak"
    if declared is not None and declared != found:
        what = "the same at every K" if steady else "proportional to K"
        raise DataError(
            f"The work is {what}: that is {found} scaling, not {declared}.",
            f"Say {found}, or write the total work of each run into the column work.",
        )
    return found


def _run(rows: list[Row], work: float | None) -> Run:
    """One run from its row, or from the rows of its ranks; `work` is what the table leaves out."""
    first = rows[0]
    nodes = int(first["nodes"])
    ranks: tuple[Rank, ...] = ()
    stages: dict[Stage, float] = {}
    if "rank" in first:
        ranks = tuple(
            Rank(rank=int(row["rank"]), stages=_stages(row), items=row.get("work"))
            for row in sorted(rows, key=lambda row: row["rank"])
        )
        if not ranks[0].stages:
            ranks = ()
    else:
        stages = _stages(first)
    if "work" in first:
        work = sum(row["work"] for row in rows)
    if "seconds" in first:
        seconds = max(row["seconds"] for row in rows)
    elif "throughput" in first:
        assert work is not None
        seconds = work / sum(row["throughput"] for row in rows)
    else:
        seconds = max(sum(_stages(row).values()) for row in rows)
        if seconds < _SMALLEST:
            raise DataError(
                f"The stages at K={nodes}, round {int(first['round'])} add up to zero seconds.",
                "Write what was measured, or add a column time_s.",
            )
    return Run(
        nodes=nodes,
        round=int(first["round"]),
        seconds=seconds,
        stages=stages,
        ranks=ranks,
        quality=sum(row["quality"] for row in rows) / len(rows) if "quality" in first else None,
        work=work,
        rate_per_hour=max(row["rate_per_hour"] for row in rows)
        if "rate_per_hour" in first
        else None,
        energy_joules=sum(row["energy_joules"] for row in rows)
        if "energy_joules" in first
        else None,
    )


def _stages(row: Row) -> dict[Stage, float]:
    return {stage: row[stage] for stage in STAGES if stage in row}


def _check_ranks(grouped: dict[tuple[float, float], list[Row]]) -> None:
    """All ranks must be there: a missing one may be the slow one."""
    usual = max(len(rows) / nodes for (nodes, _), rows in grouped.items())
    for (nodes, number), rows in grouped.items():
        if len(rows) != usual * nodes:
            raise DataError(
                f"K={nodes:g}, round {number:g} has {len(rows)} ranks, where {usual * nodes:g} are "
                "expected.",
                "Add the rows of the missing ranks, or leave that run out.",
            )


def _stages_of(run: Run) -> dict[Stage, float]:
    return run.ranks[0].stages if run.ranks else run.stages


def _cells(run: Run, study: Study) -> Iterator[dict[str, object]]:
    shared: dict[str, object] = {
        "nodes": run.nodes,
        "per_node": study.scale_unit.per_node,
        "throughput": (run.work or 1.0) / run.seconds if study.is_rate else None,
        "round": run.round,
        "seconds": run.seconds,
        "quality": run.quality,
        "work": run.work,
        "rate_per_hour": run.rate_per_hour,
        "energy_joules": run.energy_joules,
        "regime": study.regime,
    }
    if not run.ranks:
        yield shared | {str(stage): value for stage, value in run.stages.items()}
    for rank in run.ranks:
        own: dict[str, object] = {"rank": rank.rank, "work": rank.items}
        if run.energy_joules is not None:
            own["energy_joules"] = run.energy_joules / len(run.ranks)
        yield shared | own | {str(stage): value for stage, value in rank.stages.items()}


def _cell(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
