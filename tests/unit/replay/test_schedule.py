"""Operations under another schedule keep the orders that the recording has, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.standin.replaying import DEVICE
from tests.unit.replay import capsules
from warpsight.api import trace as trace_api
from warpsight.errors import UsageError
from warpsight.model import open as open_trace
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.schedules import prediction
from warpsight.replay.schedules.schedule import changed
from warpsight.replay.schedules.sequence import OperationSequence, Step, sequence

US = 1000


def launch(stream: int, function: int) -> m.Launch:
    return m.Launch(stream, function, (1, 1, 1), (32, 1, 1))


def capsule(*operations: m.Operation, streams: int = 2) -> m.Manifest:
    return m.Manifest(
        format="warpsight capsule", version=1, device=DEVICE, chunk_bytes=4096,
        functions=[m.Function(0, "gemm"), m.Function(0, "gelu"), m.Function(0, "norm")],
        streams=[m.Stream(flags=1)] * streams, events=2, operations=list(operations),
    )  # fmt: skip


def text(found: OperationSequence) -> list[str]:
    def one(step: Step) -> str:
        work = step.work
        if isinstance(work, m.Launch):
            return f"{work.stream}:{('gemm', 'gelu', 'norm')[work.function]}"
        if isinstance(work, (m.EventRecord, m.EventWait)):
            return f"{work.stream}:{'record' if isinstance(work, m.EventRecord) else 'wait'}{work.event}"
        return f"{work.stream}:{type(work).__name__.lower()}"

    return [one(step) for step in found.steps]


FORKED = (launch(0, 0), m.EventRecord(0, 0), launch(0, 1), m.EventWait(1, 0), launch(1, 2))


def after(*operations: m.Operation, what: str) -> list[str]:
    held = capsule(*operations)
    return text(changed(held, sequence(held), what).steps)


def test_kernels_in_a_stream_of_their_own_wait_for_nothing_and_their_waiters_wait_for_both() -> None:
    assert after(*FORKED, what="streams:gemm") == [
        "2:gemm", "0:record0", "2:record2", "0:gelu", "1:wait0", "1:wait2", "1:norm"
    ]  # fmt: skip


def test_merged_streams_keep_the_order_of_their_calls() -> None:
    assert after(*FORKED, what="merge") == ["0:gemm", "0:gelu", "0:norm"]


def test_streams_in_turn_keep_each_order_and_each_wait() -> None:
    steps = (
        launch(0, 0),
        launch(0, 1),
        m.EventRecord(0, 0),
        launch(1, 2),
        launch(1, 2),
        m.EventWait(1, 0),
        launch(1, 0),
    )
    assert after(*steps, what="interleave") == [
        "0:gemm", "1:norm", "0:gelu", "1:norm", "0:record0", "1:wait0", "1:gemm"
    ]  # fmt: skip


def test_an_event_that_is_used_again_keeps_its_records_in_order() -> None:
    steps = (m.EventRecord(0, 0), launch(1, 2), m.EventWait(1, 0), m.EventRecord(0, 0), m.EventWait(1, 0))
    assert after(*steps, what="interleave") == ["0:record0", "1:norm", "1:wait0", "0:record0", "1:wait0"]


def test_priorities_and_work_that_is_left_out() -> None:
    held = capsule(*FORKED)
    assert [s.priority for s in changed(held, sequence(held), "priority:norm").steps.streams] == [0, -5]
    left = changed(held, sequence(held), "kernel:gelu=none").steps
    assert not left.complete and "0:gelu" not in text(left)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("streams:conv", "matches no operation"),
        ("kernel:gemm/2", "cannot be measured"),
        ("priority", "needs a name"),
        ("faster", "begins with one of"),
        ("overlap:copies", "matches no operation"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(what: str, says: str) -> None:
    held = capsule(*FORKED)
    with pytest.raises(UsageError, match=says):
        changed(held, sequence(held), what)


def test_the_prediction_of_kernels_side_by_side(tmp_path) -> None:
    """Two kernels of 100 µs, one block each, in one stream: side by side they take half the time."""
    held = capsule(launch(0, 0), launch(0, 1), streams=1)
    steps, lengths, issued = sequence(held), [100 * US] * 2, [0, 2 * US, 4 * US]
    assert prediction.makespan(steps, lengths, issued) == 205 * US
    ratio = prediction.predicted(held, steps, lengths, issued, "streams:gemm", tmp_path)
    assert ratio == pytest.approx(0.5, abs=0.03)
    assert prediction.predicted(held, steps, lengths, issued, "kernel:gemm=none", tmp_path) == pytest.approx(
        0.5, abs=0.03
    )


def test_the_prediction_of_a_graph_has_the_gaps_between_launches(tmp_path) -> None:
    """Kernels of 10 µs follow each other after 1.5 µs in a stream, and after 0.5 µs in a graph."""
    held = capsule(*[launch(0, 0)] * 50, streams=1)
    steps, lengths, issued = sequence(held), [10 * US] * 50, [i * US for i in range(51)]
    whole = prediction.makespan(steps, lengths, issued, 1500)
    assert whole == 4 * US + 50 * 10 * US + 49 * 1500
    ratio = prediction.predicted(held, steps, lengths, issued, "graphs", tmp_path, 1500)
    assert (1 - ratio) * whole == pytest.approx(49 * US, rel=0.2)


def test_the_prediction_keeps_what_events_order(tmp_path) -> None:
    held = capsule(*FORKED)
    issued = [i * US for i in range(6)]
    lengths = [50 * US, 0, 50 * US, 0, 50 * US]
    ratio = prediction.predicted(held, sequence(held), lengths, issued, "kernel:gelu=none", tmp_path)
    assert ratio == pytest.approx(1, abs=0.05)  # norm waits for gemm alone


def test_a_capsule_as_a_trace_has_its_operations_and_times(tmp_path) -> None:
    golden = Path(__file__).parents[2] / "golden" / "capsules" / "triton.capsule"
    prediction.recorded(Capsule.open(golden), tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace:
        rows = trace.sql("SELECT name, duration, grid_x FROM kernel").fetchall()
    (launch,) = Capsule.open(golden).manifest.operations
    assert [(duration, grid) for _, duration, grid in rows] == [(launch.device_time, launch.grid[0])]


def test_every_kind_of_operation_is_on_the_timeline_of_a_capsule(tmp_path: Path) -> None:
    prediction.recorded(capsules.write(tmp_path / "x.capsule"), tmp_path / "t.warp")
    with trace_api.open(str(tmp_path / "t.warp")) as trace:
        works = {
            name: len(trace.sql(f"SELECT * FROM {name}").fetchall())
            for name in ("kernel", "memcpy", "memset")
        }
        written = trace.export("perfetto", tmp_path / "t.pftrace")
    assert works == {"kernel": 2, "memcpy": 2, "memset": 0}
    assert written.counts["slices"] >= 4
