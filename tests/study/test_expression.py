"""Arithmetic in arguments: what is computed, what is left alone, what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.base.time_limit import time_limit
from nodewise.study.expression import expand, holds, uses_alone

VALUES = {"n": 8, "nodes": 8, "k": 8, "ranks": 16, "round": 2, "seed": 7, "python": "/bin/python"}


def one(word: str, values: dict[str, int | str] = VALUES) -> str:
    return expand([word], values, "workload.command")[0]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("{n}", "8"),
        ("-n={nodes}x{ranks}", "-n=8x16"),
        ("{48/n}", "6"),
        ("{60/n}", "7.5"),
        ("{60//n}", "7"),
        ("{60 % n}", "4"),
        ("{round(30*n**(1/3))}", "60"),
        ("{30*n**(1/3)}", "60"),
        ("{round}", "2"),  # the number of the round, beside the function
        ("{round(n/3, 2)}", "2.67"),
        ("{ceil(n/3)} {floor(n/3)} {int(n/3)}", "3 2 2"),
        ("{sqrt(2*n)}", "4"),
        ("{cbrt(n)}", "2"),
        ("{log2(n)}", "3"),
        ("{max(n, 10) - min(n, 3)}", "7"),
        ("{-n + +2}", "-6"),
        ("{python}", "/bin/python"),
        ("{0.1*n}", "0.8"),
        ("{n**12}", "68719476736"),
        ("{1e-7*n}", "8e-07"),
        ('{"nodes": {n}, "in": {"b": {2*n}}}', '{"nodes": 8, "in": {"b": 16}}'),
    ],
)
def test_expressions_are_computed(word, expected):
    assert one(word) == expected


@pytest.mark.parametrize(
    "word",
    [
        '{"a": 1}', '{"a": {"b": [1, 2]}}', "{}", "x{2}", "x{2,3}", "{1..5}", "${HOME}", "${n}",
        "{print $1}", "awk '{s+=$1}'", "{n", "n}", "{'n'}", "{a;b}", "{x:>8}",
        "{%n!}", "{[n]}", "{ü}",
    ],
)  # fmt: skip
def test_other_braces_are_left_as_they_are(word):
    assert one(word) == word


@pytest.mark.parametrize(
    ("word", "expected"),
    [("{{n}}", "{n}"), ("{{print}}", "{print}"), ("{{{n}}}", "{8}"), ("{{}}", "{}")],
)
def test_doubled_braces_become_single_ones(word, expected):
    assert one(word) == expected


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("{node}", "unknown name node (character 1)"),
        ("{24/node}", "unknown name node (character 4)"),
        ("{ 24 / node }", "unknown name node (character 7)"),
        ("{print}", "unknown name print"),
        ("{print s}", "is not an expression"),
        ("{48/n/}", "is not an expression"),
        ("{n, 2}", "is not arithmetic"),
        ("{n.real}", "is not arithmetic"),
        ("{__import__(n)}", "unknown function __import__"),
        ("{open(n)}", "unknown function open"),
        ("{n/0}", "divides by zero"),
        ("{n % 0}", "divides by zero"),
        ("{n**n**n**n}", "a power beyond"),
        ("{9**(9**n)}", "a power beyond"),
        ("{(0-n)**0.5}", "not a finite number"),
        ("{sqrt(0-n)}", "cannot be computed"),
        ("{1e308*n*n}", "not a finite number"),
        ("{python+1}", "which is not a number"),
        ("{sqrt(n, 2)}", "gives sqrt 2 values"),
        ("{" + "n+" * 200 + "n}", "longer than 200"),
        ("{" + "(" * 90 + "n" + ")" * 90 + "}", None),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name_and_place(word, what):
    if what is None:  # deep, and fine or refused, but never a crash
        assert one(word) == "8"
        return
    with pytest.raises(SpecError) as refused:
        one(word)
    assert what in refused.value.what
    assert refused.value.what.startswith("workload.command: {")
    assert "{{" in refused.value.fix


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(SpecError) as refused:
        one("{hosts}", {"n": 1, "nodes": 1})
    assert "Use n, nodes." in refused.value.fix


def test_a_bare_name_is_told_from_an_expression():
    assert uses_alone(["mpirun", "-n", "{n}"], "n")
    assert uses_alone(["--x={ n }"], "n")
    assert not uses_alone(["{48/n}", "{{n}}", "${n}", "{nodes}"], "n")


@pytest.mark.parametrize(
    ("condition", "fitting"),
    [
        ("n == round(n**(1/3))**3", [1, 8, 27, 64]),
        ("n**(1/3) % 1 == 0", [1, 8, 27, 64]),
        ("sqrt(n) == int(sqrt(n))", [1, 4, 9, 16, 25, 36, 49, 64]),
        ("not n % 32 or n == 1", [1, 32, 64]),
        ("1 < n <= 3", [2, 3]),
        ("n == 1 or 8 % (n-1) == 0", [1, 2, 3, 5, 9]),
        ("n > 1 and 8 % (n-1) == 0", [2, 3, 5, 9]),
    ],
)
def test_a_condition_picks_the_scales(condition, fitting):
    assert [n for n in range(1, 65) if holds(condition, {"n": n}, "workload.requires")] == fitting


@pytest.mark.parametrize("word", ["{round(n,-30000000)}", "{round(n, 16)}"])
def test_digits_of_round_are_bounded(word):
    with time_limit(60, AssertionError("too slow")), pytest.raises(SpecError, match="15 digits"):
        one(word)


@pytest.mark.parametrize("word", ["{" + "a" * 1_000_000, "{" * 100_000 + "a", "{a" * 100_000])
def test_braces_that_do_not_end_are_left_alone_at_once(word):
    with time_limit(60, AssertionError("quadratic")):
        assert one(word) == word


@pytest.mark.parametrize(
    "condition", ["n <", "n == cube", "[n]", "", "n == 'a'", "n.x", "lambda: n"]
)
def test_a_bad_condition_is_refused(condition):
    with pytest.raises(SpecError, match=r"workload\.requires"):
        holds(condition, {"n": 8}, "workload.requires")


numbers = st.integers(0, 99).map(str) | st.sampled_from(["n", "nodes", "0.5", "2.25"])
sums = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
        lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
    ),
    max_leaves=12,
)


@given(sums, st.integers(1, 10**6))
def test_arithmetic_is_that_of_python(text, nodes):
    values = {"n": nodes, "nodes": nodes}
    found = float(one(f"{{{text}+n}}", values))
    assert found == pytest.approx(eval(f"{text}+n", {}, values), rel=1e-11)


@given(st.text(st.characters(exclude_characters="{}", codec="utf-8")))
def test_text_without_braces_is_never_touched(text):
    assert one(text) == text


@given(st.integers(1, 10**7), st.integers(1, 1000))
def test_a_whole_number_has_no_point(n, factor):
    assert one("{size*n/n}", {"n": n, "size": factor}) == str(factor)
    root = round(n ** (1 / 3))
    assert one("{c**(1/3)}", {"c": root**3, "n": n}) == str(root)
    assert math.isclose(float(one("{n/size}", {"n": n, "size": factor})), n / factor, rel_tol=1e-11)
