"""Every nanosecond of idle time has one class: the host's, a call's, the launch's, another stream's, the recorder's, nobody's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import THREAD, US, call, overhead, pieces, sync
from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.account import account
from warpsight.analysis.account.pieces import MIGRATION, NO_CALL, SEEN_WAIT
from warpsight.model import waits
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

LAUNCH = "cudaLaunchKernel"


@pytest.fixture
def gap(build):
    """A device that is idle from 100 µs to 200 µs; the call of the work after it takes 10 µs from `at`."""

    def make(at=180 * US, length=10 * US, **tables):
        found = build(
            kernel=[kernel(0, 100 * US, correlation=1), kernel(200 * US, 50 * US, correlation=2)],
            launch=[launch(-20 * US, 5 * US, 1), launch(at, length, 2)], **tables,
        )  # fmt: skip
        return [(c, n, b / US, e / US) for c, n, b, e in pieces(found)]

    return make


def test_the_host_the_call_and_the_way_to_the_device(gap):
    assert gap() == [("host", "", 100, 180), ("launch", LAUNCH, 180, 190), ("launch", LAUNCH, 190, 200)]


def test_a_long_first_launch_is_launching_not_the_host(gap):
    assert gap(at=102 * US, length=95 * US) == [
        ("host", "", 100, 102), ("launch", LAUNCH, 102, 197), ("launch", LAUNCH, 197, 200),
    ]  # fmt: skip


@pytest.mark.parametrize(("returned", "expected"), [(190, "launch"), (189.999, "unknown")])
def test_after_the_call_what_is_longer_than_latency_is_a_wait_for_something(gap, returned, expected):
    # The call had begun before the device fell idle, so it says nothing about latency; 10 µs are allowed.
    ((_, _, _, first), (found, name, begin, _)) = gap(at=90 * US, length=int((returned - 90) * US))
    assert (found, begin, first) == (expected, returned, returned)
    assert name == (LAUNCH if expected == "launch" else f"after {LAUNCH}")


def test_work_without_a_call_waited_for_nobody_knows_what(build):
    found = pieces(build(kernel=[kernel(0, 10, correlation=1), kernel(100, 5)], launch=[launch(-9, 3, 1)]))
    assert found == [("unknown", NO_CALL, 10, 100)]


def wait_of_a_stream(start, duration, **more):
    """A stream's wait for an event as device-side profilers write it: no call of the host, times of the device."""
    return sync(start, duration, "stream wait event", device=0, correlation=None) | more


def test_a_wait_that_is_seen_in_the_stream_of_the_next_work_is_the_cause(build):
    rows = [kernel(0, 10), kernel(100, 5)]
    waits = [wait_of_a_stream(20, 50), wait_of_a_stream(80, 10), wait_of_a_stream(0, 100, stream=9)]
    assert pieces(build(kernel=rows, sync=waits)) == [
        ("unknown", NO_CALL, 10, 20), ("other_stream", SEEN_WAIT, 20, 70), ("unknown", NO_CALL, 70, 80),
        ("other_stream", SEEN_WAIT, 80, 90), ("unknown", NO_CALL, 90, 100),
    ]  # fmt: skip


def test_a_wait_of_another_stream_does_not_explain_a_pause(build):
    found = pieces(build(kernel=[kernel(0, 10), kernel(100, 5)], sync=[wait_of_a_stream(20, 70, stream=9)]))
    assert found == [("unknown", NO_CALL, 10, 100)]


def test_a_wait_seen_in_a_stream_explains_what_is_later_than_latency(gap):
    found = gap(at=90 * US, length=20 * US, sync=[wait_of_a_stream(105 * US, 80 * US)])
    assert found == [
        ("launch", LAUNCH, 100, 110), ("other_stream", SEEN_WAIT, 110, 185), ("unknown", f"after {LAUNCH}", 185, 200),
    ]  # fmt: skip


def test_what_the_host_does_before_the_launch_comes_before_a_wait_seen_in_the_stream(gap):
    found = gap(sync=[wait_of_a_stream(105 * US, 80 * US)])
    assert [one[0] for one in found] == ["host", "launch", "launch"]


@pytest.mark.parametrize(("begins", "expected"), [(20, "unknown"), (24, "unknown"), (25, "other_stream")])
def test_a_stream_wait_within_its_call_is_the_call_and_one_after_it_the_wait(build, begins, expected):
    rows = [kernel(0, 10, correlation=1), kernel(100, 5, correlation=2)]
    calls = [call(20, 5, "aclrtStreamWaitEvent", correlation=7)]
    waits = [wait_of_a_stream(begins, 100 - begins, correlation=7)]
    assert pieces(build(kernel=rows, api=calls, sync=waits))[-1][0] == expected


