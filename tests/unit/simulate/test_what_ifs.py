"""What-ifs on programs small enough to be worked out by hand, and the trace that a simulation writes."""

import pytest

from warpsight.errors import TraceError, UsageError
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.simulate import trace_file
from warpsight.simulate.simulation import simulate

US = 1_000
#: One step: 100 µs of loader, launch A (30 µs), launch B (50 µs), synchronize.
STEPS = 10


class Recorder:
    """A host that loads, launches two kernels and waits, step by step; the device is idle meanwhile."""

    def __init__(self):
        self.rows = {"launch": [], "kernel": [], "api": [], "sync": [], "user_event": []}
        self.clock, self.correlation, self.free = 0, 0, 0

    def call(self, table, function, duration):
        self.correlation += 1
        row = {"start": self.clock, "duration": duration, "function": function, "thread": 1, "process": 0,
               "correlation": self.correlation}  # fmt: skip
        self.rows[table].append(row | ({"captured": False} if table == "launch" else {}))
        self.clock += duration

    def kernel(self, name, duration):
        self.call("launch", "cudaLaunchKernel", 5 * US)
        start = max(self.clock + 2 * US, self.free + 1 * US if self.free else 0)
        self.rows["kernel"].append({"start": start, "duration": duration, "name_id": name, "device": 0, "context": 1, "stream": 7,
                                    "process": 0, "correlation": self.correlation, "graph_level": False})  # fmt: skip
        self.free = start + duration

    def synchronize(self):
        begin = self.clock
        self.call("api", "cudaStreamSynchronize", self.free + 4 * US - begin)
        self.rows["sync"].append({"start": begin, "duration": self.clock - begin, "kind": "stream", "stream": 7, "context": 1,
                                  "device": 0, "process": 0, "correlation": self.correlation, "result": 0})  # fmt: skip

    def load(self, duration):
        self.rows["user_event"].append({"start": self.clock, "duration": duration, "name": "loader", "kind": "range", "thread": 1,
                                        "process": 0})  # fmt: skip
        self.clock += duration

    def steps(self, writer, count=STEPS):
        a, b = writer.name("first_gemm"), writer.name("second_gelu")
        for _ in range(count):
            self.load(100 * US)
            self.kernel(a, 30 * US)
            self.clock += 1 * US
            self.kernel(b, 50 * US)
            self.clock += 1 * US
            self.synchronize()
            self.clock += 3 * US
        for table, rows in self.rows.items():
            writer.add(table, rows)


