"""What findings of the account save: the recording re-timed without their cause."""

import pytest

from tests.unit.simulate.test_what_ifs import STEP, STEPS, US, Recorder
from warpsight.analysis.rules.base import savings
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def findings(tmp_path, steps):
    with TraceWriter(tmp_path / "t.warp") as writer:
        steps(writer)
    with open_trace(tmp_path / "t.warp") as trace:
        return {(one.kind, one.name): one for one in verdict(trace).findings if one.kind is not None}


def test_a_finding_has_a_share_and_a_saving(tmp_path):
    found = findings(tmp_path, Recorder().steps)
    gelu = found["compute", "second_gelu"]
    assert gelu.share_ns == STEPS * 50 * US
    assert gelu.saves_ns == STEPS * 50 * US
    host = next(one for (kind, _), one in found.items() if kind == "host")
    assert host.saves_ns is not None
    assert host.saves_ns <= STEPS * STEP
    assert "re-timed" in host.evidence[-1]


def test_kernels_that_the_host_cannot_keep_up_with_save_nothing(tmp_path):
    """Launches every 50 µs, kernels of 40 µs: without the kernels the host takes as long."""

    def steps(writer):
        recorder = Recorder()
        name = writer.name("small_kernel")
        for _ in range(50):
            recorder.kernel(name, 40 * US)
            recorder.clock += 45 * US
        recorder.synchronize()
        for table, rows in recorder.rows.items():
            writer.add(table, rows)

    kernel = findings(tmp_path, steps)["compute", "small_kernel"]
    assert kernel.share_ns == 50 * 40 * US
    assert kernel.saves_ns <= 40 * US  # the last one


def recorded(build):
    """A writer of what a recorder that `build` drives has recorded."""

    def steps(writer):
        recorder = Recorder()
        build(recorder, writer)
        for table, rows in recorder.rows.items():
            writer.add(table, rows)

    return steps


def test_a_synchronous_copy_ends_when_its_device_does_whatever_the_file_says_of_it(tmp_path):
    """Kineto calls every copy asynchronous; hipMemcpyWithStream is not, and returns by the host's clock 2 µs too early."""

    def build(recorder, writer):
        name = writer.name("attention")
        copies = recorder.rows["memcpy"] = []
        for _ in range(5):
            recorder.kernel(name, 900 * US)
            begin = recorder.clock
            recorder.call("api", "hipMemcpyWithStream", recorder.free + 8 * US - begin)
            copies.append({"start": recorder.free, "duration": 10 * US, "kind": "DtoH", "source_kind": "device", "bytes": 8,
                           "destination_kind": "host", "asynchronous": True, "device": 0, "context": 1, "stream": 7,
                           "process": 0, "correlation": recorder.correlation})  # fmt: skip
            recorder.free += 10 * US
            recorder.clock += 50 * US

    kernel = findings(tmp_path, recorded(build))["compute", "attention"]
    assert kernel.saves_ns == kernel.share_ns == 5 * 900 * US


@pytest.mark.parametrize("early", [-8, 3, 24], ids=lambda us: f"{us} us before the copy has ended")
def test_a_copy_to_the_host_that_waits_in_a_stream_of_its_own_does_not_make_the_kernel_worthless(
    tmp_path, early
):
    """rocprof gives copies a stream of their own, and clocks may disagree: nothing says what these copies wait for."""

    def build(recorder, writer):
        name = writer.name("solve")
        copies = recorder.rows["memcpy"] = []
        for _ in range(5):
            recorder.kernel(name, 9_000 * US)
            begin, start = recorder.clock, recorder.free + 5 * US
            recorder.call("api", "hipMemcpy", start + (25 - early) * US - begin)
            copies.append({"start": start, "duration": 25 * US, "kind": "DtoH", "source_kind": "device", "bytes": 8,
                           "destination_kind": "host", "asynchronous": True, "device": 0, "context": 1, "stream": 0,
                           "process": 0, "correlation": recorder.correlation})  # fmt: skip
            recorder.clock += 50 * US

    kernel = findings(tmp_path, recorded(build))["compute", "solve"]
    assert kernel.saves_ns is None
    assert "what it would save is not known" in kernel.evidence[-1]


