"""The spec file that `init` and `run` write."""

from pathlib import Path

import pytest

from nodewise.base.errors import SpecError
from nodewise.cli.spec_file import ENGINES, engine_of, new_text, with_values
from nodewise.study.spec import parse_file, read_toml

WITHOUT_OPTIONS = ("local", "torchrun", "command")
OF_AN_ENGINE = {"slurm": "launcher", "rehearsal": "cores_per_node", "ssh": "hosts"}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_template_is_a_spec_with_every_engine(engine):
    text = new_text(Path("study.toml"), engine, {"workload.command": ["job", 'a "b" # c']})
    spec, _ = parse_file(text)
    assert spec.engine.name == engine
    assert spec.workload.command == ("job", 'a "b" # c')
    assert (f"[engine.{engine}]" in text) == (engine not in WITHOUT_OPTIONS)
    if engine in OF_AN_ENGINE:
        assert f"\n# {OF_AN_ENGINE[engine]} = " in text


def test_the_options_of_an_engine_are_its_defaults():
    text = new_text(Path("study.toml"), "slurm", {})
    table = text.split("[engine.slurm]\n")[1].split("\n\n")[0]
    set_here = "\n".join(
        line.removeprefix("# ") for line in table.splitlines() if "not set" not in line
    )
    default = read_toml(set_here)
    assert (default["tasks_per_node"], default["allocation"]) == (1, "each")
    changed, _ = parse_file(with_values(text, {"engine.slurm.tasks_per_node": 4}))
    assert changed.engine.tables == {"slurm": {"tasks_per_node": 4}}


def test_values_change_their_lines_alone():
    text = new_text(Path("study.toml"), "local", {})
    changed = with_values(text, {"rounds": 3, "price.per_node_hour": "2.10/gpu", "unit": "gpu"})
    before, after = text.splitlines(), changed.splitlines()
    assert [line for line in after if line not in before] == [
        'unit = "gpu"',
        "rounds = 3                 # each runs every scale once, in random order; six give an "
        "interval",
        'per_node_hour = "2.10/gpu"',
    ]
    assert [line for line in before if line not in after] == [
        line for line in before if line.startswith(("rounds", "# per_node_hour"))
    ]
    assert with_values(changed, {"rounds": 3.0, "unit": "gpu"}) == changed


@pytest.mark.parametrize(
    "text",
    ["price = { source = 'x' }\n", "[price]\nper_node_hour = [\n  1,\n]\n"],
    ids=["an inline table", "a value of several lines"],
)
def test_a_line_that_cannot_be_changed_is_said(text):
    with pytest.raises(SpecError):
        with_values(text, {"price.per_node_hour": 2})


def test_who_starts_the_workers():
    assert engine_of(["python", "{nodes}"], None) == "local"
    assert engine_of(["python", "{nodes}"], "mpi") == "mpi"
    assert engine_of(["mpirun", "-n", "{n}"], None) == "command"
    assert engine_of(["app", "--threads={n}"], "command") == "command"
    with pytest.raises(SpecError, match="--engine mpi starts them too"):
        engine_of(["app", "{n}"], "mpi")


def test_init_takes_rounds_and_regime(nodewise, tmp_path):
    path = tmp_path / "study.toml"
    made = nodewise("init", "--rounds", 3, "--regime", "weak", "--engine", "ssh", "-o", path)
    assert made.code == 0, made.err
    spec, asked = parse_file(path.read_text())
    assert (spec.rounds, asked["regime"], spec.engine.name) == (3, "weak", "ssh")
    own = nodewise("init", "--command", "mpirun -n {n} app", "-o", tmp_path / "own.toml")
    assert own.code == 0
    assert parse_file((tmp_path / "own.toml").read_text())[0].engine.name == "command"
