"""The hooks of torch take arguments by position and by name, as torch does."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from nodewise.measure.torch import training


class Seen:
    """What the hooks say of a training."""

    def __init__(self):
        self.meshes, self.shared, self.scaled = [], [], []

    def mesh(self, sizes, names):
        self.meshes.append((sizes, names))

    def shares_rows(self, kind, size):
        self.shared.append((kind, size))

    def loss_scaled(self, loss, scaled):
        self.scaled.append((loss, scaled))


class Scaler:
    """As `torch.amp.GradScaler`."""

    def scale(self, outputs):
        return 2 * outputs


@pytest.fixture
def torch(monkeypatch):
    """A module in the place of torch, with the calls that are watched."""

    def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None):
        return mesh_shape

    def parallelize_module(module, device_mesh=None, parallelize_plan=None):
        return module

    class Autocast:
        def __enter__(self):
            return self

    names = ["torch", "torch.distributed", "torch.distributed.device_mesh"]
    names += ["torch.distributed.tensor.parallel"]
    made = {name: ModuleType(name) for name in names}
    made["torch"].autocast = Autocast
    made["torch"].amp = SimpleNamespace(GradScaler=type("GradScaler", (Scaler,), {}))
    made["torch.distributed.device_mesh"].init_device_mesh = init_device_mesh
    made["torch.distributed.tensor.parallel"].parallelize_module = parallelize_module
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)

    def at_once(name, then):
        if name in made:
            then(made[name])

    monkeypatch.setattr(training, "after_import", at_once)
    return made


def test_arguments_by_name_and_by_position(torch):
    seen = Seen()
    recorder = SimpleNamespace(workload=seen)
    training.watch_meshes(recorder)
    training.watch_precision(recorder)
    make = torch["torch.distributed.device_mesh"].init_device_mesh
    assert make(device_type="cpu", mesh_shape=(2, 2), mesh_dim_names=("dp", "tp")) == (2, 2)
    assert make("cpu", (4,)) == (4,)
    assert seen.meshes == [((2, 2), ("dp", "tp")), ((4,), None)]
    mesh = SimpleNamespace(mesh_dim_names=None, size=lambda: 2)
    divide = torch["torch.distributed.tensor.parallel"].parallelize_module
    assert divide(module="m", device_mesh=mesh) == divide("m", mesh) == "m"
    assert seen.shared == [("tp", 2), ("tp", 2)]
    scaler = torch["torch"].amp.GradScaler()
    assert scaler.scale(outputs=3) == scaler.scale(3) == 6
    assert seen.scaled == [(3, 6), (3, 6)]
