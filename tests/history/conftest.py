"""Histories of simulated studies, with a slowdown where a test wants one."""

import datetime
import hashlib
from collections.abc import Callable

import pytest

from nodewise.decide.inputs import Question
from nodewise.decide.prices.lookup import question_of
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.history.entry import Entry, entry_of

USUAL = Law(s=0.02, c=0.004, growth="log2", base_seconds=10.0)


def commit(number: int) -> str:
    return hashlib.sha1(str(number).encode()).hexdigest()


def entry(number: int, law: Law = USUAL, workload: str = "solver", price: float = 0.0) -> Entry:
    """The study of one commit; its noise is seeded by the number of the commit."""
    truth = PlantedTruth(law=law, scales=(1, 2, 4, 8), rounds=5, noise=0.02, detail="stages",
                         seed=number + 1000 * len(workload))  # fmt: skip
    date = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=number)
    asked: Question = question_of({"price": {"per_node_hour": price}} if price else {})
    return entry_of(simulate(truth), asked, date=f"{date.isoformat()}Z", commit=commit(number),
                    workload=workload)  # fmt: skip


@pytest.fixture(scope="session")
def usual() -> list[Entry]:
    """Twelve studies of a program that does not change."""
    return [entry(number, price=3.2) for number in range(12)]


@pytest.fixture(scope="session")
def slower(usual: list[Entry]) -> Callable[[Law, int], list[Entry]]:
    """The history, continued with studies that follow another law."""

    def continued(law: Law, count: int) -> list[Entry]:
        return [*usual, *(entry(12 + more, law, price=3.2) for more in range(count))]

    return continued
