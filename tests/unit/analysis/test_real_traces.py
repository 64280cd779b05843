"""Analyses of real traces against numbers computed from the files themselves, past our reader and our tables."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.analysis.account.classes import CLASSES, IDLE
from warpsight.analysis.account.questions import gaps, spans
from warpsight.analysis.stats.copies import copies
from warpsight.analysis.stats.kernels import kernel_times
from warpsight.analysis.stats.launches import launch_latency, queue_depth
from warpsight.analysis.stats.states import STATES, states
from warpsight.analysis.stats.utilization import breakdown, concurrency, utilization
from warpsight.formats.importing import open_any
from warpsight.model import StoredTrace
from warpsight.model.selection import Rows

DATA = Path(os.environ.get("WARPSIGHT_TEST_DATA", ""))
pytestmark = pytest.mark.skipif(
    "WARPSIGHT_TEST_DATA" not in os.environ,
    reason="WARPSIGHT_TEST_DATA does not name a folder with real traces",
)
KINETO = ("kineto_h100_qwen.json.gz", "kineto_mi300_qwen.json.gz")
NSYS = "nsys_h100_2gpu_1s.sqlite"
ROCPROF = "rocprofv3_results.json.gz"


@pytest.fixture(scope="module")
def traces() -> Iterator[dict[str, StoredTrace]]:
    opened = {name: open_any(DATA / name) for name in (*KINETO, NSYS, ROCPROF)}
    yield opened
    for trace in opened.values():
        trace.close()


def ns(microseconds: Any) -> int:
    return int(Decimal(str(microseconds)) * 1000)


def kineto(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as file:
        return json.load(file, parse_float=Decimal)["traceEvents"]


def device_rows(name: str) -> dict[int, list[tuple[int, int]]]:
    """Begin and end of all device work by device, from the file itself."""
    found = defaultdict(list)
    if name in KINETO:
        for event in kineto(name):
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                begin = ns(event["ts"])
                found[int(event["args"]["device"])].append((begin, begin + ns(event["dur"])))
    else:
        database = sqlite3.connect(f"file:{DATA / NSYS}?mode=ro", uri=True)
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            for device, begin, end in database.execute(
                f"SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_{table}"
            ):
                found[device].append((begin, end))
    return found


def merged(rows: list[tuple[int, int]]) -> int:
    """Length of the union, one row after the other."""
    total, reach = 0, -(1 << 62)
    for begin, end in sorted(rows):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total


@pytest.mark.parametrize("name", [*KINETO, NSYS])
def test_busy_time_is_that_of_the_file(traces: dict[str, StoredTrace], name: str) -> None:
    rows = device_rows(name)
    window = max(e for r in rows.values() for _, e in r) - min(b for r in rows.values() for b, _ in r)
    found = utilization(traces[name]).tables["devices"].to_pylist()
    assert [row["busy"] for row in found] == [merged(rows[device]) for device in sorted(rows)]
    assert {row["window"] for row in found} == {window}
    depths = concurrency(traces[name]).tables["devices"].to_pylist()
    for row, device in zip(depths, sorted(rows), strict=True):
        assert row["busy"] * row["mean_depth"] == pytest.approx(sum(e - b for b, e in rows[device]))


@pytest.mark.parametrize("name", [*KINETO, NSYS, ROCPROF])
def test_account_gaps_states_and_breakdown_share_the_same_time_out(
    traces: dict[str, StoredTrace], name: str
) -> None:
    devices = {r["device"]: r for r in utilization(traces[name]).tables["devices"].to_pylist()}
    idle: dict[int, int] = defaultdict(int)
    for gap in gaps(traces[name]).tables["gaps"].to_pylist():
        idle[gap["device"]] += gap["duration"]
    for row in spans(traces[name]).tables["devices"].to_pylist():
        assert sum(row[one] for one in CLASSES) == row["span"]
        assert sum(row[CLASSES[kind]] for kind in IDLE) == idle[row["device"]]
        assert row["compute"] + row["communication"] + row["copy"] == devices[row["device"]]["busy"]
    for row in states(traces[name]).tables["streams"].to_pylist():
        assert sum(row[state] for state in STATES) == row["window"]
    parts = breakdown(traces[name], windows=17).tables["breakdown"].to_pylist()
    for device, row in devices.items():
        own = [p for p in parts if p["device"] == device]
        assert sum(p["idle"] for p in own) == row["idle"]
        assert sum(p["compute"] + p["communication"] + p["copy"] for p in own) == row["busy"]


@pytest.mark.parametrize("name", KINETO)
def test_kernel_times_and_latency_are_those_of_the_file(traces: dict[str, StoredTrace], name: str) -> None:
    events = kineto(name)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    table = kernel_times(traces[name], Rows()).tables["kernel-times"].to_pylist()
    assert sum(r["count"] for r in table) == len(kernels)
    assert sum(r["total"] for r in table) == sum(ns(e["dur"]) for e in kernels)
    slowest = max(kernels, key=lambda e: e["dur"])
    assert max(r["max"] for r in table) == ns(slowest["dur"])
    calls = {
        e["args"].get("correlation"): e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    waits = [
        ns(k["ts"]) - ns(calls[k["args"]["correlation"]]["ts"])
        for k in kernels
        if k["args"]["correlation"] in calls
    ]
    (row,) = [r for r in launch_latency(traces[name]).tables["latency"].to_pylist() if r["part"] == "latency"]
    assert row["count"] == len(waits)
    assert row["mean"] == pytest.approx(np.mean(waits))
    assert row["p99"] == pytest.approx(np.percentile(waits, 99))


def test_copies_and_streams_are_those_of_the_file(traces: dict[str, StoredTrace]) -> None:
    database = sqlite3.connect(f"file:{DATA / NSYS}?mode=ro", uri=True)
    sums = database.execute(
        """SELECT deviceId, copyKind, srcKind, dstKind, count(*), sum(bytes), sum(end - start)
        FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1, 2, 3, 4"""
    ).fetchall()
    found = copies(traces[NSYS]).tables["copies"].to_pylist()
    assert sorted((r["device"], r["count"], r["bytes"], r["time"]) for r in found) == sorted(
        (s[0], *s[4:]) for s in sums
    )
    for row in found:
        assert row["bandwidth"] == pytest.approx(row["bytes"] / row["time"] * 1e9)
    by_stream = defaultdict(list)
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        sql = f"SELECT deviceId, globalPid, contextId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_{table}"
        for *key, begin, end in database.execute(sql):
            by_stream[tuple(key)].append((begin, end))
    rows = utilization(traces[NSYS]).tables["streams"].to_pylist()
    assert sorted(r["busy"] for r in rows) == sorted(merged(own) for own in by_stream.values())


def test_waiting_work_is_that_of_the_file(traces: dict[str, StoredTrace]) -> None:
    """The device's queue at its deepest: every launched kernel, copy or set that has not begun."""
    events = kineto(KINETO[0])
    called = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    calls = {e["args"].get("correlation"): ns(e["ts"]) for e in called}
    begin = min(ns(e["ts"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    changes = []
    for event in events:
        if (
            event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
            and event["args"].get("correlation") in calls
        ):
            asked, began = max(calls[event["args"]["correlation"]], begin), ns(event["ts"])
            changes += [(asked, 1), (began, -1)] if asked < began else []
    depth, deepest = 0, 0
    for _, change in sorted(changes):
        depth += change
        deepest = max(deepest, depth)
    (row,) = queue_depth(traces[KINETO[0]]).tables["streams"].to_pylist()
    assert row["deepest"] == deepest
