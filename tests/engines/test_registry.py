"""Which engines there are, what they are told, and what a run is made of that they tell."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from nodewise.base.errors import RunError, SpecError
from nodewise.cli.spec_file import ENGINES
from nodewise.measure.collect import collect
from nodewise.measure.engines import registry
from nodewise.measure.engines.base import Engine, Finished, Job
from nodewise.study import store
from nodewise.study.spec import parse_spec
from nodewise.study.study import Outcome, Rank, Run

ROOT = Path(__file__).parents[2]
MINIMAL = 'name = "job"\nscales = [1, 2]\n[workload]\ncommand = ["true"]\n[engine]\n'


def engine_of(table: str) -> Engine:
    return registry.engine_of(parse_spec(MINIMAL + table).engine, Path())


@pytest.fixture
def third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that announces the engine of the document, as pip would install it."""
    info = tmp_path / "site" / "pinned-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pinned\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nodewise.engines]\npinned = engine_pinned:Pinned\n")
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    yield
    sys.modules.pop("engine_pinned", None)


@pytest.mark.parametrize("name", registry.names())
def test_every_engine_loads_without_its_packages(name):
    assert issubclass(registry.engine_type(name), Engine)
    assert issubclass(registry.engine_type(name).options_type, msgspec.Struct)


def test_what_init_offers_is_there():
    assert set(ENGINES) == set(registry.names()) - {"replay"}


@pytest.mark.parametrize(
    ("table", "words", "fix"),
    [
        ('name = "cloud"', "engine.name: unknown engine 'cloud'", "local, mpi"),
        ("[engine.cloud]\nsize = 3", "engine.cloud: no engine has that name", "local, mpi"),
        ('name = "slurm"\n[engine.slurm]\ncolour = 1', "engine.slurm: object contains unknown",
         "docs/engines.md"),
        ('name = "slurm"\n[engine.slurm]\nqueued = 0', "engine.slurm.queued: expected `int` >= 1",
         "docs/engines.md"),
        ("[engine.slurm]\nqueued = 0", "engine.slurm.queued: expected", "docs/engines.md"),
        ("[engine.mpi]\nn = 1", "engine.mpi: object contains unknown field `n`", "docs/engines.md"),
        ('name = "replay"', "engine.study: replay needs the folder", "study ="),
    ],
)  # fmt: skip
def test_a_bad_engine_is_named_with_its_path(table, words, fix):
    with pytest.raises(SpecError) as caught:
        engine_of(table)
    assert words in caught.value.what
    assert fix in caught.value.fix


def test_the_schema_has_the_table_of_every_engine(nodewise, third):
    schema = nodewise("init", "--schema").json
    engine = schema["$defs"]["EngineSpec"]["properties"]
    assert {"name", "rehearsal", "slurm", "ssh", "kubernetes", "pinned"} <= engine.keys()
    assert "tables" not in engine
    queued = schema["$defs"]["SlurmOptions"]["properties"]["queued"]
    assert queued == {"type": "integer", "minimum": 1, "maximum": 10**12, "default": 20}


def test_a_third_engine_is_found_and_measures(tmp_path, nodewise, third):
    (tmp_path / "job.py").write_text("import os; print(os.sched_getaffinity(0))")
    spec = tmp_path / "study.toml"
    spec.write_text(
        'name = "job"\nscales = [1]\nrounds = 2\n[workload]\ncommand = ["{python}", "job.py"]\n'
        '[engine]\nname = "pinned"\n[engine.pinned]\nfirst_core = 0\n'
    )
    assert nodewise("measure", spec).code == 0
    study = store.load(tmp_path / "job.study")
    assert [run.outcome for run in study.runs] == ["ok", "ok"]
    assert study.runs[0].provenance["engine"] == "pinned"
    assert study.runs[0].provenance["pinned_first_core"] == 0
    spec.write_text(spec.read_text().replace("first_core = 0", 'first_core = "x"'))
    failed = nodewise("measure", spec, "-o", tmp_path / "other.study")
    assert failed.code == 2
    assert "engine.pinned.first_core: expected `int`" in failed.err