def test_migrations_of_managed_memory_have_no_call_to_look_for(build):
    managed = {"source_kind": "managed", "destination_kind": "managed", "correlation": None}
    copies = [copy(100, 5, kind="DtoH") | managed, copy(120, 5, kind="DtoH") | {"correlation": None}]
    found = pieces(build(kernel=[kernel(0, 10, correlation=1)], launch=[launch(-9, 3, 1)], memcpy=copies))
    assert found == [("unknown", MIGRATION, 10, 100), ("unknown", NO_CALL, 105, 120)]


@pytest.mark.parametrize(
    ("stream_wait", "expected"),
    [
        (call(50 * US, US, "cudaStreamWaitEvent"), "other_stream"),
        (call(-20 * US, US, "cudaStreamWaitEvent"), "other_stream"),  # as the previous work was launched
        (call(-21 * US, US, "cudaStreamWaitEvent"), "unknown"),  # before it: that work waited, not this one
        (call(70 * US, US, "cudaStreamWaitEvent"), "other_stream"),  # at the moment of the launch
        (call(71 * US, US, "cudaStreamWaitEvent"), "unknown"),  # after the launch
        (
            call(50 * US, US, "cudaStreamWaitEvent", thread=THREAD + 1),
            "unknown",
        ),  # which stream it was for is not known
        (call(50 * US, US, "cudaStreamWaitEvent", process=1), "unknown"),
        (call(50 * US, US, "cudaEventRecord"), "unknown"),
    ],
)
def test_a_stream_that_was_told_to_wait_waits_for_another(gap, stream_wait, expected):
    *_, (found, name, begin, end) = gap(at=70 * US, length=10 * US, api=[stream_wait])
    assert (found, begin, end) == (expected, 100, 200)
    assert name == ("cudaStreamWaitEvent" if expected == "other_stream" else f"after {LAUNCH}")


@pytest.mark.parametrize(
    ("stream", "thread", "expected"),
    [
        (7, THREAD + 1, "other_stream"),
        (7, THREAD, "other_stream"),
        (13, THREAD, "unknown"),
        (13, THREAD + 1, "unknown"),
    ],
)
def test_where_the_stream_of_the_wait_is_known_it_decides_and_not_the_thread(gap, stream, thread, expected):
    wait = call(50 * US, US, "cudaStreamWaitEvent", thread=thread, correlation=9)
    told = sync(50 * US, US, "stream wait event", stream=stream, correlation=9)
    *_, (found, *_) = gap(at=70 * US, length=10 * US, api=[wait], sync=[told])
    assert found == expected


def test_rows_of_other_waits_tell_no_stream(gap):
    # A host wait with the correlation of the stream wait is a strange trace: its stream is not that of the stream wait.
    wait = call(50 * US, US, "cudaStreamWaitEvent", correlation=9)
    told = sync(50 * US, US, "stream", stream=13, correlation=9)
    *_, (found, *_) = gap(at=70 * US, length=10 * US, api=[wait], sync=[told])
    assert found == "other_stream"


def test_of_several_stream_waits_the_last_is_named(gap):
    waits = [
        call(40 * US, US, "cuStreamWaitEvent"),
        call(60 * US, US, "cudaStreamWaitEvent"),
        call(50 * US, US, "cuStreamWaitValue32"),
    ]
    *_, (found, name, *_) = gap(at=70 * US, length=10 * US, api=waits)
    assert (found, name) == ("other_stream", "cudaStreamWaitEvent")


def test_the_work_before_on_the_same_stream_bounds_the_search_not_that_of_others(build):
    # Stream 8 works after the wait was issued; it is stream 7 that was told to wait, since its own previous work.
    found = pieces(build(
        kernel=[kernel(0, 90 * US, correlation=1), kernel(0, 100 * US, correlation=3, stream=8),
                kernel(200 * US, 50 * US, correlation=2)],
        launch=[launch(-20 * US, US, 1), launch(60 * US, US, 3), launch(70 * US, US, 2)],
        api=[call(50 * US, US, "cudaStreamWaitEvent")],
    ))  # fmt: skip
    assert [(kind, begin) for kind, _, begin, _ in found] == [("other_stream", 100 * US)]


