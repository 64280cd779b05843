"""Numbers parsed as columns are those that the decimal module reads, wherever in a text they stand."""

from decimal import ROUND_DOWN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.formats.chrome.times import MISSING
from warpsight.formats.kineto import digits
from warpsight.formats.kineto.group import EventGroup

DIGITS = st.text("0123456789", min_size=1, max_size=19)
DECIMALS = st.builds(lambda a, b: f"{a}.{b}" if b else a, DIGITS, st.text("0123456789", max_size=5))
TEXTS = st.one_of(
    DIGITS, DECIMALS, st.text(".-+eE0123456789 /:", max_size=20), st.sampled_from(["null", '"x"', "[1]"])
)


def spans(texts, between=","):
    joined, starts, ends = "", [], []
    for text in texts:
        starts.append(len(joined))
        joined += text
        ends.append(len(joined))
        joined += between
    return joined.encode(), np.array(starts, np.int64), np.array(ends, np.int64)


@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_digits_are_numbers_and_nothing_else_is(texts):
    text, starts, ends = spans(texts)
    values, wrong = digits.unsigned(digits.Words8(text), starts, ends)
    for told, value, bad in zip(texts, values.tolist(), wrong.tolist(), strict=True):
        assert bad == (not (told.isdigit() and len(told) <= digits.MOST_DIGITS))
        assert bad or value == int(told)


@given(st.lists(DECIMALS, min_size=1, max_size=30), st.sampled_from([",", ".5,", "99"]))
def test_decimals_are_exact_in_thousandths(texts, between):
    text, starts, ends = spans(texts, between)
    values, wrong = digits.thousandths(digits.Words8(text), starts, ends)
    for told, value, bad in zip(texts, values.tolist(), wrong.tolist(), strict=True):
        whole, _, decimals = told.partition(".")
        if len(decimals) <= 3 and len(whole) <= 15:
            assert not bad
        if not bad:
            assert value == int((Decimal(told) * 1000).to_integral_value(ROUND_DOWN))


@given(st.lists(st.binary(max_size=digits.SHORT), min_size=1, max_size=20))
def test_short_texts_are_told_apart(texts):
    joined = b"".join(texts)
    ends = np.cumsum([len(text) for text in texts])
    starts = ends - [len(text) for text in texts]
    words = digits.short(digits.Words8(joined), starts, ends)
    assert [digits.of_short(word) for word in words.tolist()] == texts


@pytest.mark.parametrize(
    ("told", "time"),
    [
        ("1.5", 1500),
        ("-3.25", -3250),
        ("7.1239", 7123),
        ("1e3", 1_000_000),
        ('"12.5"', 12_500),
        ("null", MISSING),
        ("4611686018427387", 4611686018427387000),
        ("99999999999999999", MISSING),
    ],
)
def test_one_odd_time_leaves_the_others_as_they_are(told, time):
    text, starts, ends = spans(["4377795602436.076", told, "21.0", "0"])
    group = EventGroup(text, 4, {".ts": (starts, ends)})
    assert group.times(".ts").tolist() == [4377795602436076, time, 21000, 0]


def test_one_odd_integer_leaves_the_others_as_they_are():
    told = [
        "12",
        "-7",
        "null",
        "1.5",
        '"4"',
        "18446744073709551615",
        "9223372036854775807",
        "12345678901234567",
    ]
    text, starts, ends = spans(["1", *told])
    starts[0] = ends[0] = 0  # an event without the field
    group = EventGroup(text, len(told) + 1, {"x": (starts, ends)})
    assert group.integers("x").to_pylist() == [
        None,
        12,
        -7,
        None,
        None,
        None,
        -1,
        (1 << 63) - 1,
        12345678901234567,
    ]
    assert group.misfits == {"x": [4, 5]}