def test_the_old_name_of_the_own_environment_works_with_a_warning(tmp_path):
    job = Job(
        command=("true",), nodes=1, directory=tmp_path, environment={"A": "1", "HOME": "/"},
        own_environment={"A": "1"}, folder=tmp_path, timeout_seconds=1,
    )  # fmt: skip
    with pytest.warns(DeprecationWarning, match="own_environment"):
        assert job.told == {"A": "1"}


def test_the_document_shows_the_third_engine_as_it_is():
    page = (ROOT / "docs" / "engines.md").read_text()
    assert f"```py\n{(ROOT / 'examples' / 'engine_pinned.py').read_text()}```" in page


def test_a_package_that_is_broken_is_named(tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nodewise.engines]\nbroken = nowhere_at_all:Engine\nwrong = json:dumps\n"
        "local = json:load\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RunError, match="cannot be loaded: No module named 'nowhere_at_all'"):
        registry.engine_type("broken")
    with pytest.raises(RunError, match="not a subclass of nodewise"):
        registry.engine_type("wrong")
    assert registry.engine_type("local").__name__ == "Local"  # ours cannot be replaced


def test_dry_run_prints_the_command_of_each_scale(tmp_path, nodewise):
    spec = tmp_path / "study.toml"
    spec.write_text(MINIMAL.replace('["true"]', '["true", "{nodes}"]'))
    outcome = nodewise("measure", spec, "--dry-run")
    assert outcome.out == "# K=1\ntrue 1\n# K=2\ntrue 2\n"
    rows = nodewise("measure", spec, "--dry-run", "--json").json
    assert [(row["K"], row["plan"]) for row in rows] == [(1, "true 1"), (2, "true 2")]
    assert not (tmp_path / "job.study").exists()


@pytest.mark.parametrize(
    ("engine", "said"),
    [("ssh", "K=2 needs as many hosts; the list has 0"), ("kubernetes", "image is not set")],
)
def test_dry_run_says_what_the_spec_lacks_as_the_run_would(tmp_path, nodewise, engine, said):
    spec = tmp_path / "study.toml"
    spec.write_text(f'{MINIMAL}name = "{engine}"\n')
    dry, real = nodewise("measure", spec, "--dry-run"), nodewise("measure", spec)
    assert (dry.code, dry.out, dry.err) == (real.code, real.out, real.err)
    assert dry.code == 2 and said in dry.err


def test_a_program_is_looked_for_where_it_runs(tmp_path, nodewise):
    (tmp_path / "part").mkdir()
    program = tmp_path / "part" / "job.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    spec = tmp_path / "study.toml"
    spec.write_text(MINIMAL.replace('["true"]', '["./job.sh"]\ndirectory = "part"'))
    assert nodewise("measure", spec).code == 0
    program.unlink()
    assert "No such program: ./job.sh" in nodewise("measure", spec, "--dry-run").err


def a_rank(number: int, **more: object) -> Rank:
    stages = {"compute": 1.0, "overhead": 0.5}
    return Rank(rank=number, stages=stages, host=f"w{number}", seconds=1.5, **more)


def a_run(
    folder: Path, *ranks: Rank, nodes: int = 2, driven: bool = False, outcome: Outcome = "ok"
) -> Run:
    finished = Finished(outcome=outcome, seconds=1.5, ranks=ranks, driven=driven, detail="so")
    told = {"number": 0, "baseline": False, "provenance": {}, "started": ""}
    return collect(finished, folder, folder / "log", nodes=nodes, ranks=nodes, **told)


