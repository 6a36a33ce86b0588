"""The table of inputs: one question from a TOML file, a question file, --set and options."""

import json
import tomllib

import msgspec
import pytest

from nodewise.base.errors import SpecError
from nodewise.base.interval import Interval
from nodewise.decide.inputs import INPUTS, Question, ask, default_of, read_tables, read_value
from nodewise.decide.prices.lookup import ask_today, question_of, today
from nodewise.report.notebook import open_job
from nodewise.study import store
from nodewise.study.spec import parse_file
from nodewise.study.study import Run
from tests.study.test_spec import MINIMAL

SPEC = """
name = "job"
scales = [1, 2, 4, 8]
rounds = 3
[workload]
command = ["true"]
[price]
per_node_hour = 3.0
fixed_per_hour = 12.0
startup_seconds = 0
[energy]
busy_watts = 400
"""


@pytest.fixture
def folder(tmp_path):
    """A measured study: efficiency 1, 0.96, 0.87, 0.71."""
    path = tmp_path / "job.study"
    store.create(path, SPEC)
    for nodes, seconds in ((1, 1000.0), (2, 520.0), (4, 288.0), (8, 176.0)):
        for at in range(3):
            store.append(path, Run(nodes=nodes, round=at, seconds=seconds * (1 + 0.001 * at)))
    return path


def changed(folder, old: str, new: str) -> None:
    """Change the question in the spec of a measured folder, as an editor would."""
    text = (folder / "study.toml").read_text()
    assert old in text
    store.create(folder, text.replace(old, new))


def test_a_new_question_of_a_measured_folder_gets_a_new_answer_without_a_run(nodewise, folder):
    runs = (folder / "runs.jsonl").read_bytes()

    def decide(*options):
        return nodewise("decide", folder, "--json", *options).json

    first = decide()
    assert first["recommended"]["K"] == 8
    changed(folder, "per_node_hour = 3.0", "per_node_hour = 60.0")
    dearer = decide()
    assert dearer["recommended"]["K"] < first["recommended"]["K"]
    assert dearer["rows"][0]["cost"] > first["rows"][0]["cost"]
    changed(folder, "[energy]", "[gates]\ndeadline_seconds = 200\n[energy]")
    late = decide()
    assert late["recommended"]["K"] == 8
    assert late["rows"][0]["excluded_because"]
    assert first["rows"][0]["grams"] is None
    changed(folder, "busy_watts = 400", 'busy_watts = 400\ngrid = "FRA"')
    french = decide()["rows"][0]["grams"]
    changed(folder, 'grid = "FRA"', 'grid = "POL"')
    assert decide()["rows"][0]["grams"] > 3 * french
    changed(folder, 'name = "job"', 'name = "job"\nregime = "weak"')
    weak = decide()
    assert (weak["regime"], first["regime"]) == ("weak", "strong")
    assert weak["rows"][-1]["speedup"] == pytest.approx(8 * first["rows"][-1]["speedup"])
    assert (folder / "runs.jsonl").read_bytes() == runs


