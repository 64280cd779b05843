"""Streams and contexts of any number stay what the file calls them, and stay apart."""

import io

import pytest

from warpsight.analysis.path import dependencies
from warpsight.analysis.path.critical_path import critical_path
from warpsight.analysis.path.dot import write_dot
from warpsight.analysis.stats.stream_numbers import StreamNumbers
from warpsight.analysis.stats.sums import stats
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows

#: (context, stream): numbers that agree in their lowest 24 bits, do not fit 32 bits, or are negative.
STREAMS = [(-1, -1), (-1, 7), (1, -1), (1, 7), (1, 7 + (1 << 24)), (1, 7 + (1 << 40)), (1 << 24, 7)]


def kernel(start, duration, context, stream, correlation=None):
    return {
        "start": start, "duration": duration, "name_id": 1, "context": context, "stream": stream, "process": 0,
        "device": 0, "correlation": correlation, "graph_level": False,
    }  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("kernel", [kernel(100 * i, i + 1, *where, i + 1) for i, where in enumerate(STREAMS)])
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


def by_stream(trace, **options):
    rows = stats(trace, by="stream", **options).tables["kernels"].to_pylist()
    return {(row["process"], row["context"], row["stream"]): (row["count"], row["total"]) for row in rows}


@pytest.mark.parametrize("latency", [False, True])
def test_stats_by_stream_keep_every_number(trace, latency):
    expected = {(0, *where): (1, i + 1) for i, where in enumerate(STREAMS)}
    assert by_stream(trace, latency=latency) == expected


@pytest.mark.parametrize("latency", [False, True])
def test_stats_by_stream_keep_numbers_that_span_all_64_bits(tmp_path, latency):
    streams = [-(1 << 63), -1, 0, (1 << 63) - 1]
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("kernel", [kernel(i, i + 1, 1, stream, i + 1) for i, stream in enumerate(streams)])
        writer.add("kernel", [kernel(9, 5, 1, -1, 9)])
    with open_trace(tmp_path / "t.warp") as trace:
        assert by_stream(trace, latency=latency) == {
            (0, 1, streams[0]): (1, 1), (0, 1, -1): (2, 7), (0, 1, 0): (1, 3), (0, 1, streams[3]): (1, 4)
        }  # fmt: skip


@pytest.mark.parametrize("stream", [-1, 7 + (1 << 24), 7 + (1 << 40)])
def test_rows_of_one_stream_can_be_chosen(trace, stream):
    rows = stats(trace, rows=Rows(streams=(stream,)), by="stream").tables["kernels"].to_pylist()
    assert {row["stream"] for row in rows} == {stream}


def test_the_critical_path_and_its_picture_name_streams_in_full(trace):
    picture = io.StringIO()
    write_dot(trace, Rows(), picture)
    for stream in {stream for _, stream in STREAMS}:
        assert f"stream {stream}," in picture.getvalue()
        path = critical_path(trace, Rows(streams=(stream,))).tables["path"].to_pylist()
        assert {row["stream"] for row in path if row["name"] == "k"} == {stream}


def test_streams_that_agree_in_their_lowest_bits_do_not_wait_for_each_other(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("kernel", [kernel(0, 100, 1, 7), kernel(10, 100, 1, 7 + (1 << 24)),
                              kernel(100, 10, 1, 7)])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependencies.build(trace)
        assert [graph.queues[number].stream for number in graph.queue.tolist()] == [7, 7 + (1 << 24), 7]
        assert graph.parent.tolist() == [-1, -1, 0]


def test_a_wait_for_a_context_waits_for_the_streams_of_that_context_alone(tmp_path):
    call = {"function": "cudaDeviceSynchronize", "thread": 1, "process": 0}
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("kernel", [kernel(0, 100, 1 << 24, 7), kernel(0, 150, -1, 7)])
        writer.add("api", [{**call, "start": 10, "duration": 95, "correlation": 9}])
        writer.add("sync", [{"start": 10, "duration": 90, "kind": "context", "context": 1 << 24, "stream": -1,
                             "correlation": 9, "process": 0}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependencies.build(trace)
        assert graph.parent.tolist()[1] == 2  # the end of the call follows the kernel of context 2^24, node 0


def test_a_stream_that_does_not_fit_32_bits_takes_part_in_default_stream_order(tmp_path):
    wide = 1 << 40
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("context", [{"context": 1 << 24, "null_stream": 7, "api": "cuda", "process": 0}])
        writer.add("stream", [{"stream": wide, "context": 1 << 24, "flags": 1, "process": 0}])
        writer.add("kernel", [kernel(0, 100, 1 << 24, wide), kernel(100, 10, 1 << 24, 7)])
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependencies.build(trace)
        assert dependencies.EDGES[graph.cause[1]] == "default stream"
        assert graph.parent.tolist() == [-1, 0]


@pytest.mark.parametrize("far", [0, 1 << 40, (1 << 63) - 10])
def test_the_number_of_a_stream_leads_back_to_it(tmp_path, far):
    """Processes, contexts and streams that each have several values; with `far` they no longer fit one integer."""
    streams = [
        (process, context, stream)
        for process in (3, 4, 6)
        for context in (-2, 1)
        for stream in (7, 9, 7 + far)
    ]
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.name("k")
        writer.add("kernel", [{**kernel(i, 1, context, stream), "process": process}
                              for i, (process, context, stream) in enumerate(streams)])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        numbered = StreamNumbers.of(trace)
        sql = f"SELECT process, context, stream, {numbered.expression} FROM {numbered.source}"
        rows = trace.sql(sql).fetchall()
        numbers = [row[3] for row in rows]
        columns = numbered.columns(numbers)
    assert [row[:3] for row in rows] == list(zip(*columns.values(), strict=True))
    assert len(set(numbers)) == len(set(streams)) and min(numbers) >= 0
    assert sorted(row[:3] for row in rows) == sorted(streams)
