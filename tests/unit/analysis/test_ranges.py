"""Which range a launch is in, against a search through all ranges for every launch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.ranges import open as ranges
from warpsight.analysis.stats.sums import stats


def marker(start, duration, name_id, thread=100, kind="push/pop", **more):
    return {"start": start, "duration": duration, "kind": kind, "open": duration is None, "name_id": name_id,
            "thread": thread, "source": "nvtx", "process": 0, **more}  # fmt: skip


@given(st.lists(st.integers(0, 9), max_size=60))
def test_containing_is_the_nearest_earlier_that_ends_no_earlier(ends):
    found = ranges.containing(np.array(ends, np.int64)).tolist()
    for i, end in enumerate(ends):
        assert found[i] == max((j for j in range(i) if ends[j] >= end), default=-1)


@pytest.mark.parametrize("seed", range(25))
def test_the_innermost_range_is_that_of_a_search_through_all(build, seed):
    """Nested, crossing, empty, never closed, and begun on another thread."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(int(rng.integers(0, 14))):
        duration = None if rng.random() < 0.1 else int(rng.integers(0, 25))
        rows.append(marker(EPOCH + int(rng.integers(0, 40)), duration, i + 1, int(rng.choice([100, 101])),
                           str(rng.choice(["push/pop", "start/end"]))))  # fmt: skip
    rows.append(marker(EPOCH, 50, 99, kind="instant"))
    found = ranges.load(build(names=tuple(f"range {i}" for i in range(100)), marker=rows))

    def expected(thread, t):
        order = sorted(
            rows[:-1], key=lambda r: (r["start"], -(1 << 62 if r["duration"] is None else r["duration"]))
        )
        open_ = [
            r for r in order if r["start"] <= t and (r["duration"] is None or t < r["start"] + r["duration"])
        ]
        own = [r for r in open_ if r["thread"] == thread]
        other = [r for r in open_ if r["kind"] == "start/end"]
        last = (own or other or [None])[-1]
        return last and (last["start"], last["duration"])

    for thread in (100, 101, 102):
        times = np.arange(EPOCH - 2, EPOCH + 70)
        at = found.at(np.zeros(72, np.int32), np.full(72, thread, np.int32), times).tolist()
        for t, place in zip(times.tolist(), at, strict=True):
            row = None
            if place >= 0:
                start, end = int(found.start[place]), int(found.end[place])
                row = (start, None if end == np.iinfo(np.int64).max else end - start)
            assert row == expected(thread, t)


@pytest.fixture
def trace(build):
    """outer [0, 100) holds inner [20, 50) on thread 100; thread 101 has no range of its own but request [0, 90)."""
    names = ("a", "b", "outer", "inner", "request")
    markers = [marker(0, 100, 3), marker(20, 30, 4), marker(0, 90, 5, thread=7, kind="start/end")]
    calls = [(10, 100), (20, 100), (49, 100), (50, 100), (60, 101), (95, 101)]
    launches = [launch(t, 1, i, thread=thread) for i, (t, thread) in enumerate(calls)]
    kernels = [kernel(200 + 10 * i, 5 + i, 1 + i % 2, correlation=i) for i in range(6)]
    api = [
        {
            "start": 30,
            "duration": 2,
            "function": "cudaMemcpyAsync",
            "thread": 100,
            "correlation": 6,
            "process": 0,
        }
    ]
    return build(names=names, marker=markers, launch=launches, kernel=[*kernels, kernel(400, 9, 1)],
                 memcpy=[copy(300, 40, correlation=6)], api=api)  # fmt: skip


def test_ranges_sum_up_what_was_launched_in_them_and_in_those_inside(trace):
    result = ranges.ranges(trace)
    rows = {r.pop("name"): r for r in result.tables["ranges"].to_pylist()}
    # inner: kernels 1 and 2 (6 + 7 ns, from 210) and the copy (40 ns, until 340); outer: kernels 0 and 3 beside them
    assert rows == {
        "outer": {
            "instances": 1,
            "host": 100,
            "work": 5,
            "own": 5 + 8,
            "total": 5 + 8 + 53,
            "span": 340 - 200,
        },
        "inner": {"instances": 1, "host": 30, "work": 3, "own": 53, "total": 53, "span": 340 - 210},
        "request": {"instances": 1, "host": 90, "work": 1, "own": 9, "total": 9, "span": 9},
    }
    assert [f.values for f in result.findings] == [{"rows": 2, "of": 8}]


def test_statistics_by_range_count_every_kernel_once(trace):
    rows = {
        r["range"]: (r["count"], r["total"]) for r in stats(trace, by="range").tables["kernels"].to_pylist()
    }
    assert rows == {"outer": (2, 13), "inner": (2, 13), "request": (1, 9), "(no range)": (1, 10),
                    "(no launch call)": (1, 9)}  # fmt: skip


def test_statistics_by_operator(build):
    ops = [{"start": 0, "duration": 50, "name_id": 2, "thread": 100, "process": 0}]
    trace = build(names=("k", "aten::mm"), op=ops, launch=[launch(5, 2, 1), launch(60, 2, 2)],
                  kernel=[kernel(10, 4, correlation=1), kernel(70, 6, correlation=2)])  # fmt: skip
    rows = stats(trace, by="op").tables["kernels"].to_pylist()
    assert {r["op"]: r["total"] for r in rows} == {"aten::mm": 4, "(no op)": 6}
    result = ranges.ranges(trace)
    assert [(r["name"], r["own"]) for r in result.tables["ranges"].to_pylist()] == [("aten::mm", 4)]
    assert "operators" in result.findings[0].text