def test_how_a_wait_polls_takes_as_long_as_it_waits(tmp_path):
    """A driver that asks once per millisecond, inside of cudaStreamSynchronize, whether the kernel is done."""

    def build(recorder, writer):
        name = writer.name("long_kernel")
        for _ in range(4):
            recorder.kernel(name, 10_000 * US)
            begin = recorder.clock
            recorder.synchronize()
            recorder.rows["api"] += [
                {"start": begin + tick * 1_000 * US, "duration": 10 * US, "function": "ioctl", "thread": 1, "process": 0,
                 "correlation": None}
                for tick in range(1, 10)
            ]  # fmt: skip
            recorder.kernel(name, 20 * US)
            recorder.clock += 100 * US

    kernel = findings(tmp_path, recorded(build))["compute", "long_kernel"]
    assert kernel.saves_ns >= 0.98 * kernel.share_ns


def test_kernels_whose_short_names_agree_have_savings_of_their_own(tmp_path):
    def build(recorder, writer):
        names = [writer.name("gemm_" + "x" * 120 + end) for end in ("_small", "_large")]
        for _ in range(5):
            for name, duration in zip(names, (100 * US, 300 * US), strict=True):
                recorder.kernel(name, duration)
            recorder.synchronize()

    with TraceWriter(tmp_path / "t.warp") as writer:
        recorded(build)(writer)
    with open_trace(tmp_path / "t.warp") as trace:
        found = [one for one in verdict(trace).findings if one.kind == "compute"]
    assert [one.share_ns for one in found] == [5 * 300 * US, 5 * 100 * US]
    assert all(0.9 * one.share_ns <= one.saves_ns <= one.share_ns for one in found)


def test_a_stream_that_waits_for_what_the_trace_does_not_have_is_saved(tmp_path):
    def build(recorder, writer):
        name = writer.name("decode")
        recorder.kernel(name, 50 * US)
        recorder.clock += 1 * US
        recorder.call("api", "hipStreamWaitEvent", 1 * US)
        recorder.free += 5_000 * US  # of a stream that nobody recorded
        for _ in range(5):
            recorder.kernel(name, 50 * US)

    found = findings(tmp_path, recorded(build))["other_stream", "hipStreamWaitEvent"]
    assert 0.9 * found.share_ns <= found.saves_ns <= 1.1 * found.share_ns


def test_what_a_call_does_inside_goes_with_it(tmp_path):
    """An allocation and a first launch that spend their time in the operating system."""

    def build(recorder, writer):
        name = writer.name("solve")
        for length, table, function in (
            (2_000, "api", "cudaMallocAsync"),
            (7_000, "launch", "cudaLaunchKernel"),
        ):
            recorder.kernel(name, 50 * US)
            recorder.synchronize()
            begin = recorder.clock
            recorder.call(table, function, length * US)
            inner = {"function": "ioctl", "thread": 1, "process": 0, "correlation": None}
            recorder.rows["api"].append({"start": begin + 10 * US, "duration": (length - 20) * US, **inner})
            if table == "api":
                recorder.kernel(name, 50 * US)
        start = recorder.clock + 2 * US
        recorder.rows["kernel"].append(
            {**recorder.rows["kernel"][-1], "start": start, "correlation": recorder.correlation}
        )

    found = findings(tmp_path, recorded(build))
    for one in (found["blocked_call", "cudaMallocAsync"], found["launch", "cudaLaunchKernel"]):
        assert 0.95 * one.share_ns <= one.saves_ns


def test_a_wait_for_an_event_that_nobody_recorded_is_for_what_ended_in_it(tmp_path):
    def build(recorder, writer):
        name = writer.name("kernel")
        for _ in range(5):
            recorder.kernel(name, 900 * US)
            recorder.synchronize()
            recorder.rows["sync"][-1].update(kind="event", stream=-1)

    kernel = findings(tmp_path, recorded(build))["compute", "kernel"]
    assert 0.95 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def test_a_page_that_comes_back_after_the_kernel_comes_earlier_without_it(tmp_path):
    """Managed memory: the host waits for the kernel, then reads its result, which is copied without any call."""

    def build(recorder, writer):
        recorder.kernel(writer.name("long_kernel"), 250_000 * US)
        recorder.synchronize()
        recorder.rows["memcpy"] = [
            {"start": recorder.clock + 200 * US, "duration": US, "kind": "DtoH", "source_kind": "managed", "bytes": 4096,
             "destination_kind": "host", "asynchronous": False, "device": 0, "context": 1, "stream": 0, "process": 0}
        ]  # fmt: skip

    kernel = findings(tmp_path, recorded(build))["compute", "long_kernel"]
    assert 0.99 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def lever(tmp_path, rule, build):
    with TraceWriter(tmp_path / "t.warp") as writer:
        recorded(build)(writer)
    with open_trace(tmp_path / "t.warp") as trace:
        return next(one for one in verdict(trace).findings if one.rule == rule)


