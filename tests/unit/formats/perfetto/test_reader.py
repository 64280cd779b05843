"""Traces written with Perfetto's own message definitions, and our own export read back."""

import zlib
from collections import Counter

import pytest

import warpsight as ws
from benchmarks.synthetic_trace import Plan, make
from tests.unit.formats.chrome.test_reader import QUERIES
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.formats.perfetto import writer
from warpsight.formats.selection import Selection
from warpsight.formats.target import Target
from warpsight.model import TraceWriter

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


def trace_of(*packets):
    message = pb.Trace()
    for fields in packets:
        message.packet.append(pb.TracePacket(trusted_packet_sequence_id=1, **fields))
    return message.SerializeToString()


def described():
    process = pb.TrackDescriptor(
        uuid=1, process={"pid": 77, "process_name": "train", "cmdline": ["python", "train.py"]}
    )
    thread = pb.TrackDescriptor(uuid=2, parent_uuid=1, thread={"pid": 77, "tid": 78, "thread_name": "worker"})
    counter = pb.TrackDescriptor(uuid=3, parent_uuid=1, name="power", counter={"unit_name": "W"})
    return [{"track_descriptor": d} for d in (process, thread, counter)]


def begin(track, **more):
    return pb.TrackEvent(type=pb.TrackEvent.TYPE_SLICE_BEGIN, track_uuid=track, **more)


def end(track):
    return pb.TrackEvent(type=pb.TrackEvent.TYPE_SLICE_END, track_uuid=track)


def imported(tmp_path, data):
    path = tmp_path / "t.pftrace"
    path.write_bytes(data)
    made = import_files([path], tmp_path / "t.warp", force=True)
    assert made.files[0].format == "perfetto"
    return made


def test_ranges_instants_counters_with_interned_texts_and_annotations(tmp_path):
    texts = pb.InternedData()
    texts.event_names.add(iid=5, name="step")
    texts.debug_annotation_names.add(iid=9, name="shape")
    texts.debug_annotation_string_values.add(iid=4, str=b"2x3")
    annotation = {"name_iid": 9, "string_value_iid": 4}
    data = trace_of(
        *described(),
        {"timestamp": 1_000, "sequence_flags": 1, "interned_data": texts,
         "track_event": begin(2, name_iid=5, categories=["phase"], debug_annotations=[annotation])},
        {"timestamp": 1_100, "track_event": begin(2, name="inner")},
        {"timestamp": 1_150, "track_event": pb.TrackEvent(type=3, track_uuid=2, name="mark")},
        {"timestamp": 1_200, "track_event": end(2)},
        {"timestamp": 1_300, "track_event": pb.TrackEvent(type=4, track_uuid=3, double_counter_value=312.5)},
        {"timestamp": 1_900, "track_event": end(2)},
        {"timestamp": 2_000, "track_event": begin(2, name="open")},
    )  # fmt: skip
    with ws.open(imported(tmp_path, data).path) as trace:
        rows = trace.sql(
            "SELECT name, start, duration, category, attributes, thread, open FROM marker"
        ).fetchall()
        assert sorted(rows) == [
            ("inner", 1_100, 100, None, None, 78, False),
            ("mark", 1_150, None, None, None, 78, False),
            ("open", 2_000, None, None, None, 78, True),
            ("step", 1_000, 900, "phase", '{"shape":"2x3"}', 78, False),
        ]
        assert trace.sql("SELECT name, time, value, unit FROM counter").fetchall() == [
            ("power", 1_300, 312.5, "W")
        ]
        assert trace.sql("SELECT pid, command FROM process").fetchall() == [(77, "python train.py")]
        assert trace.sql("SELECT name FROM thread WHERE thread = 78").fetchall() == [("worker",)]


def test_incremental_clocks_with_a_multiplier_give_absolute_times(tmp_path):
    clocks = [{"clock_id": 64, "timestamp": 0, "is_incremental": True, "unit_multiplier_ns": 1000},
              {"clock_id": 6, "timestamp": 5_000_000}]  # fmt: skip
    data = trace_of(
        *described(),
        {"clock_snapshot": {"clocks": clocks}},
        {"timestamp": 10, "timestamp_clock_id": 64, "track_event": begin(2, name="a")},
        {"timestamp": 7, "timestamp_clock_id": 64, "track_event": end(2)},
    )
    with ws.open(imported(tmp_path, data).path) as trace:
        assert trace.sql("SELECT start, duration FROM marker").fetchall() == [(5_010_000, 7_000)]