def test_where_the_call_of_the_work_before_is_not_known_the_search_has_no_bound(build):
    found = pieces(build(
        kernel=[kernel(0, 100 * US), kernel(200 * US, 50 * US, correlation=2)], launch=[launch(70 * US, US, 2)],
        api=[call(-90 * US, US, "cudaStreamWaitEvent"), call(300 * US, US, "cudaEventRecord")],
    ))  # fmt: skip
    assert [kind for kind, *_ in found] == ["other_stream"]


def test_the_first_work_of_a_stream_may_have_been_told_to_wait_at_any_time_before(build):
    found = pieces(build(
        kernel=[kernel(0, 100 * US, correlation=1), kernel(200 * US, 50 * US, correlation=2, stream=8)],
        launch=[launch(-20 * US, US, 1), launch(70 * US, US, 2)], api=[call(-90 * US, US, "cudaStreamWaitEvent")],
    ))  # fmt: skip
    assert [kind for kind, *_ in found] == ["other_stream"]


def test_a_call_that_holds_the_host_is_blocked_and_what_is_around_it_the_hosts(gap):
    found = gap(api=[call(120 * US, 30 * US, "cudaMalloc")])
    assert found[:3] == [
        ("host", "", 100, 120),
        ("blocked_call", "cudaMalloc", 120, 150),
        ("host", "", 150, 180),
    ]


def test_of_a_wait_that_ended_because_the_device_did_only_the_rest_is_its_own(gap):
    found = gap(api=[call(20 * US, 83 * US, "cudaDeviceSynchronize")])
    assert found[:2] == [("blocked_call", "cudaDeviceSynchronize", 100, 103), ("host", "", 103, 180)]


@pytest.mark.parametrize(
    ("function", "length", "held"),
    [
        ("cudaEventRecord", 99.999, False),  # a short call is the host's code
        ("cudaEventRecord", 100, True),  # from 100 µs on it holds the host, whatever it is for
        ("cudaFree", 0.001, True),
        ("cudaFreeAsync", 1, False),
        ("epoll_wait", 150, False),  # not a call of a GPU API
    ],
)
def test_what_holds_the_host_by_what_it_is_for_and_by_its_length(build, function, length, held):
    trace = build(
        kernel=[kernel(0, 100 * US, correlation=1), kernel(500 * US, US, correlation=2)],
        launch=[launch(-9, 3, 1), launch(490 * US, US, 2)], api=[call(150 * US, int(length * US), function)],
    )  # fmt: skip
    blocked = [(name, end - begin) for kind, name, begin, end in pieces(trace) if kind == "blocked_call"]
    assert blocked == ([(function, int(length * US))] if held else [])


def test_calls_of_other_threads_and_processes_do_not_hold_the_launching_one(gap):
    others = [
        call(120 * US, 30 * US, "cudaMalloc", thread=THREAD + 1),
        call(120 * US, 30 * US, "cudaMalloc", process=1),
    ]
    assert [kind for kind, *_ in gap(api=others)] == ["host", "launch", "launch"]


def test_of_nested_calls_the_outermost_is_named_and_of_overlapping_ones_the_first(gap):
    nested = [
        call(120 * US, 10 * US, "cuMemAlloc_v2"),
        call(110 * US, 40 * US, "cudaMalloc"),
        call(110 * US, 5 * US, "cuInit"),
    ]
    assert gap(api=nested)[1] == ("blocked_call", "cudaMalloc", 110, 150)
    crossed = [call(110 * US, 20 * US, "cudaMalloc"), call(120 * US, 30 * US, "cudaFree")]
    assert gap(api=crossed)[1:3] == [
        ("blocked_call", "cudaMalloc", 110, 130),
        ("blocked_call", "cudaFree", 130, 150),
    ]


@pytest.mark.parametrize(
    ("row", "held"),
    [
        ({"asynchronous": False}, True),
        ({"asynchronous": True}, False),
        ({"asynchronous": True, "source_kind": "pageable"}, True),
        ({"asynchronous": True, "destination_kind": "pageable"}, True),
        (
            {"asynchronous": True, "source_kind": "pageable", "duration": 46 * US},
            False,
        ),  # it returned when the data was staged
        ({"asynchronous": True, "source_kind": "pageable", "duration": 45 * US}, True),
    ],
)
def test_copies_hold_the_host_when_their_call_returns_after_they_are_done(build, row, held):
    # cudaMemcpyAsync from 120 to 150 µs (too short to hold the host by its length); the copy runs from 105 µs on another device.
    row = copy(105 * US, row.pop("duration", 40 * US), correlation=3, device=1) | row
    trace = build(
        kernel=[kernel(0, 100 * US, correlation=1), kernel(200 * US, US, correlation=2)], memcpy=[row],
        launch=[launch(-9, 3, 1), launch(190 * US, US, 2)],
        api=[call(120 * US, 30 * US, "cudaMemcpyAsync", correlation=3)],
    )  # fmt: skip
    blocked = [(name, begin, end) for kind, name, begin, end in pieces(trace) if kind == "blocked_call"]
    assert blocked == ([("cudaMemcpyAsync", 120 * US, 150 * US)] if held else [])


