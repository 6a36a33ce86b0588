"""The memory that training needs on each device, and which way of splitting makes it fit.

Bytes per parameter are those of Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models" (2020), section 3: mixed precision with Adam holds 2 + 2 + 12.
"""

from typing import Literal, NamedTuple

import msgspec

Optimizer = Literal["adam", "adam-8bit", "momentum", "sgd", "adafactor"]
Precision = Literal["mixed", "fp32", "bf16"]
Strategy = Literal["data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3 / FSDP", "tensor parallel"]

# Bytes per parameter that an optimizer keeps between steps, without a copy of the parameters.
_STATES: dict[Optimizer, dict[Precision, float]] = {
    "adam": {"mixed": 8.0, "fp32": 8.0, "bf16": 4.0},
    "adam-8bit": {"mixed": 2.0, "fp32": 2.0, "bf16": 2.0},
    "momentum": {"mixed": 4.0, "fp32": 4.0, "bf16": 2.0},
    "sgd": {"mixed": 0.0, "fp32": 0.0, "bf16": 0.0},
    # Rows and columns instead of a matrix: next to nothing.
    "adafactor": {"mixed": 0.0, "fp32": 0.0, "bf16": 0.0},
}
_PARAMETER: dict[Precision, float] = {"mixed": 2.0, "fp32": 4.0, "bf16": 2.0}
_MASTER_COPY: dict[Precision, float] = {"mixed": 4.0, "fp32": 0.0, "bf16": 0.0}


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What one copy of a model needs to be trained, in bytes."""

    parameters: float
    gradients: float
    states: float  # of the optimizer, with its own copy of the parameters
    activations: float = 0.0

    @property
    def total(self) -> float:
        """All of it, on one device."""
        return self.parameters + self.gradients + self.states + self.activations


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What each device holds under one strategy."""

    strategy: Strategy
    device_bytes: float
    fits: bool


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One model, one kind of device, so many workers: what fits and what does not."""

    demand: Demand
    device_bytes: float
    workers: int
    fits_one_device: bool
    shares: tuple[Share, ...]
    least_workers: int | None  # whole-model sharding fits from so many devices on
    verdict: str


class _Split(NamedTuple):
    """The parts that a strategy divides by the number of workers; others are whole on each."""

    parameters: bool
    gradients: bool
    states: bool
    activations: bool


_SPLITS: dict[Strategy, _Split] = {
    "data parallel": _Split(False, False, False, False),
    "ZeRO-1": _Split(False, False, True, False),
    "ZeRO-2": _Split(False, True, True, False),
    "ZeRO-3 / FSDP": _Split(True, True, True, False),
    # Activations are split with the layers (Megatron with sequence parallelism).
    "tensor parallel": _Split(True, True, True, True),
}


def optimizer_bytes(optimizer: Optimizer, precision: Precision) -> float:
    """Bytes of optimizer state per parameter, with its own copy of the parameters.

    >>> optimizer_bytes("adam", "mixed")
    12.0
    """
    return _STATES[optimizer][precision] + _MASTER_COPY[precision]


def demand_of(
    parameters: float,
    optimizer: Optimizer = "adam",
    precision: Precision = "mixed",
    activations: float = 0.0,
) -> Demand:
    """Bytes for so many parameters; `activations` are the bytes of one worker's batch.

    >>> demand_of(13e9).total
    208000000000.0
    """
    return Demand(
        parameters=parameters * _PARAMETER[precision],
        gradients=parameters * _PARAMETER[precision],
        states=parameters * optimizer_bytes(optimizer, precision),
        activations=activations,
    )


def device_bytes(demand: Demand, strategy: Strategy, workers: int) -> float:
    """What each of so many devices holds.

    >>> [round(device_bytes(demand_of(7.5e9), one, 64) / 1e9, 1) for one in _SPLITS]
    [120.0, 31.4, 16.6, 1.9, 1.9]
    """
    split = _SPLITS[strategy]
    parts = (demand.parameters, demand.gradients, demand.states, demand.activations)
    return sum(
        part / workers if divided else part for part, divided in zip(parts, split, strict=True)
    )


def fit(demand: Demand, memory: float, workers: int) -> Fit:
    """Which strategies fit on `workers` devices of `memory` bytes each."""
    shares = tuple(
        Share(
            strategy=strategy,
            device_bytes=device_bytes(demand, strategy, workers),
            fits=device_bytes(demand, strategy, workers) <= memory,
        )
        for strategy in _SPLITS
    )
    fits_one = demand.total <= memory
    least = _least_workers(demand, memory)
    return Fit(
        demand=demand,
        device_bytes=memory,
        workers=workers,
        fits_one_device=fits_one,
        shares=shares,
        least_workers=least,
        verdict=_verdict(fits_one, shares, workers, least),
    )


def _least_workers(demand: Demand, memory: float) -> int | None:
    """Devices from which on ZeRO-3 fits; none if the activations alone are too large."""
    room = memory - demand.activations
    if room <= 0:
        return None
    needed = demand.total - demand.activations
    return max(1, int(-(-needed // room)))


def _verdict(fits_one: bool, shares: tuple[Share, ...], workers: int, least: int | None) -> str:
    if fits_one:
        return "fits on one device; splitting the model would only add communication"
    words = "does not fit on one device, and data parallelism does not help"
    fitting = [share.strategy for share in shares if share.fits]
    if fitting:
        return f"{words}; on {workers} devices {', '.join(fitting)} fit"
    if least is None:
        return f"{words}; the activations alone do not fit: smaller batch, or recompute them"
    return f"{words}; {workers} devices are too few: ZeRO-3 / FSDP fits from {least} on"