def test_a_new_threshold_of_a_measured_folder_gets_a_new_answer(nodewise, folder):
    changed(folder, "per_node_hour = 3.0\nfixed_per_hour = 12.0\n", "")
    chosen = {}
    for threshold in (0.70, 0.80, 0.95):
        text = (folder / "study.toml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("threshold")]
        store.create(folder, f"threshold = {threshold}\n" + "\n".join(lines))
        chosen[threshold] = nodewise("decide", folder, "--json").json["recommended"]["K"]
    assert chosen == {0.70: 8, 0.80: 4, 0.95: 2}


def test_the_regime_of_the_command_line_is_obeyed(nodewise, folder, tmp_path):
    weak = nodewise("decide", folder, "--regime", "weak", "--json").json
    assert weak["regime"] == "weak"
    page = tmp_path / "page.html"
    assert nodewise("report", folder, "-o", page).code == 0
    for source, *options in ((page, "--regime", "weak"), (folder, "--set", "regime=weak")):
        assert "45.45" in nodewise("table", source, "scaling", *options).out  # 8 * 5.68


def test_measuring_again_with_another_question_makes_no_run(nodewise, folder, tmp_path):
    spec = tmp_path / "job.toml"
    spec.write_text(SPEC.replace("12.0", "6.0") + "[gates]\ndeadline_seconds = 300\n")
    runs = (folder / "runs.jsonl").read_bytes()
    outcome = nodewise("study", spec, "-o", folder, "--json")
    assert outcome.code == 0, outcome.err
    assert (folder / "runs.jsonl").read_bytes() == runs
    assert "deadline_seconds = 300" in (folder / "study.toml").read_text()


def test_one_question_in_four_ways(nodewise, folder, tmp_path):
    file = tmp_path / "question.toml"
    file.write_text('[price]\nper_node_hour = "2..4"\nstartup_seconds = "2min"\n')
    results = [
        nodewise("decide", folder, "--json", *options).json
        for options in (
            ("--price", "2..4", "--startup", "2min"),
            ("--set", "price=2..4", "--set", "startup=120"),
            ("--set", "price.per_node_hour=2..4", "--startup", "120s"),
            ("-q", file),
        )
    ]
    assert all(one == results[0] for one in results)
    assert results[0]["ranges"] == {"price": {"low": 2.0, "high": 4.0}}


def test_an_option_overrides_a_setting_which_overrides_a_file(nodewise, folder, tmp_path):
    file = tmp_path / "question.toml"
    file.write_text("threshold = 0.5\n[price]\nper_node_hour = 5\nfixed_per_hour = 1\n")
    options = ("-q", file, "--set", "price=6", "--fixed", "2", "--json")
    price = nodewise("decide", folder, *options).json["price"]
    assert (price["per_node_hour"], price["fixed_per_hour"]) == (6.0, 2.0)


@pytest.mark.parametrize(
    "text",
    ['deadline = "100s"', "[gates]\ndeadline_seconds = 100", 'name = "x"\ndeadline = 100'],
)
def test_a_question_file_may_use_the_keys_of_set(nodewise, folder, tmp_path, text):
    file = tmp_path / "question.toml"
    file.write_text(text)
    assert nodewise("decide", folder, "-q", file).code == 1  # nothing is done in 100 s


@pytest.mark.parametrize(
    "text",
    ["treshold = 0.5", "[gate]\ndeadline_seconds = 9", "foo = 1", "[gates]\ndeadline = 9", "x ="],
)
def test_an_unknown_key_of_a_question_file_is_refused(nodewise, folder, tmp_path, text):
    file = tmp_path / "question.toml"
    file.write_text(text)
    outcome = nodewise("decide", folder, "-q", file)
    assert (outcome.code, len(outcome.err.splitlines())) == (2, 2)


def test_a_spec_can_be_read_as_a_question(nodewise, folder):
    read = nodewise("decide", folder, "-q", folder / "study.toml", "--json").json
    assert read == nodewise("decide", folder, "--json").json


def test_a_gate_at_a_named_scale_counts_in_every_command(nodewise, folder):
    changed(folder, "[energy]", "[gates]\nleast_efficiency = { 8 = 0.9 }\n[energy]")
    outcome = nodewise("decide", folder, "--json")
    assert outcome.code == 1
    (gate,) = [check for check in outcome.json["checks"] if check["is_gate"]]
    assert (gate["verdict"], gate["rule"]) == ("fail", "efficiency at least 0.9 at K=8")
    checks = nodewise("table", folder, "checks").out
    assert checks.count("efficiency at least 0.9 at K=8") == 1
    assert nodewise("decide", folder, "--set", "least-efficiency=8=0.6").code == 0


def test_every_input_is_listed_and_accepts_its_own_default(nodewise):
    listed = {one["key"]: one for one in nodewise("help", "inputs", "--json").json}
    assert list(listed) == list(INPUTS)
    for row in INPUTS.values():
        assert (listed[row.key]["toml"], row.help[-1]) == (row.toml, ".")
        default = default_of(row)
        if row.kind.numeric and isinstance(default, float):
            assert read_value(row, default) in (default, Interval(default, default))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"price": {"per_node_hour": "much"}}, "price.per_node_hour: 'much'"),
        ({"price": {"per_node_hour": -1}}, "price.per_node_hour: -1 is below 0"),
        ({"price": {"colour": 1}}, "price.colour: unknown"),
        ({"threshold": 2}, "threshold: 2 is above 1"),
        ({"gates": {"deadline_seconds": 0}}, "gates.deadline_seconds: 0 is not above 0"),
        ({"gates": {"least_speedup": {"x": 2}}}, "gates.least_speedup"),
        ({"regime": "medium"}, "regime: 'medium' is not one of strong, weak"),
        ({"energy": {"idle_watts": 100}}, "energy.busy_watts"),
        ({"price": {"spot": True}}, "price.spot: expected share, got bool"),
    ],
)
def test_a_bad_input_of_a_file_is_named_with_its_path(tables, words):
    with pytest.raises(SpecError) as caught:
        ask(Question(), read_tables(tables))
    assert words in caught.value.what