@pytest.mark.parametrize(("duration", "held"), [(90 * US, True), (90 * US + 2, False)])
def test_a_function_that_holds_its_caller_does_when_it_returns_past_the_middle_of_its_copy(
    build, duration, held
):
    # From 105 µs on another device; the call returns at 150 µs, and the file says that it does not wait.
    trace = build(
        kernel=[kernel(0, 100 * US, correlation=1), kernel(250 * US, US, correlation=2)],
        memcpy=[copy(105 * US, duration, correlation=3, device=1)],
        launch=[launch(-9, 3, 1), launch(240 * US, US, 2)],
        api=[call(120 * US, 30 * US, "hipMemcpyWithStream", correlation=3)],
    )
    work = device_work.everything(trace).work
    copies = np.flatnonzero(work.kind == device_work.COPY).tolist()
    assert waits.held_copies(trace, work).tolist() == (copies if held else [])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("stream", "stream synchronization"),
        ("context", "device synchronization"),
        ("event", "event synchronization"),
        ("finish", "clFinish"),
        ("wait for events", "clWaitForEvents"),
        ("stream wait event", None),
        ("something new", None),
    ],
)
def test_waits_whose_call_is_not_in_the_trace_are_named_by_their_kind(gap, kind, name):
    found = gap(sync=[sync(120 * US, 30 * US, kind)])
    blocked = [piece for piece in found if piece[0] == "blocked_call"]
    assert blocked == ([("blocked_call", name, 120, 150)] if name else [])


def test_waits_of_another_process_and_waits_with_a_call_are_not_counted_like_that(gap):
    assert len(gap(sync=[sync(120 * US, 30 * US, "stream", process=1)])) == 3
    waited = call(120 * US, 20 * US, "cudaStreamSynchronize", correlation=9)
    found = gap(api=[waited], sync=[sync(120 * US, 30 * US, "stream", correlation=9)])
    assert found[1] == ("blocked_call", "cudaStreamSynchronize", 120, 140)
    elsewhere = waited | {"thread": THREAD + 1}  # the call says that it was another thread
    assert len(gap(api=[elsewhere], sync=[sync(120 * US, 30 * US, "stream", correlation=9)])) == 3


def test_the_recorders_own_work_is_its_own_wherever_it_lies(gap):
    # In the host's code, in a call that holds the host and in the launch call itself.
    work = [
        overhead(110 * US, 5 * US, "buffer flush"),
        overhead(130 * US, 5 * US, "buffer flush"),
        overhead(182 * US, 3 * US, "resource"),
    ]
    found = gap(api=[call(120 * US, 30 * US, "cudaMalloc")], overhead=work)
    assert found == [
        ("host", "", 100, 110), ("recorder", "buffer flush", 110, 115), ("host", "", 115, 120),
        ("blocked_call", "cudaMalloc", 120, 130), ("recorder", "buffer flush", 130, 135),
        ("blocked_call", "cudaMalloc", 135, 150), ("host", "", 150, 180),
        ("launch", LAUNCH, 180, 182), ("recorder", "resource", 182, 185), ("launch", LAUNCH, 185, 190),
        ("launch", LAUNCH, 190, 200),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        ({"thread": THREAD}, True),
        ({}, True),  # nobody says which thread: all of the process
        ({"thread": THREAD + 1}, False),
        ({"process": 1}, False),
        ({"process": 1, "thread": THREAD}, False),
    ],
)
def test_the_recorder_holds_the_thread_it_says(gap, row, counts):
    found = gap(overhead=[overhead(110 * US, 5 * US, "buffer flush") | row])
    assert ("recorder", "buffer flush", 110, 115) in found if counts else len(found) == 3


@pytest.mark.parametrize(
    "kind",
    ["command buffer full", "Command Buffer Full", "Unrecognized", "driver compiler", "lazy function loading", "module load",
     "runtime triggered module loading", "unknown", "Compiler"],
)  # fmt: skip
def test_what_the_program_would_have_had_without_a_recorder_is_not_the_recorders(gap, kind):
    assert len(gap(overhead=[overhead(110 * US, 5 * US, kind)])) == 3


