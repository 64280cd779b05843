"""What each field of a record means in its table: numbers as words, zero as nothing, ids as what they stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.model.trace import StoredTrace

NO_STREAM = 0xFFFFFFFF


def written(recording: Recording, kind: str, columns: dict[str, Any], thread: int = 9) -> StoredTrace:
    """A trace of one process with some records."""
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(kind, columns, thread=thread)
    return recording.finish()


def values(trace: StoredTrace, query: str) -> list[tuple[Any, ...]]:
    with trace:
        return trace.sql(query).fetchall()


def test_waits(recording: Recording) -> None:
    kinds = ["event", "stream wait event", "stream", "context", "finish", "wait for events", "blocking call"]
    rows = {"start": range(10, 80, 10), "end": [15, *range(25, 75, 10), 60], "type": range(1, 8), "context": 1,
            "stream": [7, NO_STREAM, 0, 7, 7, 7, 7], "result": [0, 1, 2, 0, 0, 0, 0], "correlation": [0, *range(5, 11)],
            "event": [0, 3, 4, 5, 6, 7, 8]}  # fmt: skip
    rows = {name: list(column) if isinstance(column, range) else column for name, column in rows.items()}
    found = values(
        written(recording, "Sync", rows),
        "SELECT start, duration, kind, stream, result, correlation FROM sync ORDER BY start",
    )
    assert [row[:2] for row in found] == [
        (10, 5),
        (20, 5),
        (30, 5),
        (40, 5),
        (50, 5),
        (60, 5),
        (70, 0),
    ]  # never below 0
    assert [row[2] for row in found] == kinds
    assert [row[3] for row in found] == [7, 0, 0, 7, 7, 7, 7] and [row[4] for row in found] == [
        0,
        1,
        2,
        0,
        0,
        0,
        0,
    ]
    assert [row[5] is None for row in found] == [True, *[False] * 6]


def test_memory_events(recording: Recording) -> None:
    rows = {
        "time": [1, 2, 3, 4, 5, 6, 7, 8], "address": 4096, "operation": [1, 2, 3, 4, 5, 1, 1, 2],
        "bytes": [64, 0, 0, 16, 0, 0, 8, 4], "kind": [3, 3, 3, 3, 3, 255, 1, 3], "category": [1, 5, 0, 6, 2, 3, 4, 255],
        "device": [0, 0, 65535, 0, 0, 0, 0, 0], "stream": [7, NO_STREAM, 7, 7, 7, 7, 0, 7],
        "pool_size": [0, 0, 100, 50, 0, 0, 0, 0], "pool_used": [9, 0, 0, 5, 0, 0, 0, 0], "allocator": [0, 12, 0, 0, 0, 13, 0, 0],
    }  # fmt: skip
    query = (
        "SELECT operation, bytes, category, device, stream, pool_used, thread, kind FROM memory ORDER BY time"
    )
    found = values(written(recording, "Memory", rows), query)
    assert [row[0] for row in found] == [
        "allocate",
        "free",
        "pool create",
        "pool trim",
        "pool destroy",
        "allocate",
        "allocate",
        "free",
    ]
    assert [row[1] for row in found] == [64, None, None, 16, None, 0, 8, 4]  # an allocation of nothing is one
    assert [row[2] for row in found] == [
        "activation",
        "cached",
        None,
        None,
        "gradient",
        "parameter",
        "temporary",
        None,
    ]
    assert [row[3] for row in found] == [0, 0, None, 0, 0, 0, 0, 0]
    assert [row[4] for row in found] == [7, None, 7, 7, 7, None, 0, 7]
    assert [row[5] for row in found] == [None, None, 0, 5, None, None, None, None]
    assert [row[6] for row in found] == [None] * 5 + [9, None, None]  # what the program itself reported
    assert [row[7] for row in found] == ["device"] * 5 + ["reported", "pageable", "device"]


def test_an_allocation_has_the_stack_of_its_call_unless_it_has_its_own(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(5, 1, stack=2, flags=0), thread=9)
        out.write("Memory", {"time": [10, 11, 12, 13], "operation": 1, "bytes": 8, "kind": 3, "address": [1, 2, 3, 4],
                             "correlation": [5, 5, 0, 77], "stack": [0, 1, 0, 0]})  # fmt: skip
    with recording.finish() as trace:
        rows = trace.sql("SELECT stack FROM memory ORDER BY time").fetchall()
        texts = [trace.stacks([one])[one][-1].split(" ")[0] if one else None for (one,) in rows]
    assert texts == ["step", "main", None, None]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (1, "driver compiler"),
        (1 << 16, "buffer flush"),
        (5 << 16, "lazy loading"),
        (77, "kind 77"),
        (0, "kind 0"),
    ],
)
def test_overhead(recording: Recording, number: int, name: str) -> None:
    rows = {"start": [10, 30], "end": [15, 31], "kind": [number, 2 << 16], "object": [0, 4]}
    query = "SELECT kind, duration, thread FROM overhead ORDER BY start"
    assert values(written(recording, "Overhead", rows), query) == [(name, 5, None), ("instrumentation", 1, 4)]


def test_counters(recording: Recording) -> None:
    rows = {"time": [1, 2, 3, 4, 5, 6], "value": [0.5, 1, 2, 3, 4, 5], "name": 12, "unit": [13, 0, 13, 13, 13, 13],
            "device": [-1, 0, 0, 0, 0, 0], "source": [1, 2, 3, 4, 5, 1]}  # fmt: skip
    query = "SELECT name, unit, device, source, value FROM counter ORDER BY time"
    assert values(written(recording, "Counter", rows), query) == [
        ("forward", "backward", None, "nvml", 0.5), ("forward", "1", 0, "gpm", 1.0), ("forward", "backward", 0, "user", 2.0),
        ("forward", "backward", 0, "recorder", 3.0), ("forward", "backward", 0, "pm sampling", 4.0),
        ("forward", "backward", 0, "nvml", 5.0),
    ]  # fmt: skip


def test_samples_belong_to_the_process_they_were_taken_of(recording: Recording) -> None:
    first, second = recording.process(1), recording.process(2)
    with recording.file(first) as out:
        out.write("Sample", {"time": [10, 11, 12, 13], "thread": [3, 4, 5, 6], "stack": [2, 0, 1, 2], "gil": [1, 0, 2, 1],
                             "state": [ord("R"), ord("D"), ord("x"), ord("Z")], "pid": [1, 1, 2, 2]})  # fmt: skip
    with recording.file(second) as out:
        out.write("Api", launches(1, 1), thread=6)
    with recording.finish() as trace:
        rows = trace.sql(
            "SELECT thread, state, gil, stack IS NULL, pid FROM sample JOIN process USING (process)"
            " ORDER BY time"
        ).fetchall()
    assert rows == [
        (3, "R", True, False, 1),
        (4, "D", False, True, 1),
        (5, "?", False, False, 2),
        (6, "Z", True, False, 2),
    ]


def test_events_of_the_user_builds_and_flows(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "UserEvent",
            {"start": [5, 9], "duration": [0, 2], "name": [12, 0], "kind": [0, 13], "stack": [2, 0]},
            thread=4,
        )
        out.write(
            "Build",
            {
                "start": [5, 6],
                "duration": [3, 1],
                "program": 12,
                "result": [-11, 0],
                "device": [0, 0],
                "stack": [1, 0],
            },
        )
        out.write("Flow", {"from_correlation": [1, 2, 3, 4], "to_correlation": 9, "kind": [1, 2, 3, 4]})
    with recording.finish() as trace:
        assert trace.sql("SELECT name, kind, duration, thread, stack IS NULL FROM user_event ORDER BY start").fetchall() == [
            ("forward", "", 0, 4, False), ("", "backward", 2, 4, True)]  # fmt: skip
        assert trace.sql("SELECT program, result, device, duration, stack IS NULL FROM build ORDER BY start").fetchall() == [
            ("forward", -11, 0, 3, False), ("forward", 0, 0, 1, True)]  # fmt: skip
        kinds = [kind for (kind,) in trace.sql("SELECT kind FROM flow ORDER BY from_correlation").fetchall()]
        assert kinds[:3] == ["wait list", "forward-backward", "user"] and kinds[3] not in kinds[:3]


def test_ids_that_a_program_pushed(recording: Recording) -> None:
    rows = {"external_id": [1, (1 << 64) - 1, 3], "correlation": [5, 6, 7], "kind": [2, 5, 99]}
    query = "SELECT correlation & 4294967295, kind, external_id FROM external_id ORDER BY correlation"
    found = values(written(recording, "ExternalId", rows), query)
    assert [row[0] for row in found] == [5, 6, 7] and [row[2] for row in found] == rows["external_id"]
    assert [row[1] for row in found][:2] == ["openacc", "custom 2"]


def test_samples_of_program_counters_say_whether_some_are_missing(recording: Recording) -> None:
    rows = {"start": [1, 5, 9], "end": [4, 8, 12], "samples": 3, "flags": [0, 1, 2], "cost": [7, 0, 8]}
    query = "SELECT incomplete, cost FROM pc_window ORDER BY start"
    found = values(written(recording, "PcWindow", rows), query)
    assert [row[0] for row in found] == [False, True, False] and [row[1] for row in found][::2] == [7, 8]


def test_losses(recording: Recording) -> None:
    rows = {"time": [0, 50, 60, 70], "start": [0, 10, 0, 0], "end": [0, 40, 0, 0], "count": [1, 2, 3, 4],
            "cause": [0, 12, 13, 12], "source": [0, 14, 14, 14], "kind": [0, 0, 0, 0], "severity": [1, 2, 3, 9]}  # fmt: skip
    query = 'SELECT source, cause, severity, time, start, "end", kind FROM loss ORDER BY count'
    assert values(written(recording, "Loss", rows), query) == [
        ("recorder", "unknown", "note", None, None, None, None), ("loader", "forward", "lost", 50, 10, 40, None),
        ("loader", "backward", "ended", 60, None, None, None), ("loader", "forward", "lost", 70, None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["Kernel", "Api"])
def test_a_loss_names_what_was_lost(recording: Recording, kind: str) -> None:
    from warpsight.capture.segments import layout

    rows = {
        "time": [5],
        "count": 2,
        "cause": 12,
        "source": 13,
        "severity": 2,
        "kind": layout.BY_NAME[kind].kind,
    }
    assert values(written(recording, "Loss", rows), "SELECT kind FROM loss") == [(kind.lower(),)]


def test_definitions(recording: Recording) -> None:
    arena = recording.process(3)
    with recording.file(arena, "definitions") as out:
        out.write("Thread", {"thread": [11, 12, 11], "name": [12, 0, 13], "time": [1, 1, 2]}, writer=501)
        out.write("Stream", {"context": [1, 1, 1], "stream": [7, 9, 9], "priority": [-5 & NO_STREAM, 0, 0], "flags": [1, 2, 3],
                             "name": [14, 0, 0]}, writer=502)  # fmt: skip
        out.write(
            "Module",
            {
                "id": [1, 2],
                "name": [14, 0],
                "checksum": [77, 0],
                "size": [64, 0],
                "context": 1,
                "time": [5, 0],
            },
            writer=503,
        )
        out.write("Context", {"context": [2], "device": 0, "null_stream": 8, "api": 1}, writer=504)
        out.write(
            "Graph",
            {"graph": [1, 2], "original": [0, 1], "flags": [2, 3], "stack": [0, 2], "time": [4, 5]},
            writer=505,
        )
        out.write("GraphNode", {"node": [9, 9, 8, 7, 6], "original": [0, 8, 0, 0, 0], "graph": 1, "type": [0, 0, 1, 13, 14],
                                "flags": [0, 0, 0, 0, 1], "stack": [0, 1, 2, 0, 0]}, writer=506)  # fmt: skip
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1), thread=13)
        out.write("Kernel", kernels(1, 1))
    with recording.finish() as trace:

        def found(query: str) -> list[tuple[Any, ...]]:
            return trace.sql(query).fetchall()

        assert found("SELECT thread, name FROM thread ORDER BY thread") == [
            (11, "backward"),
            (12, None),
            (13, None),
        ]
        assert found("SELECT stream, priority, flags, name, device, context FROM stream ORDER BY stream") == [
            (7, -5, 1, "loader", 0, 1), (9, 0, 3, None, 0, 1)]  # fmt: skip
        assert found("SELECT module, name, checksum, bytes, time, device FROM module ORDER BY module") == [
            (1, "loader", 77, 64, 5, 0), (2, None, None, None, None, 0)]  # fmt: skip
        assert found("SELECT context, null_stream, api, device FROM context ORDER BY context") == [
            (1, 0, "cuda", 0),
            (2, 8, "cuda", 0),
        ]
        assert found("SELECT graph, original, executable, stack IS NULL, time FROM graph ORDER BY graph") == [
            (1, None, False, True, 4), (2, 1, True, False, 5)]  # fmt: skip
        assert found("SELECT graph_node, original, kind, stack IS NULL FROM graph_node ORDER BY graph_node") == [
            (7, None, "conditional", True), (8, None, "memcpy", False), (9, 8, "kernel", False)]  # fmt: skip
        ((process, settings),) = found("SELECT environment, settings FROM process")
        assert (
            json.loads(process) == {"CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "4"} and settings is None
        )
        assert found("SELECT pid, parent, host, rank, local_rank, world_size, command, executable, start FROM process") == [
            (3, None, "node7", 3, None, None, "python 'train.py --lr 1'", "/usr/bin/python3", 5)]  # fmt: skip
        assert found("SELECT uuid, name, vendor, platform, pci, memory_bytes, compute_capability, host FROM device") == [
            ("GPU-aaaa", "H200", "NVIDIA", "cuda", None, None, "9.0", "node7")]  # fmt: skip


def test_a_device_of_which_nothing_is_known_is_named_by_its_number(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write(
            "Device", {"device": [3], "platform": 1, "memory_bytes": 5, "clock_khz": 6, "compute_minor": 7}
        )
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1))
        out.write("Kernel", kernels(1, 1, device=3))
    with recording.finish() as trace:
        columns = '"index", uuid, name, vendor, memory_bytes, clock_khz, warp_size, compute_capability'
        query = f"SELECT {columns} FROM device ORDER BY 1"
        assert trace.sql(query).fetchall()[-1] == (3, "unknown-3", "unknown", "unknown", 5, 6, None, None)


def test_graphs_recorded_as_a_whole_are_named_by_their_number(recording: Recording) -> None:
    columns = kernels(1, 4) | {"flags": [1, 0, 1, 1], "name": [0, 0, 0, 0], "graph": [5, 5, 9, 0]}
    found = values(
        written(recording, "Kernel", columns), "SELECT graph_level, name FROM kernel ORDER BY start"
    )
    assert found == [(True, "CUDA graph 5"), (False, None), (True, "CUDA graph 9"), (True, "CUDA graph")]
