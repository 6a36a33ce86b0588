"""The vocabulary of the ledger: every cause of lost speedup, and the one change that acts on it."""

from typing import Literal

import msgspec

from nodewise.study.study import Stage

CauseName = Literal[
    "serial fraction",
    "communication",
    "load imbalance",
    "slow node",
    "jitter",
    "late rank",
    "input/output",
    "compute inflation",
    "foreign load",
    "oversubscription",
    "engine overhead",
    "emulation",
    "idle",
    "unexplained",
]
PartName = CauseName | Literal["compute"]  # a part of the wall time, lost or not


# For communication that runs beside compute already.
SEND_LESS = (
    "send less or faster: fewer and larger messages, compression, a better collective, a faster "
    "link; part of it is already hidden"
)


# For time that the recorded stages leave out.
NAME_THE_REST = "record what runs outside of the recorded stages as a stage of its own"

_OWN_STAGE = "its seconds as a stage"
_EACH_RANK = "the stages of each rank in three rounds or more"


class Cause(msgspec.Struct, frozen=True):
    """What moves the knee when this cause is to blame, what that acts on, what would show it."""

    change: str
    acts_on: str
    record: str = _OWN_STAGE


CAUSES: dict[CauseName, Cause] = {
    "serial fraction": Cause(
        "split, overlap or speed up the stage that does not shrink with K",
        "work that every node repeats or that one node does while the others wait",
    ),
    "communication": Cause(
        "send less, send later or send faster: fewer and larger messages, compression, overlap "
        "with compute, a better collective, a faster link",
        "time on the wire",
    ),
    "load imbalance": Cause(
        "divide the work evenly: equal shards, or small pieces handed out on demand",
        "the extra items of the fullest rank",
        _EACH_RANK,
    ),
    "slow node": Cause(
        "repair, replace or leave out the slow node, or give it a smaller share",
        "the extra seconds per item of one rank",
        _EACH_RANK,
    ),
    "jitter": Cause(
        "synchronise less often, make steps longer, and keep other load off the nodes",
        "a different rank being last each time",
        _EACH_RANK,
    ),
    "late rank": Cause(
        f"record {_EACH_RANK}",
        "one rank being last: an uneven shard, a slow node or chance",
        _EACH_RANK,
    ),
    "input/output": Cause(
        "read ahead, cache, shard or move the data nearer to the nodes",
        "time spent reading and writing",
    ),
    "compute inflation": Cause(
        "keep the work per node efficient: a larger share per node, pinning, less repeated work",
        "the same work costing more compute seconds in total than on the base scale",
    ),
    "foreign load": Cause(
        "keep other processes off the nodes, or request exclusive nodes",
        "time in which another process had the core of the last rank",
        "how long each rank waits for its core (`nodewise measure` does so on real nodes)",
    ),
    "oversubscription": Cause(
        "start no more ranks and threads than there are cores, or rehearse larger scales",
        "time in which another rank of the same job had the core of the last rank",
        "how long each rank waits for its core (`nodewise measure` does so on real nodes)",
    ),
    "engine overhead": Cause(
        "hand out fewer and larger tasks, keep the workers running between them, or take an engine "
        "that schedules less",
        "time in which the engine starts workers, schedules tasks and hands them out",
    ),
    "emulation": Cause(
        "rehearse with fewer nodes or a smaller share of the CPU for each; real nodes do not have "
        "this",
        "waiting that emulated nodes add to every step, as a dry step shows it",
        "the waits of a dry step (the rehearsal engine measures them)",
    ),
    "idle": Cause(
        "find what the ranks wait for: record the stages of each rank",
        "waiting that totals cannot divide among its causes",
        _EACH_RANK,
    ),
    "unexplained": Cause(
        "record stages (compute_s, comm_s, io_s, serial_s) at every scale",
        "time that no recorded stage accounts for",
    ),
}

# What the seconds of each stage beyond their ideal share are called when only totals are known.
CAUSE_OF_STAGE: dict[Stage, CauseName] = {
    "compute": "compute inflation",
    "communication": "communication",
    "idle": "idle",
    "io": "input/output",
    "serial": "serial fraction",
    "overhead": "engine overhead",
}