def test_render_stages_are_kernels_of_their_queue(tmp_path):
    texts = pb.InternedData()
    texts.gpu_specifications.add(iid=1, name="compute queue")
    texts.gpu_specifications.add(iid=2, name="Compute")
    stage = {"event_id": 1, "duration": 50, "hw_queue_iid": 1, "stage_iid": 2, "submission_id": 12}
    data = trace_of(
        {"timestamp": 100, "sequence_flags": 1, "interned_data": texts, "gpu_render_stage_event": stage}
    )
    with ws.open(imported(tmp_path, data).path) as trace:
        rows = trace.sql(
            "SELECT k.name, start, duration, correlation, s.name FROM kernel k JOIN stream s USING (stream)"
        )
        assert rows.fetchall() == [("Compute", 100, 50, 12, "compute queue")]


def test_deflated_packets_are_read(tmp_path):
    inner = trace_of(
        *described(),
        {"timestamp": 5, "track_event": begin(2, name="a")},
        {"timestamp": 9, "track_event": end(2)},
    )
    data = trace_of({"timestamp": 1, "compressed_packets": zlib.compress(inner)})
    with ws.open(imported(tmp_path, data).path) as trace:
        assert trace.sql("SELECT name, start, duration FROM marker").fetchall() == [("a", 5, 4)]


def test_what_is_not_kept_is_counted(tmp_path):
    data = trace_of(
        *described(),
        {"timestamp": 5, "ftrace_events": {"cpu": 1}},
        {"timestamp": 6, "ftrace_events": {"cpu": 2}},
        {"timestamp": 7, "track_event": begin(2, name="a", flow_ids=[3])},
        {"timestamp": 8, "track_event": end(2), "previous_packet_dropped": 1},
    )
    causes = {row["cause"]: row["count"] for row in imported(tmp_path, data).losses}
    assert causes["packets of kind ftrace_events are not kept"] == 2
    assert causes["flows are not kept"] == 1
    assert any("recorder dropped" in cause for cause in causes)


def test_a_cut_file_gives_the_whole_packets_and_says_where_it_ends(tmp_path):
    whole = trace_of(
        *described(),
        *({"timestamp": i, "track_event": pb.TrackEvent(type=3, track_uuid=2, name="m")} for i in range(100)),
    )
    cut = len(whole) - 150
    made = imported(tmp_path, whole[:cut])
    with ws.open(made.path) as trace:
        found = trace.sql("SELECT start FROM marker ORDER BY start").fetchall()
    assert 80 < len(found) < 100
    assert found == [(i,) for i in range(len(found))]
    assert any("ends inside a packet that begins at byte" in row["cause"] for row in made.losses)


def test_a_length_is_not_believed(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"\x0a\xff\xff\xff\xff\x7f" + b"x" * 100)
    with pytest.raises(FormatError, match="byte 0: a packet of 34,359,738,367 bytes"):
        import_files([path], tmp_path / "t.warp", form="perfetto")


def test_our_own_export_reads_back(tmp_path):
    path = make(tmp_path / "t.warp", Plan(kernels=3_000, overlap=0.05))
    with ws.open(path) as trace:
        with (tmp_path / "t.pftrace").open("wb") as file:
            writer.write(trace, file, Selection(enclosed=False))
        import_files([tmp_path / "t.pftrace"], tmp_path / "back.warp")
        with ws.open(tmp_path / "back.warp") as back:
            for sql in QUERIES:
                first, second = (Counter(t.sql(sql).fetchall()) for t in (trace, back))
                assert second == first, sql
                assert first, sql


