"""Benefit of stage times: emulated nodes, fit on K <= 4, prediction of 8 and 16.

    .venv/bin/python benchmarks/stage_times.py

Each study of benchmarks/data/rehearsed was measured with the spec beside it, by

    nodewise measure benchmarks/data/rehearsed/torch-50.toml -o torch-50.study
    .venv/bin/python benchmarks/stage_times.py --store torch-50.study

and is predicted twice from the same runs: by their total times alone, and by the seconds of each
stage of each rank. The truth is what the larger scales took. Pairs of studies that differ by their
link alone are also moved from one link to the other (`nodewise predict --cluster`).
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from nodewise.decide.inputs import Question
from nodewise.decide.paper.relocate import Collective, Move, Place, relocate
from nodewise.diagnose.links import Link
from nodewise.explain.predict.curve import FEWEST_SCALES, fit_curve, stage_parts
from nodewise.study import store
from nodewise.study.spec import parse_spec
from nodewise.study.study import Rank, Run, Study
from nodewise.study.table import format_table, parse_table

HERE = Path(__file__).parent
REHEARSED = HERE / "data" / "rehearsed"
SHARED = HERE.parents[1] / "shared" / "data" / "rehearsal-sample.csv"
KNOWN = 4  # the largest scale that a fit sees

# Studies that differ by their link alone; the bytes of 4 timed steps: 19,210 gradients of 4 bytes.
PAIRS: dict[tuple[str, str], tuple[Collective, float]] = {
    ("torch-50", "torch-10"): ("ring", 4 * 19_210 * 4),
}


class Score(NamedTuple):
    """How a study was predicted one way: its error at each larger scale, and the interval."""

    errors: dict[int, float]
    held: list[bool]
    width: float

    @property
    def mean(self) -> float:
        """Over the larger scales."""
        return float(np.mean(list(self.errors.values())))


def stored() -> dict[str, Study]:
    """The studies in the repository, by name."""
    return {
        path.stem: parse_table(path.read_text(), path.stem)
        for path in sorted(REHEARSED.glob("*.csv"))
    }


def write_table(folder: Path) -> None:
    """A measured study as the table that the repository keeps: a row a rank, milliseconds."""
    study = store.load(folder)
    runs = tuple(
        msgspec.structs.replace(
            run,
            seconds=round(run.seconds, 4),
            quality=None,
            ranks=tuple(
                msgspec.structs.replace(
                    rank, stages={stage: round(spent, 4) for stage, spent in rank.stages.items()}
                )
                for rank in run.ranks
            ),
        )
        for run in sorted(study.good_runs, key=lambda run: (run.nodes, run.round))
    )
    made = max(run.started for run in runs)[:10]
    comment = f"measured with {study.name}.toml on two cores, {made}; emulated nodes"
    text = format_table(msgspec.structs.replace(study, runs=runs), [comment])
    (REHEARSED / f"{study.name}.csv").write_text(text)


def without_stages(study: Study) -> Study:
    """The same runs, with nothing but their wall times."""
    bare = tuple(Run(nodes=r.nodes, round=r.round, seconds=r.seconds) for r in study.runs)
    return msgspec.structs.replace(study, runs=bare)


def score(study: Study) -> Score:
    """Fit on the smaller scales, compare with the larger ones."""
    small = tuple(run for run in study.runs if run.nodes <= KNOWN)
    curve = fit_curve(msgspec.structs.replace(study, runs=small))
    larger = [k for k in study.scales if k > KNOWN]
    errors, held, widths = {}, [], []
    for said in curve.points(larger):
        assert said is not None
        truth = float(np.mean([run.seconds for run in study.at(said.nodes)]))
        errors[said.nodes] = said.seconds / truth - 1
        held.append(said.low80 <= truth <= said.high80)
        widths.append(said.high80 / said.low80)
    size = {k: abs(error) for k, error in errors.items()}
    return Score(size, held, float(np.median(widths)))


def table(studies: dict[str, Study]) -> None:
    """Both ways, study by study."""
    wide = max(map(len, studies))
    print(f"{'':{wide}}    total times        stage times")
    print(f"{'study':{wide}}   at 8   at 16       at 8   at 16")
    both: dict[str, list[Score]] = {"total times": [], "stage times": []}
    for name, study in studies.items():
        scores = score(without_stages(study)), score(study)
        for kept, one in zip(both.values(), scores, strict=True):
            kept.append(one)
        cells = ["   ".join(_percent(one.errors.get(k)) for k in (8, 16)) for one in scores]
        print(f"{name:{wide}}  {cells[0]}     {cells[1]}")
    for name, scores_of_way in both.items():
        errors = [one.mean for one in scores_of_way]
        held = [inside for one in scores_of_way for inside in one.held]
        print(
            f"{name}: median {100 * np.median(errors):.1f} %, mean {100 * np.mean(errors):.1f} %, "
            f"90th percentile {100 * np.percentile(errors, 90):.1f} %; 80 % intervals hold "
            f"{sum(held)} of {len(held)}, high/low "
            f"{np.median([one.width for one in scores_of_way]):.2f}"
        )
    better = [s.mean < t.mean for t, s in zip(*both.values(), strict=True)]
    print(f"with stage times better on {sum(better)} of {len(better)}")


def losses(studies: dict[str, Study]) -> None:
    """Is what loses most at 8 and 16 foretold from K <= 4?"""
    hits = []
    for name, study in studies.items():
        small = tuple(run for run in study.runs if run.nodes <= KNOWN)
        curve = fit_curve(msgspec.structs.replace(study, runs=small))
        parts = stage_parts(study)
        if parts is None:
            continue
        for at, nodes in enumerate(study.scales):
            said = curve.losses(nodes) if nodes > KNOWN else None
            if said is None:
                continue
            lost = {
                part: seconds[at] - seconds[0] * study.scales[0] / nodes
                for part, seconds in parts.items()
            }
            truth = max(lost, key=lambda part: lost[part])
            hits.append(truth in said.largest)
            named = " or ".join(said.largest)
            print(f"  {name} at K={nodes}: {named or 'nothing'} foretold, {truth} measured")
    print(f"the largest loss was among those foretold in {sum(hits)} of {len(hits)}")


def _percent(error: float | None) -> str:
    return "    -" if error is None else f"{100 * error:3.0f} %"


def moves(studies: dict[str, Study]) -> None:
    """Each of a pair from the profile on the other's link."""
    for (one, other), (collective, size) in PAIRS.items():
        for here, there in ((one, other), (other, one)):
            told = Move(
                name=there,
                source=Place(network=_link(here), collective=collective),
                target=Place(network=_link(there), collective=collective),
                bytes_per_run=size,
            )
            found = relocate(studies[here], told, Question())
            errors, held = [], []
            for row in found.forecast.rows:
                if row.nodes in studies[there].scales and row.nodes > 1:
                    truth = float(np.mean([run.seconds for run in studies[there].at(row.nodes)]))
                    assert row.seconds and row.low80 and row.high80
                    errors.append(abs(row.seconds / truth - 1))
                    held.append(row.low80 <= truth <= row.high80)
            print(
                f"  {here} moved to {there}: mean error {100 * np.mean(errors):.1f} %, largest "
                f"{100 * max(errors):.1f} %; 80 % intervals hold {sum(held)} of {len(held)}"
            )