def pageable_copy(recorder, duration, wait):
    """A copy to the device whose call returns when it is done, or at once."""
    recorder.correlation += 1
    begin, start = recorder.clock, max(recorder.clock + 2 * US, recorder.free)
    recorder.free = start + duration
    both = {"process": 0, "correlation": recorder.correlation}
    recorder.rows["api"].append({**both, "start": begin, "function": "cudaMemcpy", "thread": 1,
                                 "duration": recorder.free + US - begin if wait else 5 * US})  # fmt: skip
    recorder.rows.setdefault("memcpy", []).append(
        {**both, "start": start, "duration": duration, "kind": "HtoD", "source_kind": "pageable", "bytes": 1 << 20,
         "destination_kind": "device", "asynchronous": False, "device": 0, "context": 1, "stream": 7}
    )  # fmt: skip
    recorder.clock = recorder.free + US if wait else begin + 5 * US


def test_pageable_copies_save_nothing_where_the_host_takes_longer_anyway(tmp_path):
    """Each step the device copies for 100 µs while the host prepares the next step for 1 ms."""

    def build(recorder, writer):
        name = writer.name("step")
        for _ in range(20):
            recorder.kernel(name, 50 * US)
            pageable_copy(recorder, 100 * US, wait=False)
            recorder.clock += 1_000 * US

    found = lever(tmp_path, "copies/pageable", build)
    assert found.saves_ns <= 200 * US  # the last step's
    assert "re-timed" in found.evidence[-1]


def test_pageable_copies_that_hold_the_host_save_their_time(tmp_path):
    def build(recorder, writer):
        name = writer.name("step")
        for _ in range(20):
            pageable_copy(recorder, 100 * US, wait=True)
            recorder.kernel(name, 50 * US)

    assert 0.95 * 20 * 100 * US <= lever(tmp_path, "copies/pageable", build).saves_ns <= 20 * 100 * US


def test_pages_that_come_back_do_not_hang_on_what_a_wait_does_inside(tmp_path):
    """cudaDeviceSynchronize asks the system for the kernel's state now and then; pages come back right after it."""

    def build(recorder, writer):
        name = writer.name("render")
        recorder.kernel(name, 100_000 * US)
        begin = recorder.clock
        recorder.synchronize()
        inner = {"function": "ioctl", "thread": 1, "process": 0, "correlation": None}
        recorder.rows["api"].append({"start": begin + 60_000 * US, "duration": 30 * US, **inner})
        recorder.rows["memcpy"] = [
            {"start": recorder.clock + place * 50 * US, "duration": US, "kind": "DtoH", "source_kind": "managed",
             "bytes": 4096, "destination_kind": "host", "asynchronous": False, "device": 0, "context": 1, "stream": 0,
             "process": 0}
            for place in range(1, 20)
        ]  # fmt: skip
        recorder.clock += 1_200 * US
        recorder.kernel(name, 5 * US)

    kernel = findings(tmp_path, recorded(build))["compute", "render"]
    assert 0.99 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def test_a_host_that_goes_on_when_the_device_is_done_waited_though_no_wait_was_recorded(tmp_path):
    """JAX: launches, then Python until the device has ended, and no call that waits."""

    def build(recorder, writer):
        name = writer.name("fused")
        for _ in range(6):
            recorder.kernel(name, 900 * US)
            recorder.clock = recorder.free + 60 * US

    kernel = findings(tmp_path, recorded(build))["compute", "fused"]
    assert 0.99 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def test_a_host_that_is_busy_when_the_device_ends_is_not_said_to_wait(tmp_path):
    """The host needs 1 ms for each step, whenever the device ends in it."""

    def build(recorder, writer):
        name = writer.name("fused")
        for length in (900, 300, 500, 200, 600, 400):
            recorder.kernel(name, length * US)
            recorder.clock += 1_000 * US

    kernel = findings(tmp_path, recorded(build))["compute", "fused"]
    assert kernel.saves_ns is None


def test_copies_of_one_direction_do_not_run_side_by_side_without_launches(tmp_path):
    """Four streams copy to the device by turns; cheaper launches do not make the bus faster."""

    def build(recorder, writer):
        copies = recorder.rows["memcpy"] = []
        for turn in range(40):
            recorder.call("api", "cudaMemcpyAsync", 30 * US)
            start = recorder.clock + 2 * US
            copies.append({"start": start, "duration": 20 * US, "kind": "HtoD", "source_kind": "pinned", "bytes": 1 << 18,
                           "destination_kind": "device", "asynchronous": True, "device": 0, "context": 1,
                           "stream": 7 + turn % 4, "process": 0, "correlation": recorder.correlation})  # fmt: skip

    found = findings(tmp_path, recorded(build))
    launch = next(one for (kind, _), one in found.items() if kind == "launch")
    assert launch.saves_ns <= launch.share_ns