def test_a_thread_that_feeds_two_devices_holds_both_up(build):
    # Device 0 is idle from 100, device 1 from 120; cudaMalloc from 130 to 150 is in the way of both.
    found = pieces(build(
        kernel=[kernel(0, 100, correlation=1), kernel(200, 9, correlation=2), kernel(0, 120, correlation=3, device=1),
                kernel(205, 9, correlation=4, device=1)],
        launch=[launch(-9, 3, 1), launch(190, 5, 2), launch(-5, 3, 3), launch(196, 5, 4)], api=[call(130, 20, "cudaMalloc")],
    ))  # fmt: skip
    assert [piece for piece in found if piece[0] == "blocked_call"] == [
        ("blocked_call", "cudaMalloc", 130, 150)
    ] * 2
    assert sum(end - begin for _, _, begin, end in found) == 100 + 85


def test_a_time_asked_for_cuts_the_first_and_the_last_work_and_adds_no_idle_time(build):
    trace = build(
        kernel=[kernel(0, 100, correlation=1), kernel(200, 100, correlation=2)],
        launch=[launch(-9, 3, 1), launch(180, 10, 2)],
    )
    assert pieces(trace, Rows(50, 250)) == pieces(trace)
    assert account(trace, Rows(50, 250)).span == 200
    assert pieces(trace, Rows(-500, 150)) == []


PIECE = st.tuples(st.integers(0, 100), st.integers(0, 25))
FUNCTION = st.sampled_from(("cudaMalloc", "cudaFree", "cudaEventRecord", "cudaStreamSynchronize"))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    work=st.lists(
        st.tuples(st.integers(0, 90), st.integers(1, 8), st.integers(-12, 3), st.integers(0, 12)),
        min_size=2,
        max_size=7,
    ),
    held=st.lists(st.tuples(PIECE, FUNCTION), max_size=6),
    recorder=st.lists(st.tuples(PIECE, st.sampled_from(("flush", "write", "lazy"))), max_size=3),
)
@example(  # the same of the program's own calls
    work=[(0, 1, 0, 0), (65, 1, 0, 0)], held=[((64, 2), "cudaMalloc"), ((64, 3), "cudaFree")], recorder=[]
)
@example(  # both reach beyond the time that is looked at
    work=[(0, 1, 0, 0), (65, 1, 0, 0)], held=[], recorder=[((64, 2), "flush"), ((64, 3), "write")]
)
@example(  # both began before the time that is looked at, one after another
    work=[(23, 1, -1, 0), (33, 1, -4, 0)], held=[], recorder=[((19, 8), "flush"), ((20, 9), "write")]
)
def test_every_nanosecond_has_the_class_that_a_loop_gives_it(build, work, held, recorder):
    """Small random programs on one thread, judged moment by moment."""
    rows = [(EPOCH + s, d, EPOCH + s + early, long) for s, d, early, long in sorted(work)]
    trace = build(
        kernel=[kernel(s, d, correlation=i, stream=i) for i, (s, d, _, _) in enumerate(rows)],
        launch=[launch(s, d, i) for i, (_, _, s, d) in enumerate(rows)],
        api=[call(EPOCH + s, d, name) for (s, d), name in held],
        overhead=[overhead(EPOCH + s, d, name, thread=THREAD) for (s, d), name in recorder],
    )
    found = {t: (kind, name) for kind, name, begin, end in pieces(trace) for t in range(begin, end)}
    assert len(found) == sum(end - begin for _, _, begin, end in pieces(trace))  # no moment twice

    def covering(stretches, t):
        """The name of the stretch that began first of those that cover a moment, of equal ones the longest."""
        here = [(s, -d, name) for s, d, name in stretches if s <= t < s + d]
        return min(here, key=lambda one: one[:2])[2] if here else None

    blocked = [(EPOCH + s, d, name) for (s, d), name in held if name != "cudaEventRecord"]
    own = [(EPOCH + s, d, name) for (s, d), name in recorder if name != "lazy"]
    busy = {t for s, d, _, _ in rows for t in range(s, s + d)}
    expected = {}
    for t in range(min(busy), max(busy)):
        if t in busy:
            continue
        _, _, issued, length = next(row for row in rows if row[0] > t)
        if covering(own, t) and t < issued + length:
            expected[t] = "recorder", covering(own, t)
        elif t >= issued:
            expected[t] = "launch", LAUNCH
        elif covering(blocked, t):
            expected[t] = "blocked_call", covering(blocked, t)
        else:
            expected[t] = "host", ""
    assert found == expected
