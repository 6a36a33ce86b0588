"""What a set of paths holds: every file as a run, or with the reason why it is none."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.importers import registry
from nodewise.importers.files import format_errors
from nodewise.importers.logs.pattern import Pattern
from nodewise.importers.logs.record import LogRun
from nodewise.study.scale_unit import unit_of_title

Source = tuple[int | None, Path]
_TEXTS = {".py", ".ipynb", ".md", ".rst", ".sh", ".diff", ".patch"}  # which may quote a log
_TRACKERS = ("tensorboard", "wandb", "mlflow")  # which record what a program also prints
_SAME = 1e-9  # relative: two records of one run have the same time


class Reading(NamedTuple):
    """How logs are read: a format of the user, a pattern of K in paths, or the name of a format."""

    pattern: Pattern | None = None
    scale: str = ""
    form: str = ""


def expand(sources: Sequence[Source]) -> list[Source]:
    """The files of all sources: of folders and of patterns such as logs/*.out."""
    found: list[Source] = []
    for scale, path in sources:
        if path.exists() or not re.search(r"[*?\[]", str(path)):
            named = [path]
        else:
            root = Path(path.anchor)
            named = sorted(root.glob(str(path.relative_to(root))))
            if not named:
                raise DataError(f"No file matches {path}.", "Name files that exist.")
        for one in named:
            if not one.exists():
                raise DataError(f"{one} does not exist.", "Name files or folders that exist.")
            files = registry.files_in(one) if one.is_dir() else [one]
            found += [(scale, file) for file in files]
    kept: dict[Path, Source] = {}  # a file counts once; where K is given for it, with that K
    for scale, file in found:
        known, _ = kept.setdefault(file.resolve(), (scale, file))
        if known is None and scale is not None:
            kept[file.resolve()] = (scale, file)
        elif scale not in (None, known):
            raise DataError(f"{file} is given as K={known} and as K={scale}.", "Name it once.")
    return list(kept.values())


def has_logs(sources: Sequence[Source]) -> bool:
    """Whether the sources are logs; traces beside them come first."""
    formats = [_detected(path) for _, path in expand(sources)]
    gives = {form.gives for form in formats if form is not None}
    return "logs" in gives and "trace" not in gives


def survey(sources: Sequence[Source], how: Reading = Reading()) -> list[LogRun]:  # noqa: B008
    """Every run of the sources, also those that cannot be used, each with its reason."""
    scale = _expression(how.scale)
    runs: list[LogRun] = []
    files = expand(sources)
    folders = {path.parent for _, path in files}
    is_mixed = len({folder.is_absolute() for folder in folders}) > 1
    common = os.path.commonpath(folders) if len(folders) > 1 and not is_mixed else ""
    for given, paths, form in _groups(files, how):
        for run in _read(paths, form, how):
            runs.append(_with_scale(_plausible(run), given, scale, common))
    named = {path for _, path in sources}
    runs = [_without_quotes(run, named) for run in runs]
    return _without_trackers(_without_copies(runs))


def _detected(path: Path) -> registry.Format | None:
    """The format of a file; None if it cannot be read."""
    try:
        return registry.detect(path)
    except DataError:
        return None


Group = tuple[int | None, list[Path], registry.Format | None]


def _groups(files: list[Source], how: Reading) -> Iterator[Group]:
    """Files that are read together: the ranks of a run, or one file."""
    claimed: set[Path] = set()
    together: dict[Path, tuple[int | None, list[Path], registry.Format]] = {}
    found: list[Group] = []
    for scale, path in files:
        form = registry.by_name(how.form) if how.form else _detected(path)
        if form is not None and form.gives == "logs" and form.owns_folder:
            claimed.add(path.parent)
        if form is not None and form.gives == "logs" and form.has_node_files:
            group = together.setdefault(path.parent, (scale, [], form))
            if not group[1]:
                found.append(group)
            group[1].append(path)
        else:
            found.append((scale, [path], form))
    for scale, paths, form in found:
        is_log = form is not None and form.gives == "logs"
        inner = any(folder in paths[0].parents for folder in claimed)
        if is_log or not inner or how.pattern:
            yield scale, paths, form


def _read(paths: list[Path], form: registry.Format | None, how: Reading) -> list[LogRun]:
    path = paths[0]
    try:
        if how.pattern is not None:
            return how.pattern.read(path)
        if form is None:
            registry.detect(path)  # or why it cannot be read
            return [LogRun(path=str(path), format="", problem="unknown format")]
        if form.gives != "logs":
            problem = f"{form.title}; read it with: {form.command(path)}"
            return [LogRun(path=str(path), format=form.name, problem=problem)]
        with format_errors(path):
            runs: list[LogRun] = form.read(paths if form.has_node_files else path)
        return runs or [LogRun(path=str(path), format=form.name, problem="it has no run")]
    except DataError as error:
        return [LogRun(path=str(path), format=form.name if form else "", problem=error.what)]


def _plausible(run: LogRun) -> LogRun:
    """A run whose time no program can take is left out."""
    if run.problem or run.outcome != "ok" or (run.seconds and 1e-9 < run.seconds < 1e10):
        return run
    return msgspec.structs.replace(run, problem=f"a run cannot take {run.seconds or 0:g} s")


def _without_quotes(run: LogRun, named: set[Path]) -> LogRun:
    """Programs and documents in a folder do not count as logs, unless the user names them."""
    path = Path(run.path)
    if run.problem or path.suffix not in _TEXTS or path in named:
        return run
    return msgspec.structs.replace(run, problem=f"a {path.suffix} file may quote a log; name it")


def _expression(text: str) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        found = re.compile(text)
    except re.error as error:
        raise SpecError(f"--k '{text}' is not a regular expression: {error}.", _K_EXAMPLE) from None
    if found.groups != 1:
        raise SpecError(f"--k '{text}' must have one group.", _K_EXAMPLE)
    return found


_K_EXAMPLE = "Write for example --k 'n(\\d+)' for logs/n8/out.log."


def _with_scale(
    run: LogRun, given: int | None, scale: re.Pattern[str] | None, common: str
) -> LogRun:
    """A run with K as the user gives it."""
    if given is None and scale is not None:
        # the common part of all paths does not give K, unless all files have one K
        found = _scales(scale, run.path.removeprefix(common)) or _scales(scale, run.path)
        if len(found) != 1:
            said = (
                f"several numbers ({', '.join(map(str, sorted(found)))})" if found else "no number"
            )
            problem = run.problem or f"--k '{scale.pattern}' finds {said} in its path"
            return msgspec.structs.replace(run, problem=problem)
        given = found.pop()
    if given is None:
        return run
    counted = unit_of_title(scale.pattern.partition("(")[0]) if scale else None
    return msgspec.structs.replace(run, scale=given, scale_unit=counted or "")


def _scales(scale: re.Pattern[str], text: str) -> set[int]:
    """The numbers that a pattern finds: n8 of run2/n8.log, where run2 ends with an n as well."""
    found = [one for one in scale.finditer(text)
             if one[1] and one[1].isdecimal() and 0 < int(one[1][:9]) < 10_000_000]  # fmt: skip
    words = [one for one in found
             if not text[one.start() : one.start() + 1].isalpha()
             or not text[: one.start()][-1:].isalpha()]  # fmt: skip
    return {int(one[1]) for one in words or found}


def _without_copies(runs: list[LogRun]) -> list[LogRun]:
    """Several records of one run, in one folder and with one time, count once."""
    kept: list[LogRun] = []
    first: dict[tuple[object, ...], int] = {}  # with this time in this folder
    for run in runs:
        place = run.path.rpartition(": job ")[2] if run.is_record else Path(run.path).parent
        key = (place, run.iterations, run.seconds)
        twin = first.setdefault(key, len(kept)) if run.seconds else len(kept)
        if twin < len(kept) and _is_copy(kept[twin], run):
            if len(run.changes) > len(kept[twin].changes):
                kept[twin], run = run, kept[twin]  # the record that says more counts
            name = Path(kept[twin].path).name
            run = msgspec.structs.replace(run, problem=f"the same run as {name}")
        kept.append(run)
    return kept


def _without_trackers(runs: list[LogRun]) -> list[LogRun]:
    """What a tracker recorded below the folder of a log is the run of that log, with the same K.

    Where neither says its K, there must be only these two.
    """
    logs: dict[Path, list[LogRun]] = {}
    for run in runs:
        if run.format not in _TRACKERS and not run.problem and not run.is_record:
            logs.setdefault(Path(run.path).parent, []).append(run)
    trackers = [run for run in runs if run.format in _TRACKERS and not run.problem]
    kept = []
    for run in runs:
        near = next((logs[one] for one in Path(run.path).parents if one in logs), [])
        are_two = len(near) == len(trackers) == 1
        same = [log for log in near if _may_be_same(run, log) and (are_two or _k(run) == _k(log))]
        if same and run in trackers and (are_two or _k(run)):
            run = msgspec.structs.replace(run, problem=f"the run of {Path(same[0].path).name}")
        kept.append(run)
    return kept


def _k(run: LogRun) -> int | None:
    return run.scale or run.world_size or run.nodes


def _may_be_same(one: LogRun, other: LogRun) -> bool:
    """Whether no fact of the two differs that a run has once."""
    if None not in (_k(one), _k(other)) and _k(one) != _k(other):
        return False
    facts = ((getattr(one, name), getattr(other, name))
             for name in ("scale", "world_size", "nodes", "global_batch"))  # fmt: skip
    return not any(a and b and a != b for a, b in facts)


def _is_copy(one: LogRun, other: LogRun) -> bool:
    if one.problem or other.problem or one.path == other.path:
        return False
    if one.is_record and other.is_record:  # the job in two outputs of sacct
        of_one, of_other = (run.path.rpartition(": job ")[2] for run in (one, other))
        return of_one == of_other and one.run_seconds == other.run_seconds
    near = Path(one.path).parent == Path(other.path).parent
    times = [(one.run_seconds, other.run_seconds), (one.step_seconds, other.step_seconds)]
    known = [(a, b) for a, b in times if a and b]
    same = all(abs(a / b - 1) <= _SAME for a, b in known)
    for name in ("scale", "world_size", "global_batch"):
        a, b = getattr(one, name), getattr(other, name)
        same = same and (a is None or b is None or a == b)
    return near and bool(known) and same and one.iterations == other.iterations
