"""Utilization, concurrency, overlap and breakdown against a count of every single nanosecond."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.stats.overlap import overlap
from warpsight.analysis.stats.utilization import breakdown, concurrency, utilization
from warpsight.model.selection import Rows

SPAN = 6_000
COMMUNICATION = 3  # name id of the all-reduce


def marks(rows, device, kinds, *, process=None, stream=None):
    """How many rows run at each nanosecond after EPOCH."""
    depth = np.zeros(SPAN, np.int64)
    for table, kind in (("kernel", None), ("memcpy", "copy"), ("memset", "set")):
        for row in rows[table]:
            own = kind or ("communication" if row["name_id"] == COMMUNICATION else "kernel")
            if row["start"] is None or own not in kinds or row["device"] != device:
                continue
            if (process, stream) != (None, None) and (row["process"], row["stream"]) != (process, stream):
                continue
            depth[row["start"] - EPOCH : row["start"] - EPOCH + row["duration"]] += 1
    return depth


ALL = ("kernel", "communication", "copy", "set")


def extent(rows):
    timed = [r for t in ("kernel", "memcpy", "memset") for r in rows[t] if r["start"] is not None]
    return min(r["start"] for r in timed) - EPOCH, max(r["start"] + r["duration"] for r in timed) - EPOCH


def test_busy_time_is_a_union_per_device_stream_and_kind(messy):
    trace, rows = messy
    begin, end = extent(rows)
    tables = utilization(trace).tables
    devices = tables["devices"].to_pylist()
    assert [d["device"] for d in devices] == [0, 1]
    for row in devices:
        busy = int((marks(rows, row["device"], ALL) > 0).sum())
        assert (row["busy"], row["window"], row["idle"]) == (busy, end - begin, end - begin - busy)
        assert row["utilization"] == pytest.approx(busy / (end - begin))
    assert len(tables["kinds"]) == 8
    for row in tables["kinds"].to_pylist():
        assert row["busy"] == int((marks(rows, row["device"], (row["kind"],)) > 0).sum())
    streams = tables["streams"].to_pylist()
    assert len(streams) == 8  # 2 processes × 2 devices × 2 stream numbers
    for row in streams:
        own = marks(rows, row["device"], ALL, process=row["process"], stream=row["stream"])
        assert row["busy"] == int((own > 0).sum())
        assert 0 <= row["utilization"] <= 1


def test_time_at_each_depth_adds_up_to_the_window(messy):
    trace, rows = messy
    begin, end = extent(rows)
    tables = concurrency(trace).tables
    table, devices = (tables[name].to_pylist() for name in ("concurrency", "devices"))
    for number in (0, 1):
        depth = marks(rows, number, ALL)[begin:end]
        busy = int((depth > 0).sum())
        assert (devices[number]["deepest"], devices[number]["busy"]) == (depth.max(), busy)
        assert devices[number]["mean_depth"] == pytest.approx(depth.sum() / busy)
        found = {r["depth"]: r["time"] for r in table if r["device"] == number}
        assert found == {d: int((depth == d).sum()) for d in {0, *depth.tolist()}}
        assert sum(found.values()) == end - begin


def test_overlap_hidden_and_exposed_times(messy):
    trace, rows = messy
    for row in overlap(trace).tables["overlap"].to_pylist():
        compute, talk = (marks(rows, row["device"], (k,)) > 0 for k in ("kernel", "communication"))
        moved = marks(rows, row["device"], ("copy", "set")) > 0
        own, *others = {"compute": (compute, talk, moved), "communication": (talk, compute, moved),
                        "copy": (moved, compute, talk)}[row["activity"]]  # fmt: skip
        hiding = talk | moved if row["activity"] == "compute" else compute
        assert row["time"] == own.sum()
        assert row["hidden"] == (own & hiding).sum()
        assert row["hidden_share"] == (row["hidden"] / row["time"] if row["time"] else None)
        assert row["exposed"] == (own & ~others[0] & ~others[1]).sum()
    for row in overlap(trace).tables["pairs"].to_pylist():
        both = [marks(rows, row["device"], {"compute": ("kernel",), "communication": ("communication",),
                                            "copy": ("copy", "set")}[row[k]]) > 0 for k in ("one", "other")]  # fmt: skip
        assert row["time"] == (both[0] & both[1]).sum()


@pytest.mark.parametrize("how", [{"windows": 7}, {"width": 1_000}])
def test_a_breakdown_shares_every_window_out(messy, how):
    trace, rows = messy
    table = breakdown(trace, **how).tables["breakdown"].to_pylist()
    for row in table:
        window = slice(row["begin"] - EPOCH, row["begin"] - EPOCH + row["width"])
        compute, talk = (marks(rows, row["device"], (k,))[window] > 0 for k in ("kernel", "communication"))
        moved = marks(rows, row["device"], ("copy", "set"))[window] > 0
        assert row["compute"] == compute.sum()
        assert row["communication"] == (talk & ~compute).sum()
        assert row["copy"] == (moved & ~talk & ~compute).sum()
        assert row["overlap"] == (compute & (talk | moved)).sum()
        assert row["compute"] + row["communication"] + row["copy"] + row["idle"] == row["width"]
    begin, end = extent(rows)
    assert sum(r["width"] for r in table if r["device"] == 0) == end - begin


def test_a_time_asked_for_cuts_what_reaches_into_it(messy):
    trace, rows = messy
    row = utilization(trace, Rows(EPOCH + 1_000, EPOCH + 1_500, devices=(1,))).tables["devices"].to_pylist()
    assert [(r["device"], r["window"]) for r in row] == [(1, 500)]
    assert row[0]["busy"] == int((marks(rows, 1, ALL)[1_000:1_500] > 0).sum())


def test_a_name_selects_kernels(messy):
    trace, rows = messy
    only = {**rows, "kernel": [k for k in rows["kernel"] if k["name_id"] == 1], "memcpy": [], "memset": []}
    found = utilization(trace, Rows(name="^gemm$")).tables["devices"].to_pylist()
    assert {r["device"]: r["busy"] for r in found} == {
        d: int((marks(only, d, ALL) > 0).sum()) for d in (0, 1)
    }


def test_kernels_that_never_ran_are_a_finding(messy):
    trace, _ = messy
    assert [f.values for f in utilization(trace).findings if f.severity == "loss"] == [{"kernels": 3}]