def test_a_price_of_your_own_replaces_that_of_a_list():
    listed = ask_today(Question(), {"instance": "aws:p5.48xlarge"})
    assert listed.records
    own = ask_today(listed, {"price": Interval(2.0, 2.0), "price-source": "ours"})
    assert (own.records, own.price.per_node_hour, own.price.source) == ((), 2.0, "ours")


def test_a_new_price_does_not_inherit_the_source_of_the_old_one(nodewise, folder, tmp_path):
    day = today().isoformat()
    changed(folder, "per_node_hour = 3.0", f'per_node_hour = 3.0\nsource = "my list, {day}"')
    file = tmp_path / "question.toml"
    file.write_text("[price]\nper_node_hour = 100\n")

    def found(*options):
        price = nodewise("decide", folder, "--json", *options).json["price"]
        return price["per_node_hour"], price["source"]

    assert found() == found("--fixed", "2") == (3.0, f"my list, {day}")
    for options in (("--price", "100"), ("--set", "price=100"), ("-q", file)):
        assert found(*options) == (100.0, "")
        shown = nodewise("decide", folder, *options, "--only", "checks").out
        assert "price date" in shown
    stated = ("--set", "price-source=theirs"), ("--price-source", "theirs")
    for source in stated:
        for price in (("--price", "100"), ("--set", "price=100"), ("-q", file)):
            assert found(*source, *price) == (100.0, "theirs")
        assert found(*source) == (3.0, "theirs")
    file.write_text(f"[price]\nper_node_hour = 50\nsource = 'a file, {day}'\n")
    assert found("-q", file) == (50.0, f"a file, {day}")
    assert found("-q", file, "--price", "100") == (100.0, "")
    job = open_job(folder)
    assert job.question(price=100).price.source == ""
    assert job.question(price=100, price_source="theirs").price.source == "theirs"
    assert job.question(fixed=2).price.source == f"my list, {day}"


def test_a_question_of_version_0_1_is_read():
    old = json.loads(msgspec.json.encode(Question()))
    old["scenarios"] = {"crunch": {"price": 3.5}}
    assert msgspec.convert(old, Question) == Question()


def test_layers_compose(nodewise, folder, tmp_path):
    file = tmp_path / "question.toml"
    file.write_text("[gates]\nbudget = 0.1\n")
    assert nodewise("decide", folder, "-q", file).code == 1  # every scale costs more
    assert nodewise("decide", folder, "-q", file, "--budget", "99kWh").code == 1
    both = ("--set", "budget=0.1", "--set", "budget=99kWh")
    assert nodewise("decide", folder, *both).code == 1
    file.write_text('[price]\ninstance = "aws:p5.48xlarge"\n')
    asked = nodewise("decide", folder, "-q", file, "--price", "3", "--json").json
    assert asked["price"]["per_node_hour"] == 3.0


@pytest.mark.parametrize(
    "line",
    [
        "[price]\ncorrelation = 1.0",
        "[energy]\nidle_watts = 100",
        '[price]\nper_node_hour = 3\ninstance = "aws:p5.48xlarge"',
        '[price]\npreempt = "0.4/gang-h"\ncorrelation = 0.5',
    ],
)
def test_a_spec_of_version_0_1_that_states_too_much_is_read(line):
    assert question_of(parse_file(f"{MINIMAL}\n{line}\n")[1])


@pytest.mark.parametrize(
    "line", ['trace = "/dev/zero"', 'own = "node.toml"', 'list = "x.csv"\ninstance = "a"']
)
def test_a_spec_names_no_file(line):
    with pytest.raises(SpecError, match="cannot name this file"):
        question_of({"price": dict(tomllib.loads(line))})


@pytest.mark.parametrize("ends", [["a", 2], [2], [2, 1], 3, [True, 2]])
def test_a_range_of_a_spec_is_two_numbers(ends):
    with pytest.raises(SpecError):
        read_tables({"price": {"ranges": {"price": ends}}})


def test_a_range_of_preemptions_keeps_their_scope():
    tables = {"price": {"preempt": "0.4/gang-h", "ranges": {"preempt": [1e-5, 2e-5]}}}
    assert ask(Question(), read_tables(tables)).payment.preemptions.scope == "gang"