def test_addresses_of_copies_and_fills_are_hexadecimal_text_and_read_back(tmp_path):
    where = {
        "start": 5,
        "duration": 5,
        "bytes": 8,
        "asynchronous": True,
        "device": 0,
        "context": 1,
        "stream": 7,
        "process": 0,
    }
    copy = {**where, "kind": "HtoD", "source_kind": "pinned", "destination_kind": "device"}
    fill = {**where, "value": 0, "memory_kind": "device"}
    with TraceWriter(tmp_path / "t.warp") as made:
        made.add(
            "process", [{"process": 0, "pid": 9, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        made.add("memcpy", [{**copy, "source_address": 0x7F0000001000, "destination_address": (1 << 64) - 1},
                            {**copy, "start": 20, "destination_address": 0x500}, {**copy, "start": 30}])  # fmt: skip
        made.add("memset", [{**fill, "start": 40, "address": 0x500}, {**fill, "start": 50}])
    with ws.open(tmp_path / "t.warp") as trace, (tmp_path / "t.out").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    assert all(
        text in (tmp_path / "t.out").read_bytes() for text in (b"source_address", b"0x7f0000001000", b"0x500")
    )
    with ws.open(import_files([tmp_path / "t.out"], tmp_path / "again.warp").path) as trace:
        copies = trace.sql("SELECT source_address, destination_address FROM memcpy ORDER BY start").fetchall()
        fills = trace.sql("SELECT address FROM memset ORDER BY start").fetchall()
        assert trace.sql("SELECT * FROM attribute").fetchall() == []
    assert copies == [(0x7F0000001000, (1 << 64) - 1), (None, 0x500), (None, None)]
    assert fills == [(0x500,), (None,)]


def test_a_negative_correlation_is_none_and_does_not_stop_the_export(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as out, Target(out, "0") as target:
        process, device = target.process(77), target.device(("0", 0), name="NPU 0")
        context = target.context(process, 0, device=device)
        row = {
            "duration": 5, "name_id": target.name("k"), "process": process, "device": device, "context": context,
            "stream": target.stream(process, context, 3, device=device), "graph_level": False,
        }  # fmt: skip
        target.add(
            "kernel", [{**row, "start": 10, "correlation": 700}, {**row, "start": 20, "correlation": -1}]
        )
        target.close()
    with ws.open(tmp_path / "t.warp") as trace, (tmp_path / "t.pftrace").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    import_files([tmp_path / "t.pftrace"], tmp_path / "back.warp")
    with ws.open(tmp_path / "back.warp") as back:
        assert back.sql("SELECT start, correlation FROM kernel ORDER BY 1").fetchall() == [
            (10, 700),
            (20, None),
        ]


def test_dispatches_copies_and_calls_of_rocprofv3_are_device_work_and_its_launches(tmp_path):
    def told(**values):
        kinds = {int: "uint_value", str: "string_value"}
        return [{"name": name, kinds[type(value)]: value} for name, value in values.items()]

    stream = pb.TrackDescriptor(uuid=9, name='STREAM [" 1 "] ', parent_uuid=1)
    gpu = {"agent": "Agent-4", "agent_type": "GPU", "stream_ID": 1}
    data = trace_of(
        *described(),
        {"track_descriptor": stream},
        {"timestamp": 1_000, "track_event": begin(2, name="hipModuleLaunchKernel", categories=["hip_api"],
                                                  debug_annotations=told(begin_ns=1_000, corr_id=575))},
        {"timestamp": 1_100, "track_event": end(2)},
        {"timestamp": 1_500, "track_event": begin(9, name="axpy(float) [clone .kd]", categories=["kernel_dispatch"],
                                                  debug_annotations=told(**gpu, begin_ns=1_500, corr_id=575))},
        {"timestamp": 1_900, "track_event": end(9)},
        {"timestamp": 2_500, "track_event": begin(9, name="MEMORY_COPY_DEVICE_TO_HOST", categories=["memory_copy"],
                                                  debug_annotations=told(**gpu, corr_id=576))},
        {"timestamp": 2_600, "track_event": end(9)},
    )  # fmt: skip
    with ws.open(imported(tmp_path, data).path) as trace:
        kernels = (
            "SELECT n.name, start, duration, stream, correlation FROM kernel JOIN name n ON id = name_id"
        )
        assert trace.sql(kernels).fetchall() == [("axpy(float)", 1_500, 400, 1, 575)]
        assert trace.sql("SELECT kind, duration, correlation FROM memcpy").fetchall() == [("DtoH", 100, 576)]
        assert trace.sql("SELECT function, correlation FROM launch").fetchall() == [
            ("hipModuleLaunchKernel", 575)
        ]
        assert trace.count("marker") == 0
