"""The menu: each ceiling, the axis that raises it, the tools; and why another axis would not.

Every axis removes one kind of ceiling. A remedy for another one leaves the real ceiling where it is
and adds communication, so a proposal is compared with the named ceiling before anything is built.
"""

from typing import Literal, get_args

import msgspec

CeilingName = Literal[
    "data I/O",
    "compute",
    "memory bandwidth",
    "memory capacity",
    "page faults",
    "latency",
    "coordination",
    "communication",
]
Confidence = Literal["high", "medium", "low"]
AxisName = Literal["data", "training", "model", "inference", "coordination"]
AnswerWord = Literal["yes", "no", "undecided"]
CEILINGS: tuple[CeilingName, ...] = get_args(CeilingName)
_ACTIONS: dict[AxisName, str] = {
    "data": "split the data",
    "training": "split the work",
    "model": "split the model",
    "inference": "add replicas",
    "coordination": "reduce messages and waiting",
}


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the menu: what is measured, the axis, its tools, what it cures and what not."""

    symptom: str
    axis: AxisName | None  # None: no axis helps; the cure is on the one machine
    tools: tuple[str, ...]
    cures: str
    leaves: str
    first: str  # what is cheaper than any distribution, to try before it


MENU: dict[CeilingName, Remedy] = {
    "data I/O": Remedy(
        symptom="the data are too large to read or to store on one node",
        axis="data",
        tools=("Spark", "Ray Data", "Dask", "sharded loaders"),
        cures="each node reads and stores its own part, so bandwidth and room grow with the nodes",
        leaves="arithmetic, a model that does not fit, the time of one request",
        first="read ahead, larger blocks, one sync for many writes, cache, compress, a local disk",
    ),
    "compute": Remedy(
        symptom="the arithmetic units are the limit and the model fits on one device",
        axis="training",
        tools=("PyTorch DDP", "Horovod", "MPI"),
        cures="each worker computes on its own part of the batch, so arithmetic grows with them",
        leaves="a model that does not fit, slow reading, the exchange of gradients",
        first="a faster BLAS, all cores, lower precision, compiled code",
    ),
    "memory bandwidth": Remedy(
        symptom="the cores wait for bytes from memory; few operations are done on each byte",
        axis="model",
        tools=("FSDP", "DeepSpeed ZeRO", "Megatron"),
        cures="each node streams its own part of the footprint from its own memory",
        leaves="arithmetic that is far below its peak anyway, reading from disk",
        first="fuse passes over memory, smaller types, a denser layout, blocks that stay in cache",
    ),
    "memory capacity": Remedy(
        symptom="model plus optimizer state, or the working set, exceed one device's memory",
        axis="model",
        tools=("FSDP", "DeepSpeed ZeRO", "Megatron"),
        cures="parameters, gradients and states are split, so no device holds all of them",
        leaves="slow arithmetic and slow reading; it adds communication to every step",
        first="smaller types, recomputed activations, a smaller batch, offloading",
    ),
    "page faults": Remedy(
        symptom="the kernel hands out fresh memory page by page while the program waits",
        axis=None,
        tools=("a pool allocator", "jemalloc", "huge pages"),
        cures="memory is kept and reused instead of being returned and requested again",
        leaves="every other ceiling; more nodes would each pay the same faults",
        first="reuse buffers (out=), raise malloc's mmap and trim thresholds, huge pages",
    ),
    "latency": Remedy(
        symptom="requests are not answered within the budget of time or at the needed rate",
        axis="inference",
        tools=("vLLM", "Triton", "Ray Serve"),
        cures="requests are shared among replicas, so none waits behind many others",
        leaves="the time that one request takes alone; training time",
        first="send independent requests at the same time, batch, cache, a smaller model",
    ),
    "coordination": Remedy(
        symptom="parts wait for each other: locks, queues, barriers, agreement",
        axis="coordination",
        tools=("Ray", "Kubernetes", "separate processes instead of threads"),
        cures="a scheduler hands out independent pieces, so parts wait less for each other",
        leaves="the work itself, which is not the bottleneck",
        first="shorten what is locked, larger pieces, processes where a GIL is shared",
    ),
    "communication": Remedy(
        symptom="moving bytes between parts takes longer than the work between the messages",
        axis="coordination",
        tools=("fewer, larger messages", "overlap", "compression", "a faster link"),
        cures="parts send less, later, or while they compute",
        leaves="arithmetic, memory and disk, which wait for the messages",
        first="fewer workers, larger steps between exchanges, overlap with compute",
    ),
}


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed way to distribute."""

    axis: AxisName
    does: str


