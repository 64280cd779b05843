"""How much of the time is beside other work or in ranges, to the nanosecond, and what calibration changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.retime.solving import Times
from warpsight.simulate import calibration, sharing
from warpsight.simulate.selecting import SelectedRanges, _outermost

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=8)
ORIGIN = st.sampled_from((0, EPOCH))


def times(spans: list[tuple[int, int]], origin: int) -> Times:
    start, length = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    none = np.zeros(0, np.int64)
    return Times(none, none, start + origin, start + origin + length)


@given(SPANS, st.data(), ORIGIN)
def test_the_part_beside_others_is_counted_at_every_nanosecond(
    spans: list[tuple[int, int]], data: st.DataObject, origin: int
) -> None:
    """Also of traces whose clock counts from 1970, where floats are 256 ns apart."""
    mine = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    nodes, others = np.flatnonzero(mine), np.flatnonzero(~np.array(mine))
    run = {t for i in others.tolist() for t in range(spans[i][0], sum(spans[i]))}
    expected = [
        len(run & set(range(spans[i][0], sum(spans[i])))) / max(spans[i][1], 1) for i in nodes.tolist()
    ]
    assert sharing.overlapped(times(spans, origin), nodes, others).tolist() == expected
    begun = [any(spans[o][0] < spans[i][0] < sum(spans[o]) for o in others.tolist()) for i in nodes.tolist()]
    assert sharing._beside(times(spans, origin), nodes, others).tolist() == begun


@given(SPANS, SPANS, st.lists(st.integers(0, 1), min_size=8, max_size=8), ORIGIN)
def test_time_in_ranges_is_counted_at_every_nanosecond(
    spans: list[tuple[int, int]], asked: list[tuple[int, int]], threads: list[int], origin: int
) -> None:
    rows = sorted(
        (thread, s + origin, -(s + d + origin)) for thread, (s, d) in zip(threads, spans, strict=False) if d
    )
    thread, start, end = np.array(rows, np.int64).reshape(-1, 3).T
    found = SelectedRanges.__new__(SelectedRanges)
    found.thread, found.start, found.end = _outermost(thread, start, -end)
    inside = {(one, t) for one, s, e in rows for t in range(s, -e)}
    of, begin, length = (
        np.array(column, np.int64)
        for column in zip(
            *((t, s + origin, d) for t, (s, d) in zip(threads, asked, strict=False)), strict=True
        )
    )
    expected = [
        sum((one, t) in inside for t in range(a, a + d))
        for one, a, d in zip(of.tolist(), begin.tolist(), length.tolist(), strict=True)
    ]
    assert found.covered(of, begin, begin + length).tolist() == expected
    numbers = found.number(of, begin).tolist()
    assert [number >= 0 for number in numbers] == [
        pair in inside for pair in zip(of.tolist(), begin.tolist(), strict=True)
    ]
    for number, one, at in zip(numbers, of.tolist(), begin.tolist(), strict=True):
        assert number < 0 or (found.thread[number] == one and found.start[number] <= at < found.end[number])


@pytest.mark.parametrize(
    ("waves", "fitting", "packed", "taken", "factor"),
    [
        (1.0, 1, 0.5, 0.5, 1.0),  # both fit
        (1.0, 1, 0.75, 0.5, 2.0),  # one wave on all becomes one on half, and another
        (2.0, 1, 1.0, 0.5, 2.0),
        (3.0, 1, 1.0, 0.25, 4 / 3),
        (0.5, 1, 0.6, 0.5, 1.0),  # half a wave fits into the half that is left
        (0.0, 1, 1.0, 0.5, 1.0),
        (1.0, 1, 1.0, 0.15, 2.0),  # a block a multiprocessor: the few that are left take as long as all
        (1.0, 4, 1.0, 0.15, 1.25),  # four: one is left, alone
        (0.6, 5, 0.6, 0.5, 2.0),  # three a multiprocessor, then six: five and one
        (1.0, 1, 0.25, 1.0, 1.25),  # others take everything: in turns
        (1.0, 1, 1.0, 2.0, 2.0),
    ],
)
def test_a_kernel_that_finds_no_room_needs_more_waves(
    waves: float, fitting: int, packed: float, taken: float, factor: float
) -> None:
    room = sharing._Room(np.array([waves]), np.array([float(fitting)]), np.zeros(1), np.array([packed]))
    assert room.slowdown(np.array([0]), taken)[0] == pytest.approx(factor)


class Lags(SimpleNamespace):
    """The columns of a program that calibration changes."""

    def but(self, **columns: Any) -> Lags:
        return Lags(**{**vars(self), **columns})


def test_recording_costs_each_call_the_same_down_to_a_fifth_of_its_time() -> None:
    """Before and in a call: 6 + 4 µs lose 1 in proportion, 1 + 0 µs all but a fifth; what overlaps (below 0) stays."""
    program = Lags(base=6, lag=np.array([6_000, 4_000, 1_000, 0, -500, 2_000]), duration=np.array([1_000]))
    found = calibration._cheaper(cast(Any, program), 1_000)
    assert found.lag.tolist() == [5_400, 3_600, 200, 0, -500, 1_000]
    assert calibration._hosted(cast(Any, program), 0.5).lag.tolist() == [3_000, 2_000, 500, 0, -500, 1_000]
    assert calibration._scaled(cast(Any, program), 1.25).duration.tolist() == [1_250]


@pytest.mark.parametrize(
    ("target", "expected"), [(60.0, 4.0), (95.0, 0.5), (100.0, 0.0), (0.0, 10.0), (20.0, 8.0)]
)
def test_the_least_change_that_reaches_the_target_is_found(target: float, expected: float) -> None:
    found = calibration._solved(lambda x: 100 - 10 * x, target, 0.0, 10.0)
    assert found == pytest.approx(expected, abs=0.002)
    assert found >= expected - 1e-9


def test_a_kernel_is_slowed_for_the_part_of_its_time_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that fill the device and overlap by half of their time: each takes twice as long for that half."""
    ones = np.ones(2)
    monkeypatch.setattr(sharing._Room, "of", lambda *_: sharing._Room(ones, ones, ones, ones))
    monkeypatch.setattr(sharing, "solve", lambda _: times([(0, 100), (50, 100)], 0))

    class Kernels(Lags):
        def __len__(self) -> int:
            return 2

        def but(self, **columns: Any) -> Kernels:
            return Kernels(**{**vars(self), **columns})

    program = Kernels(graph=SimpleNamespace(kind=np.zeros(2, np.int8)), duration=np.array([100, 100]))
    found = sharing.slowed(cast(Any, None), cast(Any, program), np.array([True, False]), 0)
    assert found.duration.tolist() == [150, 150]
