"""One event of every kind, in the layout of libkineto's own writer, and where each of its fields goes."""

import json
from pathlib import Path

import pytest

import warpsight as ws
from warpsight.formats.importing import import_files

FILE = Path(__file__).parents[3] / "golden" / "formats" / "kineto" / "every_kind.json"
#: ns of the file's clock when the program's first range began.
T = 5_000_000_000_000


@pytest.fixture(scope="module")
def trace():
    with ws.open(FILE) as opened:
        yield opened


def one(trace, sql):
    (row,) = trace.sql(sql).fetchall()
    return row


def test_a_kernel_with_all_its_fields(trace):
    columns = "start, duration, stream, context, grid_x, block_x, registers, shared_dynamic, graph, graph_node, queued"
    row = one(trace, f"SELECT {columns} FROM kernel WHERE correlation = 77")
    assert row == (T + 40_000, 12_345, 7, 1, 66, 256, 32, 1024, 3, 12884901889, None)
    assert one(trace, "SELECT name FROM kernel WHERE correlation = 77") == (
        'void gemm<float>(float const*, "x")',
    )


def test_the_stack_of_a_kernel_is_that_of_its_launch(trace):
    (stack,) = one(trace, "SELECT stack FROM kernel WHERE correlation = 77")
    assert trace.stacks([stack])[stack] == (
        "<module> (train.py:10)",
        "nn.Module: Linear_0",
        "<built-in function linear>",
    )
    kinds = trace.sql("SELECT DISTINCT kind FROM frame WHERE function LIKE 'nn.Module%'").fetchall()
    assert kinds == [("marker",)]


def test_a_collective(trace):
    row = one(trace, 'SELECT start, operation, bytes, dtype, ranks, "group", correlation FROM collective')
    assert row == (T + 70_000, "all-reduce", 2 * 1048576, "BFloat16", 8, "0", 78)
    kept = dict(trace.sql("SELECT key, value FROM attribute WHERE \"table\" = 'collective'").fetchall())
    assert kept["Process Group Ranks"] == '"[0, 1, 2, 3, 4, 5, 6, 7]"' and kept["Seq"] == "5"


def test_copies_fills_waits_and_events(trace):
    copies = trace.sql(
        "SELECT correlation, kind, source_kind, destination_kind, bytes FROM memcpy ORDER BY 1"
    ).fetchall()
    assert copies == [(80, "HtoD", "pinned", "device", 4096), (81, "PtoP", "device", "device", 65536)]
    peer = one(trace, """SELECT s."index", d."index" FROM memcpy m JOIN device s ON s.device = m.source_device
                         JOIN device d ON d.device = m.destination_device""")  # fmt: skip
    assert peer == (1, 0)
    assert one(trace, "SELECT bytes, memory_kind FROM memset") == (64, "device")
    assert one(trace, "SELECT kind, event, event_sync, stream FROM sync") == ("stream wait event", 5, 83, 20)
    assert one(trace, "SELECT event, event_sync, time, stream FROM event") == (5, 83, T + 222_000, 7)


def test_calls_of_cuda_and_xpu(trace):
    launches = trace.sql("SELECT function, correlation FROM launch ORDER BY start").fetchall()
    assert launches == [("cudaLaunchKernel", 77), ("cuLaunchKernelEx", 78), ("urEnqueueKernelLaunch", 90)]
    assert [r[0] for r in trace.sql("SELECT function FROM api ORDER BY start").fetchall()] == [
        "cudaMemcpyAsync",
        "cudaDeviceSynchronize",
    ]
    assert one(trace, "SELECT key, value FROM attribute WHERE \"table\" = 'launch'") == (
        "l0 call",
        '"zeCommandListAppendLaunchKernel"',
    )


def test_operators_and_the_link_from_forward_to_backward(trace):
    row = one(trace, "SELECT sequence, shapes, attributes, correlation FROM op WHERE name = 'aten::linear'")
    assert row[0] == 40 and json.loads(row[1]) == [[8, 64], [64, 64]] and row[3] == 2
    assert json.loads(row[2])["Input type"] == ["float", "float"]
    linked = one(trace, """SELECT a.name, b.name, f.kind FROM flow f JOIN op a ON a.correlation = f.from_correlation
                           JOIN op b ON b.correlation = f.to_correlation""")  # fmt: skip
    assert linked == ("aten::linear", "MmBackward0", "forward-backward")


def test_a_field_of_tomorrow_is_kept(trace):
    (text,) = one(trace, "SELECT attributes FROM op WHERE name = 'MmBackward0'")
    assert json.loads(text)["new field of tomorrow"] == {"a": [1, 2]}


def test_memory_counters_overhead_and_other_devices(trace):
    rows = trace.sql(
        "SELECT time, operation, bytes, pool_used, allocator FROM memory ORDER BY time"
    ).fetchall()
    assert rows == [
        (T + 6_000, "allocate", 4096, 4096, "caching allocator"),
        (T + 300_000, "free", 4096, 0, "caching allocator"),
    ]
    assert one(trace, "SELECT name, value, time FROM counter") == ("sm__throughput", 71.5, T + 50_000)
    assert one(trace, "SELECT kind, duration FROM overhead") == ("instrumentation", 3_000)
    assert one(trace, "SELECT stream, start FROM kernel WHERE name = 'mm.kernel'") == (3, T + 530_000)
    assert one(trace, "SELECT category, attributes FROM marker WHERE name = 'xccl::allreduce'") == (
        "collective_comm",
        '{"Communicator_id":7}',
    )


