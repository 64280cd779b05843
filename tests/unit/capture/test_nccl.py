"""Operations of NCCL as they are recorded: payload, types, groups, and what is not known."""

from __future__ import annotations

from tests.unit.capture.recordings import Recording

WORDS = (
    "AllGather",
    "AllReduce",
    "Send",
    "Weird",
    "Float16",
    "Float32",
    "Odd",
    "RING",
    "LL128",
    "tp",
    "Generic",
)
NUMBER = {word: 100 + place for place, word in enumerate(WORDS)}
UNKNOWN = (1 << 64) - 1


def test_an_operation_has_its_payload_types_group_and_call(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write_strings({number: word for word, number in NUMBER.items()})
    n = NUMBER
    columns = {
        "start": [10, 20, 30, 40, 50], "communicator": [0xAB, 0xAB, 0xAB, 0xCD, 0xAB], "sequence": [0, 7, UNKNOWN, 1, 2],
        "count": [6, 6, 6, 6, 6], "id": [1, 2, 3, 4, 5], "correlation": [0, 9, 0, 0, 0],
        "operation": [n["AllGather"], n["AllReduce"], n["Send"], 0, n["AllGather"]],
        "call": [0, n["AllReduce"], n["Generic"], n["Weird"], 0],
        "dtype": [n["Float16"], n["Float32"], n["Float16"], n["Odd"], n["Float16"]],
        "call_dtype": [0, n["Float16"], 0, 0, n["Odd"]],
        "algorithm": [n["RING"], 0, 0, 0, 0], "protocol": [n["LL128"], 0, 0, 0, 0], "name": [n["tp"], 0, n["tp"], 0, 0],
        "ranks": [4, 4, 4, -1, 0], "rank": [0, 1, -1, 2, 3], "peer": [-1, -1, 3, 0, -1], "root": [-1, 0, 5, -1, -1],
        "channels": [0, 8, 1, 0, 0],
    }  # fmt: skip
    with recording.file(arena) as out:
        out.write("Collective", columns)
    with recording.finish() as trace:
        rows = sorted(trace.arrow("collective").to_pylist(), key=lambda row: row["start"])

    def column(name: str) -> list[object]:
        return [row[name] for row in rows]

    assert column("operation") == ["all-gather", "all-reduce", "send", "unknown", "all-gather"]
    # An all-gather has four parts; neither an unknown type nor parts of an unknown number have a payload.
    assert column("bytes") == [6 * 2 * 4, 6 * 4, 6 * 2, None, None]
    assert column("dtype") == ["f16", "f16", "f16", "odd", "odd"]
    assert column("call") == [None, None, "several", "weird", None]
    assert column("group") == ["tp 0xab", "0xab", "tp 0xab", "0xcd", "0xab"]
    assert column("sequence") == [0, 7, None, 1, 2]
    assert column("correlation") == [None, 9, None, None, None]
    assert column("ranks") == [4, 4, 4, None, None]
    assert column("rank") == [0, 1, None, 2, 3]
    assert column("peer") == [None, None, 3, 0, None]
    assert column("root") == [None, 0, 5, None, None]
    assert (column("algorithm"), column("protocol")) == (["ring", *[None] * 4], ["ll128", *[None] * 4])
    assert column("channels") == [None, 8, 1, None, None]
    assert (column("id"), column("duration")) == ([1, 2, 3, 4, 5], [None] * 5)


def test_a_part_has_direction_step_and_waits_where_its_kind_has_them(recording: Recording) -> None:
    arena = recording.process(1)
    columns = {
        "start": [10, 20, 30, 40], "duration": [1, 2, 3, 4], "operation": [5, 0, 5, 5], "bytes": [0, 64, 128, 0],
        "wait_device": 7, "wait_peer": 8, "wait_network": 9, "kind": [1, 2, 3, 4], "channel": [0, 1, 2, 3],
        "peer": [-1, 0, 3, -1], "step": [-1, 4, 0, -1], "flags": [0, 1, 2, 3],
    }  # fmt: skip
    with recording.file(arena) as out:
        out.write("CollectivePart", columns)
    with recording.finish() as trace:
        rows = sorted(trace.arrow("collective_part").to_pylist(), key=lambda row: row["start"])
    names = (
        "duration",
        "kind",
        "collective",
        "channel",
        "peer",
        "direction",
        "step",
        "bytes",
        "wait_device",
        "wait_peer",
        "wait_network",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, "channel", 5, 0, None, None, None, None, None, None, None),
        (2, "proxy operation", None, 1, 0, "send", 4, 64, None, None, None),
        (3, "network step", 5, 2, 3, "receive", 0, 128, 7, 8, 9),
        (4, "unknown", 5, 3, None, None, None, None, None, None, None),
    ]
