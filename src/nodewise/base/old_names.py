"""Module names of version 0.1, which keep working for one version, with a warning.

`from nodewise.prices import Price` and `python -m nodewise.launch` find the modules where they are
now. A name that is a room today (`nodewise.decide`) is forwarded by the room itself.
"""

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from warnings import warn

# Old names by the folder of today; old=new where the module has another name.
_FOLDERS_OF_TODAY = {
    "base": "errors units stats queueing intervals=time_sets ranges=interval sizes=units",
    "study": "spec table store bundle observed objective=service_objective ceilings=machine "
    "trace_model=trace load=window claims=claim",
    "decide": "question=inputs candidates choose uncertainty energy forecast claim=sentences",
    "explain": "scaling laws shapes causes attribute compare lineup=compare simulate",
    "explain.trace": "breakdown",
    "importers.profilers": "digest_format=digests",
    "explain.predict": "curves=laws predict=curve",
    "diagnose": "axes flow roofline symptoms training_step next_ceiling step_table=steps "
    "training_memory=memory alpha_beta=links",
    "decide.paper": "plan transformer relocate cluster_files=files",
    "decide.prices": "prices=bill catalogue=records price_book=lookup price_files=files",
    "decide.payment": "spot regimes=ways ownership=owned",
    "audit": "detectors rules rule_book=rules",
    "fleet": "latency batching fleet_decide=decide fleet_simulator=simulate",
    "report": "findings notebook",
    "report.page": "vega",
    "cli": "browser=printing",
    "measure": "launch torch_hooks=torch.hooks",
    "measure.engines": "engines.base=base engines.local=local engines.mpi=mpi "
    "engines.torchrun=torchrun engines.slurm=slurm "
    "engines.shell_tasks=shell_tasks engines.registry=registry "
    "engines.replay=replay",
}
_MOVED = {
    old: f"{folder}.{new or old}"
    for folder, names in _FOLDERS_OF_TODAY.items()
    for old, _, new in (name.partition("=") for name in names.split())
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
        warn(f"{old} is now {self._new}.", DeprecationWarning, stacklevel=3)


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


def forward(room: str, module: str, *names: str) -> Callable[[str], Any]:
    """The `__getattr__` of a room that was a module: its old names, with a warning."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        warn(f"{room}.{name} is now {module}.{name}.", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(module), name)

    return find


def install() -> None:
    """Ask for old names after every other finder."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
