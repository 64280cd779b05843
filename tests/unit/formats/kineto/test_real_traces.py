"""Two real files, read independently: by the json module, with exact decimals, event by event."""

import collections
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

import warpsight as ws
from warpsight.formats.importing import import_files

DATA = os.environ.get("WARPSIGHT_TEST_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="WARPSIGHT_TEST_DATA does not name a folder of real traces")
FILES = {"h100": "kineto_h100_qwen.json.gz", "mi300": "kineto_mi300_qwen.json.gz"}


@pytest.fixture(scope="module", params=FILES)
def real(request, tmp_path_factory):
    path = Path(DATA) / FILES[request.param]
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    out = tmp_path_factory.mktemp("kineto") / "t.warp"
    made = import_files([path], out)
    with ws.open(out) as trace:
        yield request.param, events, trace, made


def of(events, *categories):
    return [e for e in events if e.get("cat") in categories and e["ph"] == "X"]


def ns(value):
    scaled = value * 1000
    assert scaled == int(scaled)
    return int(scaled)


def counted(rows):
    return collections.Counter(rows)


def test_kernels_are_those_of_the_file(real):
    _, events, trace, _ = real
    expected = counted(
        (
            e["name"],
            ns(e["ts"]),
            ns(e["dur"]),
            e["args"]["stream"],
            e["args"]["correlation"],
            e["args"]["device"],
        )
        for e in of(events, "kernel")
    )
    found = trace.sql(
        'SELECT kernel.name, start, duration, stream, correlation, d."index" FROM kernel JOIN device d USING (device)'
    ).fetchall()
    assert counted(found) == expected
    assert sum(row[2] for row in found) == sum(ns(e["dur"]) for e in of(events, "kernel"))


def test_launch_shapes_are_those_of_the_file(real):
    _, events, trace, _ = real
    expected = counted(
        (*e["args"]["grid"], *e["args"]["block"], e["args"].get("registers per thread", 0), e["args"].get("shared memory", 0))
        for e in of(events, "kernel") if "grid" in e["args"]
    )  # fmt: skip
    found = trace.sql("""SELECT grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, shared_dynamic
                         FROM kernel WHERE shape_id IS NOT NULL""").fetchall()
    assert counted(found) == expected


def test_calls_are_launches_or_others_with_their_threads(real):
    _, events, trace, _ = real
    expected = counted(
        (e["name"], ns(e["ts"]), ns(e["dur"]), e["tid"], e["args"]["correlation"])
        for e in of(events, "cuda_runtime", "cuda_driver")
    )
    columns = "function, start, duration, thread, correlation"
    launches = trace.sql(f"SELECT {columns} FROM launch").fetchall()
    assert counted(launches + trace.sql(f"SELECT {columns} FROM api").fetchall()) == expected
    assert {row[0] for row in launches} == {
        e["name"] for e in of(events, "cuda_runtime", "cuda_driver") if "Launch" in e["name"]
    }


def test_every_kernel_of_the_window_joins_its_launch(real):
    _, events, trace, _ = real
    calls = {
        e["args"]["correlation"] for e in of(events, "cuda_runtime", "cuda_driver") if "Launch" in e["name"]
    }
    expected = sum(e["args"]["correlation"] in calls for e in of(events, "kernel"))
    joined = trace.sql("SELECT count(*) FROM kernel JOIN launch USING (process, correlation)").fetchall()
    assert joined == [(expected,)]


def test_operators_have_shapes_and_all_other_arguments(real):
    _, events, trace, _ = real
    own = {"External id", "Record function id", "Ev Idx", "Input Dims", "Sequence number", "finished"}
    expected = {
        e["args"]["External id"]: (
            e["name"], ns(e["ts"]), ns(e["dur"]), e["args"].get("Sequence number"), e["args"].get("Input Dims"),
            {k: v for k, v in e["args"].items() if k not in own},
        )
        for e in of(events, "cpu_op")
    }  # fmt: skip
    rows = trace.sql(
        "SELECT correlation, name, start, duration, sequence, shapes, attributes FROM op"
    ).fetchall()
    found = {
        r[0]: (*r[1:5], None if r[5] is None else json.loads(r[5]), {} if r[6] is None else json.loads(r[6]))
        for r in rows
    }
    assert found == expected


def python_stack(functions, thread, moment):
    """Frames of the functions of a thread that contain a moment, outermost first."""
    return [
        f["name"] for f in functions if f["tid"] == thread and ns(f["ts"]) <= moment < ns(f["ts"]) + ns(f["dur"])
    ]  # fmt: skip


def frame(name):
    head, bracket, function = name.partition("): ")
    return f"{function} ({head.replace('(', ':')})" if bracket else name


@pytest.mark.parametrize("table", ["op", "launch"])
def test_stacks_are_the_python_functions_around_each_moment(real, table):
    _, events, trace, _ = real
    functions = sorted(of(events, "python_function"), key=lambda f: (f["ts"], -f["dur"]))
    rows = trace.sql(f"SELECT thread, start, stack FROM {table} ORDER BY start").fetchall()[::37]
    texts = trace.stacks([row[2] for row in rows if row[2]])
    for thread, start, stack in rows:
        expected = tuple(frame(name) for name in python_stack(functions, thread, start))
        assert texts.get(stack, ()) == expected
    assert any(len(frames) > 10 for frames in texts.values())


def test_a_kernel_has_the_stack_of_its_launch(real):
    _, _, trace, _ = real
    different, with_stack = (
        trace.sql("""SELECT count(*) FILTER (k.stack IS DISTINCT FROM l.stack), count(k.stack)
        FROM kernel k JOIN launch l USING (process, correlation)""").fetchall()[0]
    )
    assert different == 0
    assert with_stack > 1000


def test_memory_events_are_those_of_the_file(real):
    _, events, trace, _ = real
    expected = counted(
        (ns(e["ts"]), e["args"]["Bytes"], e["args"]["Addr"], e["args"]["Total Reserved"], e["args"]["Total Allocated"])
        for e in events if e["name"] == "[memory]"
    )  # fmt: skip
    found = trace.sql("""SELECT time, CASE operation WHEN 'free' THEN -bytes ELSE bytes END, address, pool_size, pool_used
                         FROM memory""").fetchall()
    assert counted(found) == expected


def test_nothing_else_is_left_out(real):
    """What is not a row of its own is metadata, or an arrow that repeats the correlation."""
    _, events, _, made = real
    elsewhere = sum(e["ph"] == "M" or e.get("cat") == "ac2g" for e in events)
    rows = sum(
        made.rows.get(t, 0) for t in ("kernel", "memcpy", "memset", "launch", "api", "op", "marker", "memory")
    )
    assert rows == len(events) - elsewhere
    assert [loss for loss in made.losses if loss["severity"] != "note"] == []


def test_steps_and_python_functions_are_ranges(real):
    _, events, trace, _ = real
    expected = counted(
        (e["name"], ns(e["ts"]), ns(e["dur"]))
        for e in of(events, "user_annotation", "gpu_user_annotation", "python_function")
    )
    found = trace.sql("""SELECT name, start, duration FROM marker
        WHERE category IN ('user_annotation', 'gpu_user_annotation', 'python_function')""").fetchall()
    assert counted(found) == expected


def test_devices_process_and_clock(real):
    form, events, trace, _ = real
    pid = of(events, "cpu_op")[0]["pid"]
    assert trace.sql("SELECT pid, command FROM process").fetchall() == [(pid, "python3")]
    device = trace.sql(
        "SELECT name, vendor, multiprocessors, warp_size, memory_bytes > 80e9 FROM device"
    ).fetchall()
    expected = {
        "h100": ("NVIDIA H100 80GB HBM3", "NVIDIA", 132, 32, True),
        "mi300": ("AMD Instinct MI300X VF", "AMD", 304, 64, True),
    }
    # On ROCm kernels name device 2, properties and memory events device 0 of those visible: both are described.
    assert device == [expected[form]] * (2 if form == "mi300" else 1)
    assert trace.sql("SELECT realtime FROM clock").fetchall()[0][0] == trace.manifest["source"]["base_ns"]


def test_secrets_in_the_metadata_stay_in_the_file(real):
    _, _, trace, made = real
    kept = " ".join(r[0] for r in trace.sql("SELECT value FROM attribute").fetchall())
    assert "torch_profiler_kwargs" in kept
    assert "TOKEN" not in kept and '"env"' not in kept
    assert any("environment variables" in loss["cause"] for loss in made.losses)
