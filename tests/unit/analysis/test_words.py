"""Numbers in sentences: three digits, the largest unit that fits, and no unit that rounds up to 1,000 of itself."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.analysis.base import words

UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
         "FLOP": 1, "kFLOP": 10**3, "MFLOP": 10**6, "GFLOP": 10**9, "TFLOP": 10**12, "PFLOP": 10**15}  # fmt: skip


@pytest.mark.parametrize(
    ("say", "given", "said"),
    [
        (words.duration, (890,), "890 ns"),
        (words.counted, (1, "kernel has", "kernels have"), "1 kernel has"),
        (words.counted, (0, "kernel has", "kernels have"), "0 kernels have"),
        (words.counted, (1_234, "kernel has", "kernels have"), "1,234 kernels have"),
        (words.counted, (1, "slice"), "1 slice"),
        (words.counted, (2_000, "slice"), "2,000 slices"),
        (words.duration, (45_600,), "45.6 µs"),
        (words.duration, (12_340_000,), "12.3 ms"),
        (words.duration, (2.314e9,), "2.31 s"),
        (words.duration, (999.6,), "1.00 µs"),
        (words.duration, (-3_000,), "-3.00 µs"),
        (words.size, (1_023,), "1023 B"),
        (words.size, (1_536,), "1.50 KiB"),
        (words.size, (3.25 * 2**30,), "3.25 GiB"),
        (words.size, (5 * 2**40,), "5.00 TiB"),
        (words.operations, (890,), "890 FLOP"),
        (words.operations, (12.34e12,), "12.3 TFLOP"),
        (words.operations, (2e15,), "2.00 PFLOP"),
        (words.operations, (9.994e9,), "9.99 GFLOP"),
        (words.operations, (9.995e9,), "10.0 GFLOP"),
        (words.operations, (99.95e9,), "100 GFLOP"),
        (words.times, (1,), "once"),
        (words.times, (2,), "twice"),
        (words.times, (1_234,), "1,234 times"),
        (words.moment, (2_535_819_499,), "2.535819s"),
        (words.moment, (-5_000_000,), "-0.005000s"),
        (words.moment, (1_000_000_007, 9), "1.000000007s"),
    ],
)
def test_how_numbers_are_said(say: Callable[..., str], given: tuple[float | str, ...], said: str) -> None:
    assert say(*given) == said


@given(st.floats(1, 1e17), st.sampled_from([words.duration, words.size, words.operations]))
def test_what_is_said_is_the_number_to_three_digits(value: float, say) -> None:  # type: ignore[no-untyped-def]
    number, unit = say(value).split()
    shown = float(number.replace(",", ""))
    assert abs(shown * UNITS[unit] - value) <= max(value * 0.0051, 0.51)
    assert shown < 1024 or unit in ("s", "TiB", "PFLOP")
    assert shown >= 1 or unit in ("ns", "B", "FLOP")