def report(folder: Path, rank: int, **more: object) -> None:
    told = {
        "rank": rank, "host": "here", "seconds": 2.0, "setup_seconds": 0.1, "steps": 1,
        "stages": {}, "items": None, "quality": None, "facts": {}, "usage": {}, "comm_calls": 0,
        "step_ends": 0, "modules": {}, "began": 1.0,
    }  # fmt: skip
    (folder / f"rank-{rank}.json").write_text(json.dumps(told | more))


def test_ranks_from_the_records_of_an_engine(tmp_path):
    run = a_run(tmp_path, a_rank(0), a_rank(1))
    assert (run.outcome, run.seconds, len(run.ranks)) == ("ok", 1.5, 2)
    assert run.ranks[1].stages == {"compute": 1.0, "overhead": 0.5}


def test_k_workers_must_have_taken_part(tmp_path):
    run = a_run(tmp_path, a_rank(0))
    assert (run.outcome, run.detail) == ("wrong workers", "1 of 2 workers reported")


@pytest.mark.parametrize(("counted", "steps"), [({}, None), ({"counts_steps": True}, 0)])
def test_steps_that_never_ran_are_told_from_steps_that_nobody_counts(tmp_path, counted, steps):
    report(tmp_path, 0, steps=0, **counted)
    assert a_run(tmp_path, nodes=1).steps == steps


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_report_of_a_driver_tells_of_the_run_and_not_of_a_worker(tmp_path, nodes):
    report(tmp_path, 0, items=10, quality=0.5, facts={"dtype": "f4"}, stages={"compute": 9.0})
    run = a_run(tmp_path, *(a_rank(at) for at in range(nodes)), nodes=nodes, driven=True)
    assert (run.outcome, run.seconds, run.work, run.quality) == ("ok", 2.0, 10, 0.5)
    assert run.facts == {"dtype": "f4"}
    assert [rank.host for rank in run.ranks] == ["w0", "w1"][:nodes]
    assert run.ranks[0].stages == {"compute": 1.0, "overhead": 0.5}
    assert (run.ranks[0].items, run.ranks[0].usage) == (None, None)


def test_what_ranks_report_themselves_counts_before_the_records(tmp_path):
    report(tmp_path, 0, stages={"compute": 1.9})
    report(tmp_path, 1)
    run = a_run(tmp_path, a_rank(0), a_rank(1, items=3.0))
    assert run.ranks[0].stages["compute"] == 1.9
    assert "overhead" not in run.ranks[0].stages
    assert run.ranks[1].stages == {"compute": 1.0, "overhead": 0.5}
    assert (run.ranks[1].items, run.ranks[1].seconds, run.ranks[1].host) == (3.0, 2.0, "w1")


def test_a_run_whose_figures_are_no_numbers_or_that_took_no_time_has_failed(tmp_path):
    report(tmp_path, 0)
    report(tmp_path, 1, no_number="quality is nan")
    run = a_run(tmp_path)
    assert (run.outcome, run.detail) == ("not a number", "quality is nan")
    assert a_run(tmp_path, outcome="timeout").outcome == "timeout"
    for rank in range(2):
        report(tmp_path, rank, seconds=0.0)
    assert (a_run(tmp_path).outcome, a_run(tmp_path).detail) == ("crashed", "a run cannot take 0 s")


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [("ok", "crashed"), ("timeout", "timeout"), ("out of memory", "out of memory")],
)
def test_a_damaged_report_does_not_hide_how_a_run_failed(tmp_path, ended, outcome):
    (tmp_path / "rank-0.json").write_text("{")
    run = a_run(tmp_path, outcome=ended)
    assert run.outcome == outcome
    assert ("damaged" in run.detail) == (ended == "ok")


def test_a_rank_whose_clock_never_ran_says_nothing_of_its_usage(tmp_path):
    report(tmp_path, 0)
    report(tmp_path, 1, usage={"cpu_seconds": 1.0, "run_delay_seconds": None})
    first, second = a_run(tmp_path).ranks
    assert first.usage is None
    assert second.usage is not None and second.usage.run_delay_seconds is None