def test_annotations_process_threads_streams_device_and_clock(trace):
    ranges = trace.sql(
        "SELECT category, start, duration FROM marker WHERE name = 'ProfilerStep#3' ORDER BY 2"
    ).fetchall()
    assert ranges == [("user_annotation", T, 900_000), ("gpu_user_annotation", T + 39_999, 200_000)]
    assert one(trace, "SELECT pid, command, rank, world_size FROM process") == (4242, "python", 3, 8)
    assert one(trace, "SELECT name FROM thread WHERE thread = 4243") == ("thread 4243 (pt_autograd_0)",)
    assert one(trace, "SELECT name FROM stream WHERE stream = 7 AND context = 1") == ("stream 7 ",)
    columns = "name, compute_capability, multiprocessors, memory_bytes"
    assert one(trace, f'SELECT {columns} FROM device WHERE "index" = 0') == (
        "NVIDIA H100 80GB HBM3",
        "9.0",
        132,
        85018279936,
    )
    assert one(trace, "SELECT monotonic, realtime FROM clock") == (0, 1759000000000000000)


@pytest.mark.parametrize("ending", [-1, -40, -700])
def test_what_was_cut_off_is_said_and_the_rest_is_there(tmp_path, ending):
    path = tmp_path / "cut.json"
    path.write_bytes(FILE.read_bytes()[: ending - 1])
    made = import_files([path], tmp_path / "t.warp")
    assert any("is incomplete" in loss["cause"] for loss in made.losses)
    assert made.rows["kernel"] == 3


def test_call_stacks_stand_in_for_python_functions(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 9, "tid": 9, "ts": 1, "dur": 50,
         "args": {"External id": 4, "Call stack": "b.py(2): inner;a.py(1): outer"}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 5.5, "dur": 1,
         "args": {"External id": 4, "correlation": 6}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 1, "args": {"correlation": 6, "stream": 7}},
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events})
    )
    with ws.open(tmp_path / "t.json") as trace:
        for table in ("op", "launch", "kernel"):
            (stack,) = one(trace, f"SELECT stack FROM {table}")
            assert trace.stacks([stack])[stack] == ("outer (a.py:1)", "inner (b.py:2)")


def test_values_of_a_wrong_type_are_kept_as_attributes_or_counted(tmp_path):
    def event(category, name, duration=1, **arguments):
        placed = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 2, "ts": 10}
        return {**placed, "dur": duration, "args": arguments}

    good = {"device": 0, "context": 1, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1], "correlation": 5}
    events = [
        event("kernel", "good", **good),
        event("kernel", "bad", **(good | {"device": "zero", "stream": "default", "grid": [1, 1], "correlation": 6.5})),
        event("kernel", "none", **(good | {"device": None, "grid": None})),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", bytes="many", **good),
        event("gpu_memset", "Memset (Device)", bytes="64", **good),
        event("kernel", "endless", duration="long", **good),
        event("kernel", "backwards", duration=-4, **good),
        event("cpu_op", "aten::mm", **{"External id": "mine", "Sequence number": 3}),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 9,
         "args": {"Bytes": "few", "Device Type": 1, "Device Id": 0, "Addr": 1, "Reason": "test"}},
    ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    with ws.open(path) as trace:
        found = trace.sql(
            'SELECT "table", row, key, value FROM attribute WHERE "table" <> \'trace\''
        ).fetchall()
        assert sorted(found) == [
            ("kernel", 1, "correlation", "6.5"),
            ("kernel", 1, "device", '"zero"'),
            ("kernel", 1, "grid", "[1, 1]"),
            ("kernel", 1, "stream", '"default"'),
            ("memcpy", 0, "bytes", '"many"'),
            ("memory", 0, "Bytes", '"few"'),
            ("memory", 0, "Reason", '"test"'),
            ("op", 0, "External id", '"mine"'),
        ]
        assert one(trace, "SELECT bytes FROM memset") == (64,)
        lost = trace.sql("SELECT count, cause FROM loss WHERE severity = 'lost'").fetchall()
        assert lost == [
            (1, "unreadable durations, set to 0"),
            (1, "negative durations, set to 0"),
        ]


def test_a_message_has_its_other_rank(tmp_path):
    arguments = {
        "In msg nelems": 64,
        "Out msg nelems": 64,
        "dtype": "Float",
        "Group size": 4,
        "Src Rank": 2,
        "Dst Rank": 3,
    }
    names = {1: "send", 2: "recv", 3: "allreduce"}
    events = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 20, "ts": 10 * number, "dur": 5,
         "args": {"device": 0, "stream": 20, "correlation": number, "Collective name": name, **arguments}}
        for number, name in names.items()
    ]  # fmt: skip
    path = tmp_path / "messages.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    with ws.open(path) as trace:
        peers = trace.sql("SELECT correlation, peer FROM collective ORDER BY correlation").fetchall()
    assert peers == [(1, 3), (2, 2), (3, None)]


def test_device_work_of_a_file_put_together_from_several_ranks_is_its_launchers(tmp_path):
    """Kernels name no process; of ranks with equal correlations nobody knows whose they are."""
    events = []
    for rank in range(3):
        for turn in range(2):
            number = 100 * rank + turn + 1
            at = {"ts": 10.0 * turn + rank, "dur": 5.0, "ph": "X"}
            events += [
                {**at, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 40 + rank, "tid": 40 + rank,
                 "args": {"correlation": number if turn else 7}},
                {**at, "cat": "kernel", "name": "gemm", "pid": rank, "tid": 7,
                 "args": {"correlation": number if turn else 7, "device": rank, "stream": 7}},
            ]  # fmt: skip
    path = tmp_path / "merged.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with ws.open(path) as opened:
        rows = opened.sql(
            "SELECT p.pid, k.correlation FROM kernel k JOIN process p USING (process) ORDER BY 2"
        ).fetchall()
    assert rows == [(40, 2), (40, 7), (40, 7), (40, 7), (41, 102), (42, 202)]
