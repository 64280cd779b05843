"""Exported protobuf, read back with Perfetto's own message definitions."""

import io
import json
from collections import Counter, defaultdict

import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.analysis.path.critical_path import critical_path
from warpsight.analysis.path.overlay import overlay
from warpsight.analysis.rules.overlay import overlays
from warpsight.analysis.rules.verdict import verdict
from warpsight.formats.chrome import writer as chrome
from warpsight.formats.perfetto import writer
from warpsight.formats.selection import Selection
from warpsight.formats.writing import queries
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


class Decoded:
    """Slices as (track uuid, start, end, name, annotations, flows), with a reader's state per packet sequence."""

    def __init__(self, data):
        self.tracks, self.slices, self.samples = {}, [], defaultdict(list)
        #: By number of an arrow of an overlay the times of its ends.
        self.arrows = defaultdict(list)
        clocks, interned, track_of, opened = {}, {}, {}, {}
        for packet in pb.Trace.FromString(data).packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("clock_snapshot") and sequence > 1:
                delta, monotonic = packet.clock_snapshot.clocks
                assert delta.is_incremental
                assert (delta.clock_id, monotonic.clock_id) == (64, 3)
                clocks[sequence] = monotonic.timestamp
            if packet.sequence_flags & 1:
                table = packet.interned_data
                interned[sequence] = {
                    "name": {e.iid: e.name for e in table.event_names},
                    "category": {e.iid: e.name for e in table.event_categories},
                    "label": {e.iid: e.name for e in table.debug_annotation_names},
                    "string": {e.iid: e.str.decode() for e in table.debug_annotation_string_values},
                }
                track_of[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
                assert packet.trace_packet_defaults.timestamp_clock_id == 64
            if packet.HasField("track_event"):
                clocks[sequence] += packet.timestamp
                self._event(
                    packet.track_event,
                    sequence,
                    clocks[sequence],
                    interned[sequence],
                    track_of[sequence],
                    opened,
                )
        assert not opened

    def _event(self, event, sequence, time, texts, track, opened):
        if event.type == event.TYPE_SLICE_BEGIN:
            values = {
                texts["label"][a.name_iid]: texts["string"][a.string_value_iid]
                if a.string_value_iid
                else a.uint_value
                for a in event.debug_annotations
            }
            category = texts["category"][event.category_iids[0]]
            opened[sequence] = (
                track,
                time,
                texts["name"][event.name_iid],
                category,
                values,
                tuple(event.flow_ids),
            )
            self._arrows(event, time)
        elif event.type == event.TYPE_SLICE_END:
            self._arrows(event, time)
            track, start, *rest = opened.pop(sequence)
            self.slices.append((track, start, time, *rest))
        else:
            number = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            self.samples[self.tracks[track].name].append((time, number))

    def _arrows(self, event, time):
        for flow in event.flow_ids:
            if flow >> 60 == 0xC:
                self.arrows[flow].append(time)


def export(trace, selection=None, form=writer):
    file = io.BytesIO()
    written = form.write(trace, file, selection or Selection())
    return file.getvalue(), written


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = make(tmp_path_factory.mktemp("export") / "t.warp", Plan(kernels=20_000, overlap=0.05, processes=2))
    with open_trace(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def decoded(trace):
    return Decoded(export(trace)[0])


def test_every_kernel_is_there_to_the_nanosecond(trace, decoded):
    expected = Counter(
        trace.sql(
            "SELECT start, start + duration, regexp_replace(demangled, '^void ', '') FROM kernel"
        ).fetchall()
    )
    assert Counter((s[1], s[2], s[3]) for s in decoded.slices if s[4] == "kernel") == expected


def test_every_launch_is_there_with_its_python_stack(trace, decoded):
    expected = Counter(trace.sql("SELECT start, start + duration, correlation, stack FROM launch").fetchall())
    stacks = {" ← ".join(frames[::-1]): i for i, frames in trace.stacks(range(1, 300)).items() if frames}
    found = Counter(
        (s[1], s[2], s[5]["correlation"], stacks[s[5]["stack"]]) for s in decoded.slices if s[4] == "launch"
    )
    assert found == expected


def test_flows_join_each_launch_with_its_kernel(trace, decoded):
    kernels = {s[6]: s for s in decoded.slices if s[4] == "kernel"}
    launches = {s[6]: s for s in decoded.slices if s[4] == "launch"}
    assert len(kernels) == len(launches) == trace.count("kernel")
    assert kernels.keys() == launches.keys()
    assert all(kernels[f][5]["correlation"] == launches[f][5]["correlation"] for f in kernels)


def test_the_shape_is_an_annotation(decoded):
    shapes = {s[5]["shape"] for s in decoded.slices if s[4] == "kernel"}
    assert "grid 1×1×1, block 32×1×1, 24 registers" in shapes


def test_slices_of_a_track_nest(decoded):
    by_track = defaultdict(list)
    for track, start, end, *_ in decoded.slices:
        by_track[track].append((start, -end))
    for slices in by_track.values():
        stack = []
        for start, end in sorted(slices):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -end <= stack[-1]
            stack.append(-end)


def test_tracks_are_below_their_process_and_device(trace, decoded):
    kernel_tracks = {s[0] for s in decoded.slices if s[4] == "kernel"}
    for uuid in kernel_tracks:
        device = decoded.tracks[decoded.tracks[uuid].parent_uuid]
        assert device.name == "GPU 0: NVIDIA H200"
        assert decoded.tracks[device.parent_uuid].process.pid in (4000, 4001)
    threads = {
        (t.thread.pid, t.thread.tid, t.thread.thread_name)
        for t in decoded.tracks.values()
        if t.HasField("thread")
    }
    assert (4000, 4000, "MainThread") in threads


def test_counters_keep_time_value_and_unit(trace, decoded):
    expected = trace.sql("SELECT time, value FROM counter WHERE name = 'power' ORDER BY ALL").fetchall()
    assert sorted(decoded.samples["GPU 0: power"]) == expected
    units = {t.name: t.counter.unit_name for t in decoded.tracks.values() if t.HasField("counter")}
    assert units["GPU 0: power"] == "W"


def test_size_of_kernel_launch_flow_shape_and_correlation(trace):
    only = Selection(kinds=("kernel", "launch"), enclosed=False)
    kernels = trace.count("kernel")
    assert len(export(trace, only)[0]) / kernels <= 130
    assert len(export(trace, only)[0]) <= 0.15 * len(export(trace, only, chrome)[0])


def test_a_selection_is_kept_to(trace):
    begin = trace.sql("SELECT min(start) + 100000000 FROM kernel").fetchall()[0][0]
    end = begin + 50_000_000
    selection = Selection(
        begin, end, streams=(7,), processes=(1,), kinds=("kernel",), flows=False, counters=False
    )
    found = Decoded(export(trace, selection)[0])
    expected = trace.sql(f"""SELECT start, start + duration FROM kernel WHERE process = 1 AND stream = 7
        AND start < {end} AND start + duration > {begin}""").fetchall()
    assert Counter((s[1], s[2]) for s in found.slices) == Counter(expected)
    assert not found.samples
    assert not any(s[6] for s in found.slices)


def test_the_critical_path_is_a_track_with_arrows_along_it(trace, decoded):
    drawn = Decoded(export(trace, Selection(overlays=[overlay(trace)]))[0])
    segments = sorted(s[1:4] for s in drawn.slices if s[4] == "critical path")
    path = critical_path(trace).tables["path"].to_pylist()
    assert [(begin, end - begin) for begin, end, _ in segments] == [(r["start"], r["duration"]) for r in path]
    (track,) = {drawn.tracks[s[0]].name for s in drawn.slices if s[4] == "critical path"}
    assert track == "Critical path"
    assert len(drawn.arrows) > len(path) // 8
    assert {len(ends) for ends in drawn.arrows.values()} == {2}  # each leaves one row and reaches another
    others = [s[:5] for s in drawn.slices if s[4] != "critical path"]
    assert Counter(s[1:] for s in others) == Counter(s[1:5] for s in decoded.slices)


def test_a_window_of_the_critical_path(trace):
    begin = trace.sql("SELECT min(start) + 100000000 FROM kernel").fetchall()[0][0]
    selection = Selection(begin, begin + 50_000_000, flows=False, overlays=[overlay(trace)])
    drawn = Decoded(export(trace, selection)[0])
    segments = [s for s in drawn.slices if s[4] == "critical path"]
    assert segments and all(s[2] > begin and s[1] < begin + 50_000_000 for s in segments)
    assert not drawn.arrows


def test_findings_are_tracks_with_their_text_where_they_show_best(trace):
    found = verdict(trace).findings
    drawn = Decoded(export(trace, Selection(overlays=overlays(found)))[0])
    marks = {(s[1], s[2], s[3]): (drawn.tracks[s[0]], s[5]) for s in drawn.slices if s[4] == "finding"}
    assert found and marks.keys() == {(*one.at, one.text) for one in found}
    (group,) = [uuid for uuid, track in drawn.tracks.items() if track.name == "Findings"]
    for one in found:
        track, notes = marks[(*one.at, one.text)]
        assert track.parent_uuid == group and one.name in (None, track.name.split(". ", 1)[1])
        assert json.loads(notes["attributes"])["rule"] == one.rule


def test_an_empty_trace_is_an_empty_file_that_reads(tmp_path):
    TraceWriter(tmp_path / "t.warp").close()
    with open_trace(tmp_path / "t.warp") as trace:
        for form in (writer, chrome):
            assert export(trace, form=form)[1]["slices"] == 0


def test_unfinished_work_is_told(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as w:
        w.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        kernel = {"name_id": w.name("k"), "context": 1, "stream": 7, "process": 0, "graph_level": False}
        w.add(
            "kernel",
            [{**kernel, "correlation": 1, "start": 100, "duration": 50}, {**kernel, "correlation": 2}],
        )
        call = {"function": "cuLaunchKernel", "thread": 9, "process": 0, "captured": False}
        w.add(
            "launch",
            [
                {**call, "start": 90, "duration": 5, "correlation": 1},
                {**call, "start": 120, "correlation": 2},
            ],
        )
    with open_trace(tmp_path / "t.warp") as trace:
        data, written = export(trace)
    assert written["unplaced"] == 1
    names = [(s[3], s[1], s[2]) for s in Decoded(data).slices]
    assert ("cuLaunchKernel (never returned)", 120, 150) in names


@pytest.fixture
def program(tmp_path):
    """A small OpenCL-like program: work without a device id, samples, a build, overhead, an event, a wait list, a graph."""
    with TraceWriter(tmp_path / "t.warp") as w:
        command = "/usr/bin/python /home/me/train.py --steps 9"
        w.add(
            "process",
            [{"process": 0, "pid": 9, "host": "h", "command": command, "executable": "p", "start": 0}],
        )
        w.add("thread", [{"thread": 9, "name": "main", "process": 0}])
        device = {"device": 0, "index": 0, "uuid": "u", "name": "PoCL", "vendor": "v", "platform": "opencl"}
        w.add("device", [device])
        w.add("context", [{"context": 1 << 30, "device": 0, "api": "opencl", "process": 0}])
        work = {"context": 1 << 30, "stream": 1, "process": 0, "graph_level": False, "duration": 50}
        first = {**work, "name_id": w.name("first"), "start": 100, "correlation": 1}
        second = {**work, "name_id": w.name("second"), "start": 200, "correlation": 2}
        w.add("kernel", [first, {**second, "graph": 5, "graph_node": 77}])
        w.add(
            "flow",
            [{"from_correlation": 1, "to_correlation": 2, "kind": "wait list", "process": 0}],
        )
        stacks = [
            w.stack([("main", "t.py", 1, None, "python", None), (f, "t.py", 2, None, "python", None)])
            for f in "ab"
        ]
        sample = {"thread": 9, "state": "R", "gil": True, "process": 0}
        times = [(0, 0), (10, 0), (20, 1), (100, 1)]
        w.add("sample", [{**sample, "time": t, "stack": stacks[i]} for t, i in times])
        w.add("build", [{"start": 5, "duration": 20, "program": "kernels.cl", "process": 0}])
        w.add("overhead", [{"start": 60, "duration": 5, "kind": "buffer flush", "process": 0}])
        event = {"name": "epoch", "kind": "mark", "thread": 9, "process": 0}
        w.add("user_event", [{**event, "start": 40, "duration": 0}])
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


def found_by_category(decoded):
    found = defaultdict(list)
    for track, start, end, name, category, *_ in decoded.slices:
        found[category].append((decoded.tracks[track].name, name, start, end))
    return found


def test_every_kind_of_row_has_a_track(program):
    decoded = Decoded(export(program)[0])
    found = found_by_category(decoded)
    assert found["build"] == [("Builds", "Build kernels.cl", 5, 25)]
    assert found["overhead"] == [("Recorder overhead", "buffer flush", 60, 65)]
    assert [row[1:] for row in found["event"]] == [("epoch", 40, 40)]
    # Samples of one stack are one slice; the pause before the last one stays empty.
    assert found["sample"] == [("Samples", "a", 0, 20), ("Samples", "b", 20, 30), ("Samples", "b", 100, 110)]


def test_work_without_a_device_id_is_on_the_device_of_its_context(program):
    decoded = Decoded(export(program)[0])
    (track,) = {s[0] for s in decoded.slices if s[4] == "kernel"}
    parent = decoded.tracks[decoded.tracks[track].parent_uuid]
    assert parent.name == "Device 0: PoCL"
    assert decoded.tracks[parent.parent_uuid].process.process_name == "python train.py --steps 9"


def test_wait_lists_are_flows_and_graphs_are_annotations(program):
    kernels = {s[3]: s for s in Decoded(export(program)[0]).slices if s[4] == "kernel"}
    assert len(kernels["first"][6]) == 1
    assert kernels["first"][6] == kernels["second"][6]
    assert (kernels["second"][5]["graph"], kernels["second"][5]["node"]) == (5, 77)
    assert "graph" not in kernels["first"][5]


def test_windows_of_time_do_not_show(trace, monkeypatch):
    def content(decoded):
        return Counter(
            (decoded.tracks[s[0]].name, *s[1:5], tuple(sorted(s[5].items())), s[6]) for s in decoded.slices
        )

    whole = content(Decoded(export(trace)[0]))
    monkeypatch.setattr(queries, "WINDOW_ROWS", 3_000)
    windows = Decoded(export(trace)[0])
    assert content(windows) == whole
    test_slices_of_a_track_nest(windows)