def _link(name: str) -> Link:
    rate = parse_spec((REHEARSED / f"{name}.toml").read_text()).engine.rehearsal
    return Link(
        latency_seconds=0, bytes_per_second=rate.link_mbit_per_second * 1e6 / 8, efficiency=1
    )


def sample(path: Path) -> Iterator[Study]:
    """The larger set of earlier rehearsals: stage times of each rank at K = 1 to 8 or 16."""
    runs: dict[tuple[str, str], dict[tuple[int, int], list[dict[str, str]]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = (row["condition"], row["comm_threads_offloaded"])
            runs.setdefault(name, {}).setdefault((int(row["K"]), int(row["rep"])), []).append(row)
    for name, found in runs.items():
        made = tuple(_sampled(k, rep, rows) for (k, rep), rows in sorted(found.items()))
        study = Study(name="-".join(name), regime="strong", runs=made)
        if sum(k <= KNOWN for k in study.scales) >= FEWEST_SCALES:
            yield study


def _sampled(nodes: int, rep: int, rows: list[dict[str, str]]) -> Run:
    ranks = tuple(
        Rank(
            rank=int(row["rank"]),
            stages={
                "compute": float(row["compute_s"]),
                "communication": float(row["transfer_s"]),
                "idle": float(row["wait_s"]),
                "io": float(row["io_s"]),
                "serial": float(row["serial_s"]),
            },
        )
        for row in rows
    )
    return Run(nodes=nodes, round=rep, seconds=float(rows[0]["T_step_s"]), ranks=ranks)


def main() -> None:
    """Score and print, or keep a study that was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, metavar="STUDY", help="keep it in the repository")
    given = parser.parse_args()
    if given.store:
        write_table(given.store)
        return
    studies = stored()
    print(f"{len(studies)} rehearsed studies, K <= {KNOWN} predicts 8 and 16: |error|")
    table(studies)
    print("\nThe largest loss")
    losses(studies)
    print("\nFrom one link to another")
    moves(studies)
    if SHARED.exists():
        print("\nEarlier rehearsals")
        table({study.name: study for study in sample(SHARED)})


if __name__ == "__main__":
    main()
