"""Stream ids are 64 bits wide; parts of before that, with 32, still open, alone and beside new ones."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.storage import store

WIDE = 7 + (1 << 40)
KERNEL = {"start": 5, "duration": 2, "context": 1, "stream": 7, "process": 0, "graph_level": False}


def narrow(file):
    """Rewrite a part as an older writer left it."""
    data = pq.read_table(file, partitioning=None)
    place = data.column_names.index("stream")
    data = data.set_column(place, "stream", data["stream"].cast(pa.int32()))
    assert data.schema.field("stream").type == pa.int32()
    pq.write_table(data, file)


@pytest.mark.parametrize(("streams", "old"), [((7, 9), (0, 1)), ((7, WIDE), (0,)), ((WIDE, 7), (1,))])
def test_parts_of_both_widths_read_as_one_column(tmp_path, streams, old):
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        for i, stream in enumerate(streams):
            writer.add("kernel", [{**KERNEL, "start": i, "stream": stream}])
        writer.add("stream", [{"stream": 7, "context": 1, "process": 0}])
        writer.add("context", [{"context": 1, "null_stream": 7, "api": "cuda", "process": 0}])
    parts = [*store.parts(path, "kernel")]
    for number in old:
        narrow(parts[number])
    narrow(next(store.parts(path, "stream")))
    with open_trace(path) as trace:
        assert trace.sql("SELECT stream, typeof(stream) FROM kernel ORDER BY start").fetchall() == [
            (stream, "BIGINT") for stream in streams
        ]
        joined = "SELECT k.stream FROM kernel_ids k JOIN stream s USING (process, context, stream)"
        assert set(trace.sql(joined).fetchall()) == {(s,) for s in streams if s == 7}
        assert trace.arrow("kernel")["stream"].to_pylist() == list(streams)
        assert trace.columns("kernel", {"stream": 0})[0]["stream"].tolist() == list(streams)
