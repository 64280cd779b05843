"""Conversion of times that cannot be: zero, backwards, or against those of another clock."""

from __future__ import annotations

import pytest

from tests.unit.capture.recordings import Recording, kernels, launches


def test_zero_timestamps_are_lost_times_not_times(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 2))
        out.write("Kernel", kernels(1, 2, start=[0, 2200], end=[0, 2700]))
    with recording.finish() as trace:
        assert trace.sql("SELECT start, duration FROM kernel ORDER BY correlation DESC").fetchall() == [
            (2200, 500),
            (None, None),
        ]
        assert [(r["cause"], r["count"]) for r in trace.loss.to_pylist()] == [
            ("timestamps of a kernel were zero", 1)
        ]


def test_disagreeing_clocks_are_noted_per_device(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3))
        out.write("Kernel", kernels(1, 3, start=[900, 2200, 3200]))
        out.write("Sync", {"start": [2500], "end": 2600, "type": 4, "context": 1})
    with recording.finish() as trace:
        causes = {r["cause"]: (r["count"], r["severity"]) for r in trace.loss.to_pylist()}
        assert causes == {
            "kernels of device 0 start before their launch call (by up to 100 ns)": (1, "note"),
            "kernels of context 1 end after the wait for them ended": (1, "note"),
        }


def test_a_kernel_that_ended_before_it_began_is_noted_beside_one_without_times(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 4))
        out.write("Kernel", kernels(1, 4, start=[1_200, 2_300, 0, 4_200], end=[1_700, 2_299, 3_700, 0]))
    with recording.finish() as trace:
        rows = trace.sql("SELECT correlation, start, duration FROM kernel ORDER BY 1").fetchall()
        assert rows == [(1, 1_200, 500), (2, 2_300, -1), (3, None, None), (4, None, None)]
        lost = {row["cause"]: (row["count"], row["severity"]) for row in trace.loss.to_pylist()}
        assert lost == {
            "a kernel ended before it began": (1, "note"), "timestamps of a kernel were zero": (2, "lost"),
        }  # fmt: skip


@pytest.mark.parametrize(("end", "noted"), [(2_300, 0), (2_299, 1)])
def test_a_kernel_of_no_length_is_not_one_that_ended_before_it_began(
    recording: Recording, end: int, noted: int
) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 2))
        out.write("Kernel", kernels(1, 2, start=[1_200, 2_300], end=[1_700, end]))
    with recording.finish() as trace:
        found = [(row["cause"], row["count"]) for row in trace.loss.to_pylist()]
        assert found == [("a kernel ended before it began", 1)] * noted