@pytest.mark.parametrize("window", [6, 10_000])
def test_a_long_recording_is_judged_by_its_median_iteration(tmp_path, monkeypatch, window):
    """All steps are alike, so three of them say what all do."""
    whole = findings(tmp_path, lambda writer: Recorder().steps(writer, 60))
    monkeypatch.setattr(savings, "_WHOLE", 10)
    monkeypatch.setattr(savings, "_WINDOW", window)
    with open_trace(tmp_path / "t.warp") as trace:
        found = {(one.kind, one.name): one for one in verdict(trace).findings if one.kind is not None}
    assert found.keys() == whole.keys()
    for key, one in found.items():
        assert one.saves_ns == pytest.approx(whole[key].saves_ns, rel=0.25)
        assert "the median iteration re-timed" in one.evidence[-1]


def test_a_slow_iteration_is_re_timed_on_its_own(tmp_path, monkeypatch):
    def steps(writer):
        recorder = Recorder()
        a = writer.name("gemm")
        for step in range(60):
            recorder.load(100 * US)
            recorder.kernel(a, (5_000 if step == 30 else 50) * US)
            recorder.synchronize()
            recorder.rows["user_event"].append({"start": recorder.clock, "duration": 0, "name": "step", "kind": "step",
                                                "thread": 1, "process": 0})  # fmt: skip
        for table, rows in recorder.rows.items():
            writer.add(table, rows)

    whole = findings(tmp_path, steps)[("compute", "gemm")]
    monkeypatch.setattr(savings, "_WHOLE", 10)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = (one for one in verdict(trace).findings if one.kind == "compute")
    assert "the median and slowest iterations re-timed" in found.evidence[-1]
    assert found.saves_ns == pytest.approx(whole.saves_ns, rel=0.25)


def loading(recorder, name, late):
    """Fifty launched kernels, then a call that loads code and returns so long after they have ended, then one more."""
    for _ in range(50):
        recorder.kernel(name, 900 * US)
    recorder.call(
        "api", "cudaOccupancyMaxActiveBlocksPerMultiprocessor", recorder.free + late - recorder.clock
    )
    recorder.kernel(name, 900 * US)


def test_a_long_call_that_returns_when_the_device_is_done_waited_for_it(tmp_path):
    def build(recorder, writer):
        loading(recorder, writer.name("kernel"), 40 * US)

    kernel = findings(tmp_path, recorded(build))["compute", "kernel"]
    assert 0.99 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def test_a_long_call_that_returns_later_than_the_device_did_not_wait(tmp_path):
    def build(recorder, writer):
        loading(recorder, writer.name("kernel"), 5_000 * US)

    assert findings(tmp_path, recorded(build))["compute", "kernel"].saves_ns <= 1_000 * US


def test_copies_of_pageable_memory_save_what_their_calls_take(tmp_path):
    """The call stages the memory for as long as the copy takes, and its copy begins while it does."""

    def build(recorder, writer):
        name = writer.name("step")
        for _ in range(20):
            pageable_copy(recorder, 100 * US, wait=True)
            recorder.rows["api"][-1]["function"] = "cudaMemcpyAsync"
            recorder.rows["memcpy"][-1]["asynchronous"] = True
            recorder.rows["api"][-1]["duration"] -= 20 * US
            recorder.clock -= 20 * US
            recorder.kernel(name, 50 * US)

    copies = findings(tmp_path, recorded(build))["copy", "memcpy HtoD, pageable"]
    assert 0.95 * 20 * 100 * US <= copies.saves_ns <= 20 * 110 * US


def test_a_kernel_saves_its_faults_on_managed_memory(tmp_path):
    """Pages come while the kernel runs, and go back when the host reads the result."""

    def page(start, kind):
        return {"start": start, "duration": 20 * US, "kind": kind, "source_kind": "managed", "bytes": 65536, "device": 0,
                "destination_kind": "managed", "asynchronous": False, "context": 1, "stream": 0, "process": 0}  # fmt: skip

    def build(recorder, writer):
        recorder.kernel(writer.name("add"), 9_000 * US)
        begin = recorder.rows["kernel"][-1]["start"]
        recorder.synchronize()
        recorder.rows["memcpy"] = [page(begin + (1 + 100 * number) * US, "HtoD") for number in range(80)]
        recorder.rows["memcpy"].append(page(recorder.clock + 50 * US, "DtoH"))

    kernel = findings(tmp_path, recorded(build))["compute", "add"]
    assert 0.99 * kernel.share_ns <= kernel.saves_ns <= kernel.share_ns


