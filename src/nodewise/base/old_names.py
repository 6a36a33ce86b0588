"""Module names of version 0.1, which keep working for one version, with a warning.

`from nodewise.prices import Price` and `python -m nodewise.launch` find the modules where they are
now. A name that is a room today (`nodewise.decide`) is forwarded by the room itself.
"""

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MOVED = {
    "errors": "base.errors",
    "units": "base.units",
    "stats": "base.stats",
    "queueing": "base.queueing",
    "intervals": "base.time_sets",
    "ranges": "base.interval",
    "sizes": "base.units",
    "spec": "study.spec",
    "question": "decide.inputs",
    "table": "study.table",
    "store": "study.store",
    "bundle": "study.bundle",
    "observed": "study.observed",
    "objective": "study.service_objective",
    "ceilings": "study.machine",
    "trace_model": "study.trace",
    "load": "study.window",
    "claims": "study.claim",
    "scaling": "explain.scaling",
    "laws": "explain.laws",
    "shapes": "explain.shapes",
    "causes": "explain.causes",
    "attribute": "explain.attribute",
    "compare": "explain.compare",
    "lineup": "explain.compare",
    "simulate": "explain.simulate",
    "breakdown": "explain.trace.breakdown",
    "digest_format": "importers.profilers.digests",
    "curves": "explain.predict.laws",
    "predict": "explain.predict.curve",
    "axes": "diagnose.axes",
    "flow": "diagnose.flow",
    "roofline": "diagnose.roofline",
    "symptoms": "diagnose.symptoms",
    "training_step": "diagnose.training_step",
    "next_ceiling": "diagnose.next_ceiling",
    "step_table": "diagnose.steps",
    "training_memory": "diagnose.memory",
    "alpha_beta": "diagnose.links",
    "plan": "decide.paper.plan",
    "transformer": "decide.paper.transformer",
    "relocate": "decide.paper.relocate",
    "cluster_files": "decide.paper.files",
    "candidates": "decide.candidates",
    "choose": "decide.choose",
    "uncertainty": "decide.uncertainty",
    "energy": "decide.energy",
    "forecast": "decide.forecast",
    "claim": "decide.sentences",
    "prices": "decide.prices.bill",
    "catalogue": "decide.prices.records",
    "price_book": "decide.prices.lookup",
    "price_files": "decide.prices.files",
    "spot": "decide.payment.spot",
    "regimes": "decide.payment.ways",
    "ownership": "decide.payment.owned",
    "detectors": "audit.detectors",
    "rules": "audit.rules",
    "rule_book": "audit.rule_book",
    "latency": "fleet.latency",
    "batching": "fleet.batching",
    "fleet_decide": "fleet.decide",
    "fleet_simulator": "fleet.simulate",
    "findings": "report.findings",
    "notebook": "report.notebook",
    "vega": "report.page.vega",
    "browser": "cli.printing",
    "launch": "measure.launch",
    "torch_hooks": "measure.torch_hooks",
    "engines.base": "measure.engines.base",
    "engines.local": "measure.engines.local",
    "engines.mpi": "measure.engines.mpi",
    "engines.torchrun": "measure.engines.torchrun",
    "engines.slurm": "measure.engines.slurm",
    "engines.shell_tasks": "measure.engines.shell_tasks",
    "engines.registry": "measure.engines.registry",
    "engines.replay": "measure.engines.replay",
}
_FOLDERS = ("engines",)  # packages that hold old names only


class _OldName:
    """Loads the module of today under its old name."""

    def __init__(self, new: str | None) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module itself, so that both names give the same classes."""
        if self._new is None:
            return None
        self._warn(spec.name)
        module = importlib.import_module(self._new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run; the module keeps its own spec."""
        if self._new is not None:
            module.__spec__ = self._own_spec

    def get_code(self, fullname: str) -> Any:
        """The code, for `python -m`, which makes no module of it."""
        from importlib.util import find_spec

        self._warn(fullname)
        found: Any = find_spec(str(self._new))
        return found.loader.get_code(found.name)

    def _warn(self, old: str) -> None:
        warnings.warn(f"{old} is now {self._new}.", DeprecationWarning, stacklevel=3)


class OldNames:
    """Finds modules by their old names."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """A spec for an old name; nothing for all others."""
        room, _, old = fullname.partition(".")
        if room != "nodewise":
            return None
        loader: Any = None
        if old in _FOLDERS:
            loader = _OldName(None)
        elif old in _MOVED:
            loader = _OldName(f"nodewise.{_MOVED[old]}")
        return loader and ModuleSpec(fullname, loader, is_package=old in _FOLDERS)


def install() -> None:
    """Ask for old names after every other finder."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
