import pytest

from nodewise.base.errors import SpecError
from nodewise.study.spec import parse_spec

MINIMAL = 'name = "job"\nscales = [1, 2]\n[workload]\ncommand = ["true"]\n'


def test_a_minimal_spec_has_sensible_defaults():
    spec = parse_spec(MINIMAL)
    assert (spec.rounds, spec.engine.name) == (7, "local")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "not TOML"),
        ('name = "x"', "missing required field `scales`"),
        (MINIMAL.replace("[1, 2]", "[1, 0]"), "scales[1]: expected `int` >= 1"),
        (MINIMAL.replace("[1, 2]", "[2, 2]"), "is listed twice"),
        (MINIMAL.replace("[1, 2]", "[]"), "scales: expected `array` of length >= 1"),
        (MINIMAL.replace('["true"]', '"true"'), "workload.command: expected `array`"),
        (MINIMAL + "colour = 1", "unknown field `colour`"),
        (MINIMAL + "[engine]\nname = 3", "engine.name: expected `str`"),
        (MINIMAL + "[engine]\ncolour = 1", "engine: object contains unknown field `colour`"),
        (MINIMAL.replace('command = ["true"]', ""), "command or a function"),
        (MINIMAL + "[quality]\nsplitt = 'x'", "quality.splitt: unknown"),
        (MINIMAL + "[gates]\nleast_speedup = { 7 = 2 }", "K=7 is not measured"),
        ("rounds = 0\n" + MINIMAL, "rounds: expected `int` >= 1"),
    ],
)
def test_a_bad_field_is_named_with_its_path(text, words):
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert words in caught.value.what
    assert "\n" not in caught.value.what
