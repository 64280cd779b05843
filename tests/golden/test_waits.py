"""Who waits for whom in recorded traces that are cut where a hang would end them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpsight.formats.events.kinds import BY_NAME, READ
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedLaunch
from warpsight.sass.events.waits import POLLS, BlockWait, of_launch, waits

FOLDER = Path(__file__).parent / "events"


def _cut(name: str, kind: str, flags: int | None = None) -> tuple[list[BlockWait], Events]:
    """The waits of a race's first launch up to its first event of a kind, and the events until then."""
    trace = EventTrace(FOLDER / "race" / f"{name}.events.zst")
    launch = next(one for one in trace.launches.values() if one.name.startswith(name.removesuffix("_fixed")))
    events = trace.of_launch(launch.number)
    chosen = events.kind == BY_NAME[kind].number
    if flags is not None:
        chosen &= events.flags == flags
    until = events.take(np.arange(int(np.flatnonzero(chosen)[0]) + 1))
    return of_launch(trace, launch, until), until


def test_the_warp_that_has_not_come_to_a_barrier_is_named() -> None:
    (wait,), events = _cut("missing_barrier_fixed", "barrier")
    waiting = int(events.warp[-1])
    assert (wait.what, wait.warps, wait.missing) == (
        "barrier 0 of the block",
        (waiting,),
        ((0, 1 - waiting),),
    )
    assert "missing_barrier.cu" in wait.where


def test_the_block_that_has_not_come_to_the_clusters_barrier_is_named() -> None:
    (wait,), events = _cut("cluster_peer_exits_fixed", "cluster_arrive")
    waiting = int(events.block[-1])
    assert (wait.what, wait.block, wait.missing) == ("the cluster's barrier", waiting, ((1 - waiting, 0),))


def test_who_waits_at_an_mbarrier_is_told_with_its_arrivals() -> None:
    found, events = _cut("wrong_phase_fixed", "mbarrier_attempt", 6)
    wait = next(one for one in found if "mbarrier" in one.what)
    assert wait.warps == (int(events.warp[-1]),)
    assert "arriv" in wait.detail


def _reads() -> tuple[EventTrace, TracedLaunch, Events]:
    """Loads of a launch, with the values that they found."""
    trace = EventTrace(FOLDER / "truth.events.zst")
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        reads = events.take(
            (events.kind == BY_NAME["global"].number) & (events.flags == READ) & events.has_values
        )
        if len(reads) > 1:
            return trace, launch, reads
    pytest.fail("no values in the trace")


def test_a_word_that_stays_is_polled_and_one_that_changes_is_not() -> None:
    trace, launch, reads = _reads()
    (wait,) = of_launch(trace, launch, reads.take(np.zeros(POLLS, np.int64)))
    assert wait.what.startswith(f"the word at 0x{int(reads.first_operand(0)[0]):x}")
    assert wait.detail == "no thread has written to it in this launch"
    assert of_launch(trace, launch, reads.take(np.zeros(POLLS - 1, np.int64))) == []
    other = np.flatnonzero(reads.first_operand(0) != reads.first_operand(0)[0])[:1]
    assert of_launch(trace, launch, reads.take(np.concatenate([np.zeros(POLLS - 1, np.int64), other]))) == []


@pytest.mark.parametrize(
    "name", ["missing_barrier", "cluster_peer_exits", "wrong_phase", "double_buffer", "split_k"]
)
def test_programs_that_ended_wait_for_nothing(name: str) -> None:
    found = waits(EventTrace(FOLDER / "race" / f"{name}_fixed.events.zst"))
    assert found.waits == ()
    assert found.roots == ()
