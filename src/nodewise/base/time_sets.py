"""Sets of time as sorted, disjoint intervals of integer nanoseconds. All lengths are exact."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Nanoseconds = NDArray[np.int64]


class Cover(NamedTuple):
    """A set of time: sorted intervals that neither overlap nor touch."""

    starts: Nanoseconds
    ends: Nanoseconds

    @property
    def length(self) -> int:
        """Nanoseconds in the set."""
        return int((self.ends - self.starts).sum())

    def before(self, times: Nanoseconds) -> Nanoseconds:
        """Nanoseconds of the set that lie before each of the times."""
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        until = np.zeros(len(self.starts) + 1, np.int64)
        np.cumsum(self.ends - self.starts, out=until[1:])
        at = np.searchsorted(self.starts, times, side="right") - 1
        inside = np.clip(times - self.starts[at], 0, self.ends[at] - self.starts[at])
        return np.where(at < 0, 0, until[at] + inside)

    def between(self, starts: Nanoseconds, ends: Nanoseconds) -> Nanoseconds:
        """Nanoseconds of the set within each of the intervals."""
        return self.before(ends) - self.before(starts)

    def within(self, start: int, end: int) -> "Cover":
        """The part of the set in a window."""
        starts, ends = np.maximum(self.starts, start), np.minimum(self.ends, end)
        kept = starts < ends
        return Cover(starts[kept], ends[kept])

    @property
    def gaps(self) -> "Cover":
        """The time between the intervals."""
        return Cover(self.ends[:-1], self.starts[1:])


def union(starts: Nanoseconds, ends: Nanoseconds) -> Cover:
    """The time that any of the intervals covers; intervals that touch become one.

    >>> union(np.array([5, 0, 3, 9]), np.array([7, 4, 5, 9]))
    Cover(starts=array([0]), ends=array([7]))
    """
    some = ends > starts
    if not some.all():
        starts, ends = starts[some], ends[some]
    if not len(starts):
        return Cover(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if (starts[1:] < starts[:-1]).any():  # of millions of rows, what is in order is not copied
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    ends = np.maximum.accumulate(ends)
    opens = np.concatenate([[True], starts[1:] > ends[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    starts = starts[opens]
    return Cover(starts, ends[closes])


def joined(*covers: Cover) -> Cover:
    """The union of sets of time."""
    return union(
        np.concatenate([cover.starts for cover in covers]),
        np.concatenate([cover.ends for cover in covers]),
    )


def common(one: Cover, other: Cover) -> Cover:
    """The time that is in both sets."""
    if not len(one.starts) or not len(other.starts):
        return Cover(np.zeros(0, np.int64), np.zeros(0, np.int64))
    cuts = np.unique(np.concatenate([one.starts, one.ends, other.starts, other.ends]))
    starts, ends = cuts[:-1], cuts[1:]
    both = (one.between(starts, ends) > 0) & (other.between(starts, ends) > 0)
    return union(starts[both], ends[both])


def without(one: Cover, other: Cover) -> Cover:
    """The time that is in the first set and not in the second."""
    if not len(one.starts) or not len(other.starts):
        return one
    cuts = np.unique(np.concatenate([one.starts, one.ends, other.starts, other.ends]))
    starts, ends = cuts[:-1], cuts[1:]
    left = (one.between(starts, ends) > 0) & (other.between(starts, ends) == 0)
    return union(starts[left], ends[left])


def transfer_and_wait(lengths: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    """Split the lengths of matched collective calls into transfer and waiting.

    `lengths` has one row per call and one column per rank.

    The rank that comes last does not wait, so the shortest call is the transfer.

    >>> transfer, wait = transfer_and_wait(np.array([[7, 2, 3]]))
    >>> transfer.tolist(), wait.tolist()
    ([[2]], [[5, 0, 1]])
    """
    transfer = lengths.min(axis=1, keepdims=True)
    return transfer, lengths - transfer