@pytest.fixture
def trace(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        Recorder().steps(writer)
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


#: loader 100, call 5, latency 2, A 30, gap 1, B 50, wake 4, host 3
STEP = (100 + 5 + 2 + 30 + 1 + 50 + 4 + 3) * US


def predicted(trace, *what):
    found = simulate(trace, what)
    assert found.step.low <= found.step.predicted <= found.step.high
    return found.step.predicted


def test_without_a_change_everything_happens_when_it_was_recorded(trace):
    found = simulate(trace, [])
    assert found.step.recorded == found.step.predicted == STEP
    assert (found.times.start == found.program.graph.start).all()
    assert found.recorded_ns == found.predicted_ns


def test_a_kernel_on_the_path_shortens_the_step_by_what_it_loses(trace):
    assert predicted(trace, "kernel:gelu/2") == STEP - 25 * US
    assert predicted(trace, "kernel:gelu*2") == STEP + 50 * US
    assert predicted(trace, "kernel:gelu=10us") == STEP - 40 * US


def test_a_kernel_that_becomes_short_saves_only_until_the_host_is_the_limit(trace):
    """A in no time: B then begins 2 µs after its own launch call, which ends 6 µs after that of A."""
    assert predicted(trace, "kernel:gemm=1ns") == pytest.approx(STEP - (2 + 30 + 1 - 6 - 2) * US, abs=10)


def test_a_loader_that_is_prefetched_costs_nothing(trace):
    assert predicted(trace, "host:loader=none") == STEP - 100 * US
    assert predicted(trace, "host:loader/2") == STEP - 50 * US


def test_steps_overlap_when_nobody_waits(trace):
    """The host takes 100 + 5 + 1 + 5 + 1 + 3 µs and the wait's own time; the device takes less."""
    assert predicted(trace, "sync") <= STEP - 70 * US
    assert predicted(trace, "sync") >= 115 * US


def test_launches_cheaper_than_the_device_hides_save_little(trace):
    assert predicted(trace, "launch/2") == STEP - 2.5 * US


def test_one_graph_launch_takes_the_place_of_the_calls(trace):
    assert predicted(trace, "graphs") == pytest.approx(STEP, abs=8 * US)


def test_work_fused_by_range_takes_the_time_asked_for(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        recorder = Recorder()
        recorder.load = lambda duration: setattr(recorder, "clock", recorder.clock + duration)
        kernel = recorder.kernel

        def within(name, duration):
            begin = recorder.clock
            kernel(name, duration)
            if duration == 50 * US:
                recorder.rows["user_event"].append({"start": begin - 10 * US, "duration": 20 * US, "name": "update",
                                                    "kind": "range", "thread": 1, "process": 0})  # fmt: skip

        recorder.kernel = within
        recorder.steps(writer)
    with open_trace(tmp_path / "t.warp") as trace:
        assert predicted(trace, "fuse:update=20us") == pytest.approx(STEP - 61 * US, abs=2 * US)


def test_a_name_that_matches_nothing_is_a_note_and_no_change(trace):
    found = simulate(trace, ["kernel:nothing/2"])
    assert found.step.predicted == STEP
    assert [note.text for note in found.result.findings] == ["kernel:nothing/2 matches no kernel"]


def test_the_known_step_takes_the_cost_of_recording_out(trace):
    found = simulate(trace, [], step_ns=STEP - 4 * US)
    assert found.step.predicted == pytest.approx(STEP - 4 * US, rel=0.005)
    assert "recording is assumed to have cost" in found.result.findings[0].text


def test_an_unknown_device_is_refused(trace):
    with pytest.raises(UsageError, match="device"):
        simulate(trace, ["device:abacus"])


def test_the_trace_of_a_simulation_is_a_trace_like_any_other(trace, tmp_path):
    found = simulate(trace, ["host:loader=none"])
    trace_file.write(trace, found, tmp_path / "out.warp")
    with open_trace(tmp_path / "out.warp") as made:
        again = simulate(made, [])
        assert again.step.recorded == found.step.predicted
        # The first one is before the first call, where nothing is re-timed.
        short = made.sql(f"SELECT count(*) FROM user_event WHERE duration <= {3 * US}").fetchall()
        assert short == [(STEPS - 1,)]
        assert "host:loader=none" in made.sql("SELECT cause FROM loss").fetchall()[0][0]
    with pytest.raises(TraceError):
        trace_file.write(trace, found, tmp_path / "out.warp")


def test_a_simulation_of_no_change_writes_every_row_as_it_was(trace, tmp_path):
    trace_file.write(trace, simulate(trace, []), tmp_path / "same.warp")
    with open_trace(tmp_path / "same.warp") as made:
        for table in ("kernel", "launch", "api", "user_event", "sync"):
            assert made.arrow(table).equals(trace.arrow(table)), table


@pytest.mark.parametrize(
    ("kind", "size", "saved"),
    [
        ("DtoD", 64 << 20, 0),  # as fast as the memory can: all multiprocessors copy
        ("DtoD", 64 << 10, 1),  # few blocks
        ("HtoD", 64 << 20, 1),  # a copy engine
    ],
)
def test_copies_overlap_with_what_they_leave_room_for(tmp_path, kind, size, saved):
    """A kernel of 100 µs, a copy of 50 µs, a kernel of 100 µs in one stream."""
    recorder = Recorder()
    with TraceWriter(tmp_path / "t.warp") as writer:
        name = writer.name("gemm")
        recorder.kernel(name, 100 * US)
        recorder.call("launch", "cudaMemcpyAsync", 5 * US)
        where = {"device": 0, "context": 1, "stream": 7, "process": 0, "correlation": recorder.correlation}
        row = {**where, "start": recorder.free + US, "duration": 50 * US, "bytes": size, "kind": kind,
               "source_kind": "device", "destination_kind": "device", "asynchronous": True}  # fmt: skip
        recorder.rows["memcpy"] = [row]
        recorder.free += 51 * US
        recorder.kernel(name, 100 * US)
        recorder.synchronize()
        device = {"device": 0, "index": 0, "uuid": "0", "vendor": "NVIDIA", "platform": "cuda", "host": ""}
        writer.add("device", [{**device, "name": "NVIDIA H100 80GB HBM3"}])
        for table, rows in recorder.rows.items():
            writer.add(table, rows)
    with open_trace(tmp_path / "t.warp") as trace:
        found = simulate(trace, ["overlap:copies"])
    assert found.recorded_ns - found.predicted_ns == pytest.approx(saved * 50 * US, abs=2 * US)
    assert any("use all of it" in note.text for note in found.result.findings) == (not saved)
