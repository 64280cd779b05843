import numpy as np
import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.analysis.base import distribution
from warpsight.analysis.stats.sums import BY, stats
from warpsight.errors import UsageError
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows, begin_of


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = make(tmp_path_factory.mktemp("stats") / "t.warp", Plan(kernels=5_000, processes=2))
    with open_trace(path) as opened:
        yield opened


def brute(durations):
    d = np.array(durations)
    return {
        "count": len(d),
        "total": d.sum(),
        "mean": d.mean(),
        "min": d.min(),
        "median": np.median(d),
        "max": d.max(),
        "p95": np.percentile(d, 95),
        "p99": np.percentile(d, 99),
        "std": d.std(),
    }


def same(row, durations):
    expected = brute(durations)
    assert {k: row[k] for k in expected} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, rel=1e-9
    )


def test_kernels_by_name_equal_numpy(trace):
    rows = trace.sql("SELECT demangled, duration FROM kernel").fetchall()
    result = stats(trace).tables["kernels"].to_pylist()
    assert {r["name"] for r in result} == {name for name, _ in rows}
    for row in result:
        same(row, [d for name, d in rows if name == row["name"]])
    assert sum(r["share"] for r in result) == pytest.approx(100)
    assert [r["total"] for r in result] == sorted((r["total"] for r in result), reverse=True)


@pytest.mark.parametrize("by", BY)
def test_every_grouping_counts_every_kernel_once(trace, by):
    table = stats(trace, by=by).tables["kernels"]
    assert sum(table["count"].to_pylist()) == 10_000


def test_names_that_are_one_when_short_are_one_group(trace):
    short = stats(trace, names="short").tables["kernels"].to_pylist()
    for row in short:
        same(
            row,
            [
                d
                for (d,) in trace.sql(
                    "SELECT duration FROM kernel WHERE short = $n", n=row["name"]
                ).fetchall()
            ],
        )


def test_mangled_names_are_those_of_the_binary(trace):
    found = [row["name"] for row in stats(trace, names="mangled").tables["kernels"].to_pylist()]
    assert set(found) == {name for (name,) in trace.sql("SELECT DISTINCT name FROM kernel").fetchall()}
    assert any(name.startswith("_Z") for name in found)


def test_filters_select_what_sql_selects(trace):
    begin = begin_of(trace) + 12_000_000
    rows = Rows(begin, begin + 5_000_000, (0,), (7,), (1,), "vectorized|flash")
    expected = trace.sql(f"""SELECT count(*) FROM kernel WHERE start >= {begin} AND start < {begin + 5_000_000}
        AND device = 0 AND stream = 7 AND process = 1 AND regexp_matches(demangled, 'vectorized|flash')""").fetchall()[
        0
    ][0]
    assert expected > 0
    assert sum(stats(trace, rows=rows).tables["kernels"]["count"].to_pylist()) == expected


def test_latency_is_from_the_begin_of_the_call_to_the_begin_of_the_kernel(trace):
    row = stats(trace, latency=True).tables["kernels"].to_pylist()[0]
    waits = trace.sql(
        """SELECT k.start - l.start, l.duration FROM kernel k JOIN launch l USING (process, correlation)
        WHERE k.demangled = $n""",
        n=row["name"],
    ).fetchall()
    assert row["latency_mean"] == pytest.approx(np.mean([w for w, _ in waits]))
    assert row["latency_median"] == pytest.approx(np.median([w for w, _ in waits]))
    assert row["call_mean"] == pytest.approx(np.mean([c for _, c in waits]))


def test_copies_tell_bytes_and_bandwidth(trace):
    for row in stats(trace, "copies").tables["copies"].to_pylist():
        kind = row["kind"].split()[0]
        size, time = trace.sql(
            "SELECT sum(bytes)::BIGINT, sum(duration)::BIGINT FROM memcpy WHERE kind = $k", k=kind
        ).fetchall()[0]
        assert (row["bytes"], row["total"]) == (size, time)
        assert row["bandwidth"] == pytest.approx(size / time * 1e9)


def test_failed_calls_are_a_finding(trace):
    result = stats(trace, "api")
    assert {r["function"]: r["failed"] for r in result.tables["api"].to_pylist()}["cudaMemcpyAsync"] == 10
    assert result.findings[0].values == {"function": "cudaMemcpyAsync", "result": 1, "count": 10}


def test_memory_peak_and_what_was_never_freed(trace):
    for row in stats(trace, "memory").tables["memory"].to_pylist():
        assert (row["peak"], row["at_end"], row["allocations"], row["frees"]) == (
            250 << 20,
            50 << 20,
            250,
            200,
        )


def test_samples_that_are_not_a_number_are_counted_and_nothing_else(tmp_path):
    values = {"power": [70.0, float("nan"), 90.0, float("nan")], "broken": [float("nan")]}
    with TraceWriter(tmp_path / "t.warp") as writer:
        for name, samples in values.items():
            rows = [
                {"time": i, "name": name, "value": v, "unit": "W", "source": "nvml"}
                for i, v in enumerate(samples)
            ]
            writer.add("counter", rows)
    with open_trace(tmp_path / "t.warp") as trace:
        result = stats(trace, "counters")
    broken, power = result.tables["counters"].to_pylist()
    assert (power["samples"], power["nan"], power["min"], power["mean"], power["max"], power["last"]) == (
        2,
        2,
        70,
        80,
        90,
        90,
    )
    assert (broken["samples"], broken["nan"], broken["mean"], broken["last"]) == (0, 1, None, None)
    assert [(f.severity, f.values) for f in result.findings] == [("note", {"samples": 3})]


def test_kernels_that_never_finished_are_told_and_not_counted(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        row = {"name_id": writer.name("k"), "context": 1, "stream": 7, "process": 0, "graph_level": False}
        writer.add("kernel", [{**row, "start": 10, "duration": 5}, row, row])
    with open_trace(tmp_path / "t.warp") as trace:
        result = stats(trace)
    assert result.tables["kernels"]["count"].to_pylist() == [1]
    assert result.findings[0].severity == "loss"
    assert result.findings[0].values == {"kernels": 2}


@pytest.mark.parametrize(
    "subject", ["kernels", "copies", "api", "launches", "nvtx", "events", "memory", "counters", "sync"]
)
def test_an_empty_trace_gives_empty_tables(tmp_path, subject):
    TraceWriter(tmp_path / "t.warp").close()
    with open_trace(tmp_path / "t.warp") as trace:
        assert len(stats(trace, subject).tables[subject]) == 0


def test_unknown_subjects_and_groupings_are_refused(trace):
    with pytest.raises(UsageError, match="did you mean kernels"):
        stats(trace, "kernel")
    with pytest.raises(UsageError, match="name, shape"):
        stats(trace, by="colour")
    with pytest.raises(UsageError, match="there is no form of names 'long'"):
        stats(trace, names="long")
    with pytest.raises(UsageError, match="latency is about kernels only"):
        stats(trace, "copies", latency=True)


def test_durations_of_days_do_not_overflow_the_packed_key():
    ids, durations = np.array([1 << 30, 3, 3]), np.array([1 << 50, 7, 9])
    found, histogram = distribution._count_wide(ids, durations)
    summary = distribution.summarize(histogram)
    assert found.tolist() == [3, 1 << 30]
    assert summary["max"].tolist() == [9, 1 << 50]
    assert summary["median"].tolist() == [8.0, float(1 << 50)]