def test_host_time_before_the_first_recorded_call_is_saved_too(tmp_path):
    """Recording of calls begins later than that of the device: 50 ms pass between the last work so far and the first call."""

    def build(recorder, writer):
        name = writer.name("gemm")
        for _ in range(3):
            recorder.kernel(name, 100 * US)
        recorder.rows["launch"].clear()
        recorder.clock = recorder.free + 50_000 * US
        for _ in range(3):
            recorder.kernel(name, 100 * US)

    found = next(one for (kind, _), one in findings(tmp_path, recorded(build)).items() if kind == "host")
    assert 0.98 * found.share_ns <= found.saves_ns <= found.share_ns


def test_a_thread_inside_of_a_wait_waits_for_no_other_thread(tmp_path):
    """A wait makes a system call at its end, just after a call of a thread that polls now and then."""

    def build(recorder, writer):
        name = writer.name("reduce")
        polls = recorder.rows["api"]
        recorder.kernel(name, 5 * US)
        recorder.kernel(name, 1_000_000 * US)
        end = recorder.free
        recorder.synchronize()
        polls += [
            {"start": at, "duration": duration, "function": function, "thread": thread, "process": 0, "correlation": None}
            for at, duration, function, thread in [
                (end - 20_000 * US, 30 * US, "ioctl", 1),
                *((end - (21 + 10 * i) * 1_000 * US, 100 * US, "poll", 2) for i in range(90)),
                *((-(i + 1) * 1_000 * US, 100 * US, "fopen", 1) for i in range(9)),
            ]
        ]  # fmt: skip
        recorder.kernel(name, 5 * US)

    kernel = findings(tmp_path, recorded(build))["compute", "reduce"]
    assert kernel.saves_ns >= 0.98 * kernel.share_ns


@pytest.mark.parametrize(("pause", "known"), [(0, True), (45, False)])
def test_without_waits_nobody_knows_what_the_host_waited_for(tmp_path, pause, known):
    """Of the host there are launches alone: where they run ahead of the device, its kernels are what takes the time."""

    def build(recorder, writer):
        name = writer.name("kernel")
        for _ in range(50):
            recorder.kernel(name, 40 * US)
            recorder.clock += pause * US

    kernel = findings(tmp_path, recorded(build))["compute", "kernel"]
    assert (kernel.saves_ns is not None) == known
    assert known == (not any("not known" in line for line in kernel.evidence))


@pytest.mark.parametrize(("function", "known"), [("cudaMalloc", True), ("write", False)])
def test_a_call_that_launches_nothing_says_that_waits_were_recorded_too(
    tmp_path, monkeypatch, function, known
):
    """Wherever in the recording it is: the time that is re-timed has launches alone."""
    monkeypatch.setattr(savings, "_WHOLE", 10)

    def build(recorder, writer):
        recorder.rows["api"] = [{"start": recorder.clock, "duration": 5 * US, "function": function, "thread": 1, "process": 0,
                                 "correlation": 9_999}]  # fmt: skip
        recorder.clock += 10 * US
        names = [writer.name(one) for one in ("gemm", "norm", "add")]
        for _ in range(20):
            for name in names:
                recorder.kernel(name, 40 * US)
                recorder.clock += 45 * US

    kernel = findings(tmp_path, recorded(build))["compute", "gemm"]
    assert (kernel.saves_ns is not None) == known


def test_work_launched_before_the_recording_comes_before_what_follows_it_in_its_stream(tmp_path):
    """The queue is full when the recording begins: every launch returns before the first of these kernels has started."""

    def build(recorder, writer):
        gemm, gelu = writer.name("gemm"), writer.name("gelu")
        recorder.free = 300 * US
        for name in (gemm, gelu) * 2:
            where = {
                "device": 0,
                "context": 1,
                "stream": 7,
                "process": 0,
                "correlation": None,
                "graph_level": False,
            }
            recorder.rows["kernel"].append(
                {"start": recorder.free, "duration": 100 * US, "name_id": name, **where}
            )
            recorder.free += 100 * US
        for name in (gemm, gelu) * 5:
            recorder.kernel(name, 100 * US)
        recorder.synchronize()

    found = findings(tmp_path, recorded(build))["compute", "gemm"]
    assert found.share_ns == 7 * 100 * US
    assert found.saves_ns == pytest.approx(7 * 100 * US, abs=10 * US)
