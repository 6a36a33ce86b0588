"""What K counts for a question, and how many nodes or devices are paid at each K.

Bills are for whole nodes: 12 GPUs at 8 a node are 2 nodes. Nothing prices 8 GPUs as 8 machines.
"""

from typing import TYPE_CHECKING

import msgspec
from numpy.typing import ArrayLike

from nodewise.base.errors import SpecError
from nodewise.base.stats import Floats
from nodewise.decide.prices.records import PriceRecord
from nodewise.study.check import BILLED, Check, warning
from nodewise.study.scale_unit import NODE, ScaleUnit, plural

if TYPE_CHECKING:
    from nodewise.decide.inputs import Question
    from nodewise.study.study import Run, Study

_DEVICES = ("GPU", "TPU", "accelerator", "device", "chip")
_CORES = ("core", "CPU", "vCPU", "thread")
_PROCESSES = ("rank", "process", "task")  # one on each core, where a node has no accelerators
_RULE = "number of nodes"
_ENGINE_NODES = "engine_nodes"  # of a run: the machines that a cluster gave it
_ON_ONE_MACHINE = ("local", "torchrun")  # engines that start all K workers on this machine


def scale_unit_of(study_unit: ScaleUnit, question: "Question") -> ScaleUnit:
    """What K counts: as the question says, else as the study does; an instance adds its devices."""
    unit = question.unit or study_unit.unit
    stated = question.per_node
    if unit == NODE:
        if stated is not None and question.price.per in ("", NODE):
            raise SpecError(
                f"K counts nodes, and --per-node says that {stated} share a node.",
                "Say what K counts, for example --unit gpus, or drop --per-node.",
            )
        if stated is None:
            return ScaleUnit(per_node=study_unit.per_node, device=study_unit.device)
        return ScaleUnit(per_node=stated)
    if stated is None and unit == study_unit.unit:
        stated = study_unit.per_node
    if question.records:
        stated = _on_instance(question.records[0], unit, stated)
    return ScaleUnit(unit=unit, per_node=stated)


def with_scale_unit(study_unit: ScaleUnit, question: "Question") -> "Question":
    """The question with what K counts in a study."""
    unit = scale_unit_of(study_unit, question)
    by_device = question.price.per not in ("", NODE)  # of which a node has so many
    per_node = unit.per_node if by_device or not unit.counts_nodes else None
    return msgspec.structs.replace(question, unit=unit.unit, per_node=per_node)


def _on_instance(record: PriceRecord, unit: str, stated: int | None) -> int:
    """How many share an instance: as stated, where it has as many, else all that it has."""
    room = _room(record, unit)
    if stated is None and room is None:
        raise SpecError(
            f"K counts {plural(unit)}, and how many of them share one {record.name} is not known.",
            "Add --per-node, for example --per-node 8.",
        )
    if stated is not None and room is not None and stated > room and unit not in _PROCESSES:
        raise SpecError(
            f"{stated} {plural(unit)} share a node, and one {record.name} has {room}.",
            f"Name another instance, or price it so with --per-node {room}.",
        )
    return stated or room or 1


def _room(record: PriceRecord, unit: str) -> int | None:
    """How many of a unit one instance has; None if its record does not say."""
    devices, cores = int(record.accelerator_count), int(record.vcpus or 0)
    if unit in _DEVICES:
        return devices or None
    if unit in _CORES or (unit in _PROCESSES and not devices):
        return cores or None
    return None


