"""Random tables and questions, and what a decision says in three figures."""

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.decide.decide import Decision
from nodewise.decide.inputs import Question
from nodewise.report.notebook import Job
from nodewise.study.study import Study
from nodewise.study.table import parse_table

SCALES = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)


class Case(NamedTuple):
    """A table, and the inputs of a question."""

    table: str
    weak: bool
    inputs: dict[str, Any]

    @property
    def study(self) -> Study:
        return parse_table(self.table, "case", "weak" if self.weak else None)

    @property
    def job(self) -> Job:
        return Job(self.study, Question())


class Answer(NamedTuple):
    """The recommended K, the objective it is chosen by, and its bill."""

    nodes: int | None
    objective: str
    cost: float | None


def answer_of(decision: Decision) -> Answer:
    nodes = decision.recommended.nodes
    cost = None if nodes is None else decision.row(nodes).cost
    return Answer(nodes, decision.objective.name, cost)


@contextmanager
def unless_no_run_ends() -> Iterator[None]:
    """Leave out a case whose failures come so often that every scale is refused."""
    try:
        yield
    except DataError as error:
        if error.what.startswith("No run ever ends"):
            reject()
        raise


@st.composite
def cases(draw: st.DrawFn) -> Case:
    scales = sorted(draw(st.sets(st.sampled_from(SCALES), min_size=2, max_size=7)))
    weak = draw(st.booleans())
    table = draw(tables(scales, weak))
    return Case(table, weak, draw(questions(table)))


@st.composite
def tables(draw: st.DrawFn, scales: list[int], weak: bool) -> str:
    """Rounds of a law with noise, with any of the columns that a table may have."""
    serial = draw(st.sampled_from([0.0, 0.02, 0.1, 0.4]))
    transfer = draw(st.sampled_from([0.0, 0.001, 0.01, 0.05]))
    base = draw(st.sampled_from([0.4, 95.0, 3600.0, 2e5]))
    noise = draw(st.sampled_from([0.0, 0.002, 0.03, 0.15]))
    most = draw(st.integers(1, 7))
    unequal = draw(st.booleans())
    generator = random.Random(draw(st.integers(0, 999)))
    columns = ("rate", "quality", "work", "energy", "gpus", "stages", "throughput")
    chosen = draw(st.sets(st.sampled_from(columns), max_size=4))
    has = {name: name in chosen for name in columns}
    head = ["gpus", "gpus_per_node"] if has["gpus"] else ["K"]
    head += ["rep", "throughput" if has["throughput"] else "time_s"]
    titles = {"rate": "rate_per_hour", "quality": "quality", "work": "work", "energy": "energy_j",
              "stages": "compute_s,comm_s"}  # fmt: skip
    head += [title for name, title in titles.items() if has[name]]
    lines = [",".join(head)]
    per_node = draw(st.sampled_from([2, 4, 8]))
    drift = draw(st.sampled_from([0.0, 0.002, 0.02]))
    for at, k in enumerate(scales):
        for number in range(draw(st.integers(1, most)) if unequal else most):
            share = 1 + transfer * k if weak else serial + (1 - serial) / k + transfer * (k - 1)
            seconds = base * share * math.exp(noise * generator.gauss(0, 1))
            rate = 1000 * (k if weak else 1) / seconds
            cells: list[Any] = [k, *([per_node] if has["gpus"] else []), number]
            cells.append(repr(rate if has["throughput"] else seconds))
            cells += [round(1.7 * k**0.95, 6)] * has["rate"]
            cells += [round(0.9 - drift * at + 0.001 * generator.gauss(0, 1), 6)] * has["quality"]
            cells += [1000 * (k if weak else 1)] * has["work"]
            cells += [round(300 * k**1.1 * seconds, 6)] * has["energy"]
            cells += [repr(0.8 * seconds), repr(0.1 * seconds)] if has["stages"] else []
            lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


@st.composite
def questions(draw: st.DrawFn, table: str) -> dict[str, Any]:
    """Some inputs with values that a table of these seconds makes plausible."""
    head, first = (line.split(",") for line in table.splitlines()[:2])
    has_times = "time_s" in head
    base = float(first[head.index("time_s")]) if has_times else 1.0
    hours = base / 3600
    rated = "rate_per_hour" in head
    price = draw(st.sampled_from([None, 2, "1..3", 0, 0.37] if rated else
                                 [None, 2, 2, "1..3", 0.37, 0, 40]))  # fmt: skip
    if "gpus" in head and price is not None and draw(st.booleans()):
        price = f"{price}/gpu"
    money = {
        "fixed": st.sampled_from([0, 3, "1..9", 100]),
        "storage": st.sampled_from([0.5, "0.1..2"]),
        "budget": st.sampled_from([0.5, 1.0, 3.0, 20.0]).map(lambda folds: folds * 2 * hours),
        "value_per_hour": st.sampled_from([0, 1, 30, "0..60"]),
        "currency": st.sampled_from(["EUR", "€"]),
    }
    plain = {
        "startup": st.sampled_from([0.01, 0.3, 2]).map(lambda folds: folds * base),
        "billing_unit": st.sampled_from([1, 60, 3600]),
        "billing_minimum": st.sampled_from([60, 600]),
        "deadline": st.sampled_from([0.05, 0.2, 0.5, 1.0, 3.0]).map(lambda folds: folds * base),
        "confidence": st.sampled_from([0.01, 0.5, 0.8, 0.99, 1]),
        "threshold": st.sampled_from([0, 0.3, 0.5, 0.9, 1]),
        "least": st.sampled_from([1, 2, 4, 100]),
        "center": st.just("median"),
        "quality_tolerance": st.sampled_from([0.0, 0.01]),
        "quality_better": st.sampled_from(["higher", "lower"]),
        "watts": st.sampled_from([400, "100..700"]),
        "mtbf": st.sampled_from([3, 100]).map(lambda folds: folds * base),
        "pue": st.just(1.4),
        "grid": st.just("FRA"),
    }
    spot = {
        "preempt": st.sampled_from(["0.05/h", "0.4/gang-h", "0.01..0.3/h"]),
        "spot": st.sampled_from([0.4, "0.3..0.6"]),
        "own": st.just(0.5),
        "commit": st.just(0.3),
    }
    if "gpus" in head:
        plain["per_node"] = st.sampled_from([2, 4])
    elif not isinstance(price, str):
        plain["unit"] = st.sampled_from(["gpus", "ranks"])
    if "energy_j" in head:
        plain["energy_budget"] = st.sampled_from([0.5, 2.0]).map(lambda folds: 300 * folds * base)
    allowed = plain | money | spot if rated or price is not None else plain
    names = draw(st.sets(st.sampled_from(sorted(allowed)), max_size=5))
    inputs = {name: draw(allowed[name]) for name in sorted(names)}
    if draw(st.booleans()) and "startup" in inputs:
        inputs["startup"] = f"{0.5 * inputs['startup']!r}..{1.5 * inputs['startup']!r}"
    return inputs if price is None else {"price": price, **inputs}
