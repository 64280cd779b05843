"""Device work joined with its calls: by session, without a call, and under the call that the program made."""

from __future__ import annotations

import pyarrow.parquet as pq

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.capture.converter import Converter


def test_waiting_kernels_keep_their_session_beside_those_of_another(recording: Recording) -> None:
    """Both sessions count from 1: the launches of the first come with the kernels of the second."""
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Kernel", kernels(1, 3))
    with recording.file(arena) as out:
        out.write("Kernel", kernels(1, 4), session=1, writer=78)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3, stack=1))
        out.write("Api", launches(1, 4), session=1, writer=77)
    with recording.finish() as trace:
        rows = trace.sql("SELECT correlation, stack FROM kernel ORDER BY 1").fetchall()
        assert rows == [(i, 1) for i in (1, 2, 3)] + [(1 << 32 | i, 2) for i in (1, 2, 3, 4)]
        assert len(trace.loss) == 0


def test_what_no_call_caused_is_written_at_once(recording: Recording) -> None:
    """A copy without a correlation, as the driver makes them, waits for no call; one with a correlation does."""
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Memcpy", {"start": [5, 15], "end": [9, 19], "bytes": 4, "kind": 1, "correlation": [0, 7],
                             "source_device": 65535, "destination_device": 65535})  # fmt: skip
    converter = Converter(recording.root)
    converter.convert(enough_bytes=0)
    converter.close()
    parts = sorted((recording.root / "table=memcpy").rglob("*.parquet"))
    assert [pq.read_table(part)["start"].to_pylist() for part in parts] == [[5]]
    with recording.finish() as trace:
        assert trace.sql("SELECT start, correlation, stack FROM memcpy ORDER BY 1").fetchall() == [
            (5, None, None),
            (15, 7, None),
        ]
        assert [(row["cause"], row["count"]) for row in trace.loss.to_pylist()] == [
            ("the call that caused a memcpy was not recorded, so it has no stack", 1)
        ]


def test_calls_inside_of_a_launch_are_not_launches_of_their_own(recording: Recording) -> None:
    """The runtime's launch calls the driver's, with one correlation: the row is the outer call's."""
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "Api",
            launches(
                1,
                3,
                correlation=[1, 1, 2],
                flags=[5, 1, 4],
                domain=[2, 1, 2],
                function=[307, 211, 10],
                start=[1_050, 1_000, 2_000],
            ),
        )
        out.write("Kernel", kernels(1, 1))
    with recording.finish() as trace:
        assert trace.sql("SELECT correlation, function FROM launch").fetchall() == [(1, "cudaLaunchKernel")]
        assert trace.count("api") == 0 and len(trace.loss) == 0
        assert trace.sql("SELECT correlation, stack FROM kernel").fetchall() == [(1, 2)]