PROPOSALS: dict[str, Proposal] = {
    "data-parallel": Proposal(
        axis="training", does="copies the whole model to every worker and splits the batch"
    ),
    "fsdp": Proposal(
        axis="model", does="splits parameters, gradients and optimizer states among the workers"
    ),
    "model-parallel": Proposal(
        axis="model", does="splits parameters and activations among the devices"
    ),
    "tensor-parallel": Proposal(axis="model", does="splits every layer among the devices"),
    "pipeline-parallel": Proposal(axis="model", does="gives every device some of the layers"),
    "data-sharding": Proposal(axis="data", does="gives every node its part of the data to read"),
    "replicas": Proposal(axis="inference", does="serve requests from several copies of the model"),
    "orchestration": Proposal(
        axis="coordination", does="hands independent pieces of work to workers through a scheduler"
    ),
}

# What one would see after distributing along the wrong axis.
_FAILURES: dict[tuple[CeilingName, AxisName], str] = {
    ("data I/O", "training"): "every worker waits for the same disk, and K workers wait K times",
    ("data I/O", "model"): "the devices are idle together, and pass activations to each other "
    "between the waits",
    ("data I/O", "inference"): "each replica needs the whole of the data that one node cannot read",
    ("data I/O", "coordination"): "a scheduler hands out pieces that all wait for the same disk",
    ("compute", "data"): "the data already arrive in time; shards only arrive earlier and wait",
    ("compute", "model"): "the model fits already, and every step would now wait for activations "
    "from other devices",
    ("compute", "inference"): "copies answer more requests; the one job takes as long as before",
    ("compute", "coordination"): "the parts do not wait, so better scheduling saves nothing",
    ("memory bandwidth", "data"): "memory is slow, not the disk; shards wait in memory",
    ("memory bandwidth", "training"): "the added arithmetic units wait for bytes too, and "
    "gradients must be exchanged",
    ("memory bandwidth", "inference"): "each replica streams the same bytes as before",
    ("memory bandwidth", "coordination"): "the parts wait only for memory",
    ("memory capacity", "data"): "the model does not fit, not the data; each node still fails to "
    "hold the model",
    ("memory capacity", "training"): "every worker needs the whole model, so every worker fails "
    "to allocate it as the single machine did",
    ("memory capacity", "inference"): "each replica fails to allocate exactly as the first did",
    ("memory capacity", "coordination"): "a scheduler restarts a worker that runs out of memory "
    "each time",
    (
        "latency",
        "data",
    ): "requests do not wait for data, so they wait as long as before",
    ("latency", "training"): "training ends sooner, but answers are as late as before",
    ("latency", "model"): "a model that fits passes activations between devices for every "
    "request, and the queue stays",
    ("latency", "coordination"): "scheduling adds a hop to every request, and the queue stays",
    ("coordination", "data"): "more parts than before wait for the same lock or barrier",
    ("coordination", "training"): "more workers than before wait for the same lock or barrier",
    ("coordination", "model"): "the parts of the model wait for each other, in addition to the "
    "present waiting",
    ("coordination", "inference"): "replicas that share the same lock or queue wait for it in turn",
    ("communication", "data"): "the bytes between the parts are slow, not those of the data",
    ("communication", "training"): "more workers exchange more gradients over the link that is "
    "already too slow",
    ("communication", "model"): "splitting the model sends still more over the same link",
    ("communication", "inference"): "the messages of one job take as long as before",
}


class Answer(msgspec.Struct, frozen=True):
    """Yes or no to a proposal, with the reason and what to do instead."""

    proposal: str
    axis: AxisName
    answer: AnswerWord
    reason: str
    instead: str = ""


def judge(proposal: str, ceiling: CeilingName | None) -> Answer:
    """Whether the proposed distribution raises the named ceiling.

    >>> judge("data-parallel", "compute").answer, judge("data-parallel", "memory capacity").answer
    ('yes', 'no')
    """
    proposed = PROPOSALS[proposal]
    what = f"{proposal} {proposed.does}"
    if ceiling is None:
        return Answer(
            proposal,
            proposed.axis,
            "undecided",
            f"{what}; which ceiling binds is not known, so it may not help",
            "measure first: nodewise diagnose -- COMMAND",
        )
    remedy = MENU[ceiling]
    if remedy.axis == proposed.axis:
        reason = f"{ceiling} binds, and {what}: {remedy.cures}"
        return Answer(proposal, proposed.axis, "yes", reason, f"cheaper, first: {remedy.first}")
    failure = _FAILURES.get((ceiling, proposed.axis), remedy.leaves)
    if remedy.axis is None:
        instead = f"stay on one machine: {remedy.first}"
    else:
        instead = f"{axis_words(remedy.axis)}: {', '.join(remedy.tools)}"
    reason = f"{ceiling} binds, and {what}; {failure}"
    return Answer(proposal, proposed.axis, "no", reason, instead)


def axis_words(axis: AxisName | None) -> str:
    """What to do along an axis.

    >>> axis_words("model"), axis_words(None)
    ('split the model', 'fix it on one machine')
    """
    return "fix it on one machine" if axis is None else _ACTIONS[axis]
