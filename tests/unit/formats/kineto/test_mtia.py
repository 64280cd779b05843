"""What MTIA's control processor did, in the fields that its traces have."""

import warpsight as ws
from tests.unit.formats import kineto_file


def ccp(name, start, length, tid=801, **args):
    return kineto_file.event("mtia_ccp_events", name, start, length, 17, tid, **args)


def test_waits_and_copies_are_no_kernels(tmp_path):
    events = [
        ccp("mm.kernel", 10, 7, stream=101, correlation=91, column="0"),
        ccp("dma_request", 20, 5, stream=105, direction="DEVICE_TO_HOST", size=1024, sqid=8),
        ccp("dma_request", 30, 5, direction="HOST_TO_DEVICE", size=64, sqid=1),
        ccp("dma_request", 33, 5),
        ccp("event_record", 40, 1, stream=104, seq_num=55, sqid=8),
        ccp("event_wait", 35, 6, stream=108, wait_on_stream=104, seq_num=55, sqid=11),
    ]
    with ws.open(kineto_file.write(tmp_path / "trace.json", events)) as trace:
        assert trace.sql("SELECT name, start, stream, device FROM kernel").fetchall() == [
            ("mm.kernel", 10_000, 101, 17)
        ]
        copies = "SELECT kind, source_kind, destination_kind, bytes, stream FROM memcpy ORDER BY start"
        assert trace.sql(copies).fetchall() == [
            ("DtoH", "device", "unknown", 1024, 105), ("HtoD", "unknown", "device", 64, 801),
            ("unknown", "unknown", "unknown", 0, 801),
        ]  # fmt: skip
        assert trace.sql("SELECT DISTINCT asynchronous FROM memcpy").fetchall() == [(True,)]
        assert trace.sql("SELECT kind, event, start, duration, stream FROM sync").fetchall() == [
            ("stream wait event", 55, 35_000, 6_000, 108)
        ]
        assert trace.sql("SELECT event, time, stream FROM event").fetchall() == [(55, 40_000, 104)]
        kept = 'SELECT "table", "row", key, value FROM attribute ORDER BY ALL'
        assert trace.sql(kept).fetchall() == [
            ("event", 0, "sqid", "8"), ("kernel", 0, "column", '"0"'), ("memcpy", 0, "sqid", "8"),
            ("memcpy", 1, "sqid", "1"), ("sync", 0, "sqid", "11"),
        ]  # fmt: skip