def billed_units(unit: ScaleUnit, per: str, scales: ArrayLike) -> Floats:
    """How many of what the price is for are paid at each K; `per` is empty if not stated.

    >>> billed_units(ScaleUnit(unit="GPU", per_node=8), "GPU", [8, 12])
    array([ 8., 16.])
    """
    nodes = unit.nodes(scales)
    if per == NODE and not unit.knows_nodes:
        raise SpecError(
            f"The price is per node, and how many {plural(unit.unit)} share a node is not known.",
            f"Add --per-node, or give the price per {unit.unit}: --price 2.10/{unit.unit.lower()}.",
        )
    if per in ("", NODE):
        return nodes
    if unit.counts_nodes and unit.per_node is not None and unit.device in ("", per):
        return nodes * unit.per_node
    if per == unit.unit:
        return nodes * (unit.per_node or 1)
    fix = (
        f"Give the price per node, say how many {plural(per)} a node has with --per-node, or that "
        f"K counts them with --unit {plural(per).lower()}."
    )
    if not unit.counts_nodes:
        fix = f"Give the price per {unit.unit} or per node, or say what K counts with --unit."
    raise SpecError(f"The price is per {per}, and K counts {plural(unit.unit)}.", fix)


def refuse_price(question: "Question", scales: ArrayLike) -> None:
    """Raise an error where a price is not for what K counts, before anything is measured."""
    unit = scale_unit_of(ScaleUnit(), question)
    if question.price.per_node_hour is not None:
        billed_units(unit, question.price.per, scales)


def unit_checks(unit: ScaleUnit, study_unit: ScaleUnit, question: "Question") -> list[Check]:
    """Where the number of nodes is assumed or unknown, and something is counted by the node."""
    price, payment = question.price, question.payment
    many = plural(unit.unit)
    by_node = {
        "the price": price.per_node_hour is not None and not price.per,
        "the power": question.site.power is not None,
        "preemptions": payment.trace is not None
        or (payment.preemptions is not None and payment.preemptions.scope == "node"),
        "owned nodes": payment.owned is not None,
    }
    counted = [name for name, given in by_node.items() if given]
    if not unit.knows_nodes and counted:
        evidence = f"how many {many} share a node is not known: {_listed(counted)} counted"
        key = BILLED if by_node["the price"] else ""
        return [warning(_RULE, f"{evidence} per {unit.unit}", "Add --per-node.", key=key)]
    is_stated = question.per_node is not None or study_unit.per_node is not None
    if question.records and not is_stated and unit.unit in (*_CORES, *_PROCESSES):
        evidence = f"{unit.per_node} {many} a node, the vCPUs of {question.records[0].name}"
        return [warning(_RULE, evidence, "State how many share a node with --per-node.")]
    return []


def shared_machine_check(study: "Study", unit: ScaleUnit, question: "Question") -> Check | None:
    """That K workers ran on one machine, and each is paid as a machine; None without evidence."""
    is_paid = question.price.per_node_hour is not None or bool(question.records)
    if not is_paid or not unit.counts_nodes or unit.per_node is not None:
        return None
    shared = [run.nodes for run in study.good_runs if _shared_machine(run)]
    if not shared:
        return None
    most = max(shared)
    evidence = f"{most} workers shared one machine, and the bill counts {most} machines"
    remedy = "State what K counts: --unit ranks --per-node N, where N share a machine."
    return warning("machines in the bill", evidence, remedy, key=BILLED)


def _shared_machine(run: "Run") -> bool:
    """Whether a run of several workers is known to have had one machine, which was no emulation."""
    facts = run.provenance
    if (
        run.nodes < 2
        or run.baseline
        or facts.get("emulated") is not False
        or _ENGINE_NODES in facts
    ):
        return False
    hosts = {rank.host for rank in run.ranks}
    if len(run.ranks) >= run.nodes and "" not in hosts:
        return len(hosts) == 1
    return facts.get("engine") in _ON_ONE_MACHINE


def _listed(names: list[str]) -> str:
    """Names with their verb.

    >>> _listed(["the price"]), _listed(["the price", "the power"])
    ('the price is', 'the price and the power are')
    """
    is_one = len(names) == 1 and not names[0].endswith("s")
    first = ", ".join(names[:-1])
    return f"{first} and {names[-1]} are" if first else f"{names[0]} {'is' if is_one else 'are'}"
