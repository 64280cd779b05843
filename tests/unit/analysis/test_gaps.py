"""Idle gaps: they add up to the idle time, and a gap made for a cause is given that cause and its evidence."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from tests.unit.analysis.test_utilization import ALL, extent, marks
from warpsight.analysis.account import gaps
from warpsight.analysis.stats.utilization import utilization
from warpsight.model.selection import Rows

MS = 1_000_000
MAIN = ("main", "train.py", 3, None, "python", None)
LOAD = ("load", "data.py", 12, None, "python", None)
STACKS = ((MAIN,), (MAIN, LOAD), (MAIN, ("parse", "data.py", 30, None, "python", None)))


def test_gaps_add_up_to_the_idle_time_and_their_shares_to_each_gap(messy):
    trace, rows = messy
    begin, end = extent(rows)
    tables = gaps(trace).tables
    listed = tables["gaps"].to_pylist()
    for number in (0, 1):
        idle = marks(rows, number, ALL)[begin:end] == 0
        own = [g for g in listed if g["device"] == number]
        seen = np.zeros(end - begin, int)
        for gap in own:
            seen[gap["begin"] - EPOCH - begin :][: gap["duration"]] += 1
        assert (seen == idle).all()
        (row,) = [d for d in tables["devices"].to_pylist() if d["device"] == number]
        assert (row["idle"], row["gaps"]) == (idle.sum(), len(own))
        assert sum(c["time"] for c in tables["causes"].to_pylist() if c["device"] == number) == idle.sum()
    for gap in listed:
        assert gap["duration"] == sum(
            gap[f"{s}_time"] for s in ("profiler", "sync", "copy", "api", "rest", "device")
        )
    assert [(g["device"], g["begin"]) for g in listed] == sorted((g["device"], g["begin"]) for g in listed)
    lengths = [g["duration"] for g in tables["top"].to_pylist()]
    assert lengths == sorted((g["duration"] for g in listed), reverse=True)[:20]
    assert [d["idle"] for d in tables["devices"].to_pylist()] == [
        d["idle"] for d in utilization(trace).tables["devices"].to_pylist()
    ]


@pytest.fixture
def one_gap(build):
    """Two kernels, the first until 10 ms, the second from 20 ms; `call` says when the second was asked for."""

    def make(call=19 * MS, second=None, **tables):
        return build(
            names=("first", "second"), stacks=STACKS, thread=[{"thread": 100, "name": "MainThread", "process": 0}],
            kernel=[kernel(0, 10 * MS, 1, correlation=1, stack=1), *([] if second else [kernel(20 * MS, MS, 2, correlation=2)])],
            launch=[launch(-MS, 5_000, 1, stack=1), launch(call, 5_000, 2, stack=2)],
            **(second or {}), **tables,
        )  # fmt: skip

    return make


def top(trace, rows=Rows()):
    return gaps(trace, rows).tables["top"].to_pylist()[0]


def sample(time, stack, state="R", gil=True, thread=100):
    return {"time": time, "thread": thread, "stack": stack, "state": state, "gil": gil, "process": 0}


def test_python_is_named_with_the_frame_most_samples_were_in(one_gap):
    samples = [
        sample(t * MS, stack) for t, stack in ((9, 3), (11, 2), (12, 3), (13, 2), (14, 2), (15, 1), (19, 3))
    ]
    trace = one_gap(sample=[*samples, sample(12 * MS, 3, thread=101), sample(13 * MS, 3, thread=101)])
    gap = top(trace)
    assert (gap["cause"], gap["duration"]) == ("python", 10 * MS)
    assert gap["evidence"] == "MainThread ran in load (data.py:12) (5 samples)"
    (frame,) = gaps(trace).tables["frames"].to_pylist()
    assert frame == {"cause": "python", "frame": "load (data.py:12)", "gaps": 1, "time": 10 * MS, "samples": 5,
                     "stack": "load (data.py:12) ← main (train.py:3)"}  # fmt: skip


def test_a_thread_that_did_not_run_is_blocked(one_gap):
    states = [sample(t * MS, 2, "S", gil=False) for t in (11, 12, 13)]
    gap = top(one_gap(sample=[*states, sample(14 * MS, 1)]))
    assert (gap["cause"], gap["evidence"]) == (
        "blocked",
        "MainThread did not run, in load (data.py:12) (4 samples)",
    )


def test_without_samples_the_launches_on_both_sides_are_named(one_gap):
    trace = one_gap()
    gap = top(trace)
    assert gap["cause"] == "host"
    assert gap["evidence"] == (
        "MainThread launched nothing between first at main (train.py:3) and second at load (data.py:12)"
    )
    assert gaps(trace).tables["between"].to_pylist() == [
        {"before": "main (train.py:3)", "after": "load (data.py:12) ← main (train.py:3)", "gaps": 1, "time": 10 * MS,
         "longest": 10 * MS}
    ]  # fmt: skip


def sync(start, duration, kind="stream", **more):
    return {
        "start": start,
        "duration": duration,
        "kind": kind,
        "context": 1,
        "stream": 7,
        "process": 0,
        **more,
    }


def test_a_wait_that_drained_the_device_is_the_cause_though_the_host_was_busy_afterwards(one_gap):
    """The thread waited 9.5 ms until 10.5 ms and was busy until 19 ms: without the wait it would have been 9.5 ms earlier."""
    gap = top(one_gap(sync=[sync(1 * MS, 9_500_000)]))
    assert (gap["cause"], gap["after_sync"]) == ("sync", True)


def test_a_short_wait_does_not_excuse_a_slow_host(one_gap):
    gap = top(one_gap(sync=[sync(9 * MS, 1_500_000)]))
    assert (gap["cause"], gap["after_sync"]) == ("host", True)


def test_waits_of_another_thread_do_not_count(one_gap):
    api = [{"start": MS, "duration": 9_500_000, "function": "cudaStreamSynchronize", "thread": 101, "correlation": 9,
            "process": 0}]  # fmt: skip
    assert top(one_gap(api=api, sync=[sync(1 * MS, 9_500_000, correlation=9)]))["cause"] == "host"
    api[0]["thread"] = 100
    assert top(one_gap(api=api, sync=[sync(1 * MS, 9_500_000, correlation=9)]))["cause"] == "sync"


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("cudaDeviceSynchronize", "sync"),
        ("cudaMemcpy_v3020", "copy"),
        ("cudaMalloc", "api"),
        ("cuModuleLoadData", "api"),
    ],
)
def test_calls_of_the_thread_are_causes(one_gap, function, cause):
    api = [{"start": 11 * MS, "duration": 7 * MS, "function": function, "thread": 100, "process": 0}]
    gap = top(one_gap(api=api))
    assert gap["cause"] == cause


def test_the_time_of_the_profiler_is_its_own(one_gap):
    overhead = [{"start": 11 * MS, "duration": 7 * MS, "kind": "buffer flush", "process": 0}]
    assert top(one_gap(overhead=overhead))["cause"] == "profiler"


def test_launch_latency_is_the_way_from_the_call_to_the_device(one_gap):
    gap = top(one_gap(call=5 * MS))
    assert (gap["cause"], gap["evidence"]) == (
        "launch",
        "10.0 ms from the call to the begin of second at load (data.py:12)",
    )


def test_a_stream_told_to_wait_for_an_event_waits(one_gap):
    waits = [sync(4 * MS, 1_000, "stream wait event", event=3)]
    assert top(one_gap(call=5 * MS, sync=waits))["cause"] == "wait"
    # told before the stream's previous work was asked for: that work waited, not this one
    waits = [sync(-2 * MS, 1_000, "stream wait event", event=3)]
    assert top(one_gap(call=5 * MS, sync=waits))["cause"] == "launch"


def test_a_copy_that_the_host_stages_is_a_copy(one_gap, build):
    trace = build(names=("first",), kernel=[kernel(0, 10 * MS, 1, correlation=1)], launch=[launch(-MS, 5_000, 1)],
                  memcpy=[copy(20 * MS, MS, correlation=2, asynchronous=False)],
                  api=[{"start": 9 * MS, "duration": 13 * MS, "function": "cudaMemcpy", "thread": 100, "correlation": 2,
                        "process": 0}])  # fmt: skip
    assert top(trace)["cause"] == "copy"


def test_gaps_at_both_ends_of_a_time_asked_for(one_gap):
    result = gaps(one_gap(), Rows(-3 * MS, 30 * MS))
    assert {(g["place"], g["begin"], g["duration"]) for g in result.tables["gaps"].to_pylist()} == {
        ("before", -3 * MS, 3 * MS), ("between", 10 * MS, 10 * MS), ("after", 21 * MS, 9 * MS),
    }  # fmt: skip


def test_without_calls_and_samples_nothing_is_known_and_that_is_said(build):
    result = gaps(build(kernel=[kernel(0, 10), kernel(100, 10)]))
    assert result.tables["causes"].to_pylist()[0]["cause"] == "unknown"
    assert [f.values for f in result.findings] == [{"time": 90, "idle": 90}]


def test_two_devices_with_one_stream_number_have_gaps_of_their_own(build):
    trace = build(kernel=[kernel(0, 10), kernel(90, 10), kernel(10, 80, device=1)])
    found = [(g["device"], g["begin"], g["duration"]) for g in gaps(trace).tables["gaps"].to_pylist()]
    assert sorted(found) == [(0, 10, 80), (1, 0, 10), (1, 90, 10)]
