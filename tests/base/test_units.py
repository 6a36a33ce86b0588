import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.units import format_money, format_speedup, parse_fraction, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.15h", 540), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25), ("7", 7)],
)
def test_times(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "h", "1x", "1h foo", "inf", "nan", "-1h", "one hour"])
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match=r"not a time|finite"):
        parse_seconds(text)


@given(st.floats(0, 1e6))
def test_shares_and_percentages_agree(value):
    assert parse_fraction(f"{value!r}%") == pytest.approx(parse_fraction(repr(value)) / 100)


def test_no_minus_zero_and_no_lost_sign():
    assert format_speedup(-0.001) == "0.00"
    assert format_money(-0.0000213) == "-$0.0000213"
    assert format_money(0.0) == "$0.000"
