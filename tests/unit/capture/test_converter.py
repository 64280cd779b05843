"""Conversion: what a program did is in the tables, joined, in whatever order and pieces it arrived."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.capture.arena import Arena
from warpsight.capture.converter import Converter
from warpsight.capture.rows import calls
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, Batch
from warpsight.model.schema import TABLES
from warpsight_plugins.backends import BACKENDS

#: A domain whose functions the recorder names.
MACA = next(one for one in BACKENDS if one.name == "maca").functions[0].domain


def test_a_kernel_has_name_shape_stack_device_and_its_launch(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 10), thread=11)
        out.write("Kernel", kernels(1, 10), thread=12)
    with recording.finish() as trace:
        (row,) = trace.sql(
            "SELECT short, demangled, grid_x, block_x, stack, duration, device FROM kernel LIMIT 1"
        ).fetchall()
        assert row[:2] == ("vectorAdd", "vectorAdd(float const*, float const*, float*, int)")
        assert row[2:4] == (4, 128)
        assert trace.stacks([row[4]])[row[4]] == ("main (train.py:10)", "step (train.py:20)")
        assert row[5:] == (500, 0)
        joined = trace.sql(
            "SELECT count(*) FROM kernel k JOIN launch l USING (process, correlation) "
            "WHERE l.function = 'cudaLaunchKernel' AND l.thread = 11 AND l.start < k.start"
        )
        assert joined.fetchall() == [(10,)]
        assert trace.tables["kernel"] == trace.tables["launch"] == 10
        assert len(trace.loss) == 0


def test_every_part_has_exactly_the_schema(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3))
        out.write("Api", launches(4, 3, flags=0))
        out.write("Kernel", kernels(1, 3, device=[0, 0, 5], graph_node=[0, 9, 0], queued=[1, 0, 0]))
        out.write(
            "Memcpy",
            {
                "start": 5,
                "end": 9,
                "bytes": 4,
                "kind": [1],
                "source_kind": 1,
                "destination_kind": 3,
                "source_device": 65535,
                "destination_device": 65535,
            },
        )
        out.write("Memset", {"start": [5], "end": 9})
        out.write("Sync", {"start": [5], "end": 9, "type": 3, "context": 1})
        out.write("Event", {"time": [0, 5], "event": 4})
        out.write(
            "Memory",
            {"time": [5, 6], "operation": [1, 2], "bytes": [10, 0], "category": [0, 3], "kind": [3, 255]},
        )
        out.write("Overhead", {"start": [5], "end": 9, "kind": 1})
        out.write(
            "Marker", {"time": [5, 6, 7], "phase": [1, 2, 5], "name": 12, "domain": [0, 0, 13], "source": 1}
        )
        out.write(
            "Counter", {"time": [5, 6], "value": 1.5, "name": 12, "unit": 13, "device": [-1, 0], "source": 1}
        )
        out.write("UserEvent", {"start": [5], "duration": 1, "name": 12, "kind": 13})
        out.write("Sample", {"time": [5], "thread": 3, "stack": 2, "state": ord("R"), "pid": 1})
        out.write("Loss", {"time": [5], "count": 3, "cause": 12, "source": 13, "severity": 2})
        out.write("Clock", {"monotonic": [5, 10], "realtime": [105, 110], "device": 0xFFFFFFFF})
        out.write("Flow", {"from_correlation": [1], "to_correlation": 2, "kind": 1})
        out.write("ExternalId", {"external_id": [4711], "correlation": 2, "kind": 3})
        out.write("Build", {"start": [5], "duration": 1, "program": 12})
        out.write("PcSample", {"start": [5], "end": 9, "checksum": 1, "name": 12, "reason": 13, "samples": 3})
        out.write("PcWindow", {"start": [5], "end": 9, "samples": 3, "flags": 1, "period": [1 << 21]})
        out.write(
            "InstructionCount", {"start": [5], "end": 9, "checksum": 1, "name": 12, "metric": 13, "value": 3}
        )
        out.write(
            "RangeMetric",
            {"start": [5], "end": 9, "range": 1, "name": 12, "metric": 13, "value": 3.0, "kind": 1},
        )
    with recording.file(arena, "definitions") as out:
        out.write("Thread", {"thread": [11], "name": 14, "time": 1}, writer=501)
        out.write("Stream", {"context": [1], "stream": 7}, writer=502)
        out.write("Module", {"id": [1], "name": 14}, writer=503)
        out.write("Graph", {"graph": [1], "flags": 1, "stack": 2}, writer=504)
        out.write("GraphNode", {"node": [9], "graph": 1, "stack": 1}, writer=505)
        out.write("GraphEdge", {"from_node": [9], "to_node": 10, "graph": 1}, writer=506)
        out.write("ApiFunction", {"domain": [MACA], "number": 1, "name": 14}, writer=507)
    with recording.finish() as trace:
        instructions = {"instruction", "warp_event", "access", "register", "probe_value"}  # only imported
        absent = {"op", "attribute", "collective", "collective_part", *instructions}
        assert set(TABLES) - set(trace.tables) == absent
        for table in set(TABLES) - absent:
            for part in sorted((recording.root / f"table={table}").rglob("*.parquet")):
                assert pq.read_schema(part).equals(TABLES[table].schema(), check_metadata=False), part
                names = {c.name for c in TABLES[table].columns if c.unit in ("ns", "id")}
                group = pq.read_metadata(part).row_group(0)
                for column in (group.column(i) for i in range(group.num_columns)):
                    assert ("DELTA_BINARY_PACKED" in column.encodings) == (column.path_in_schema in names)
        for table in TABLES:
            trace.arrow(table).validate(full=True)


def test_a_kernel_that_arrives_before_its_launch_waits_for_it(recording: Recording) -> None:
    arena = recording.process(1)
    for kind, maker in (("Kernel", kernels), ("Api", launches)):
        with recording.file(arena) as out:
            out.write(kind, maker(1, 5))
    with recording.finish() as trace:
        assert trace.sql("SELECT count(*) FROM kernel WHERE stack IS NOT NULL").fetchall() == [(5,)]


def test_a_kernel_whose_launch_was_lost_has_no_stack_and_that_is_noted(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Kernel", kernels(1, 5))
    with recording.finish() as trace:
        assert trace.sql("SELECT count(*) FROM kernel WHERE stack IS NULL").fetchall() == [(5,)]
        assert trace.loss.column("count").to_pylist() == [5]
        assert trace.loss.column("severity").to_pylist() == ["note"]


def test_a_launch_without_a_kernel_is_a_kernel_without_times_and_a_loss(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "Api",
            launches(1, 6, result=[0, 0, 0, 0, 700, 0], flags=[1, 1, 1, 3, 1, 1], function=[211] * 5 + [311]),
        )
        out.write("Kernel", kernels(1, 1))
    with recording.finish() as trace:  # not: the captured one, the failed one, the graph launch
        found = trace.sql(
            "SELECT correlation, short, stack IS NOT NULL FROM kernel WHERE start IS NULL ORDER BY 1"
        ).fetchall()
        assert found == [(2, "vectorAdd", True), (3, "vectorAdd", True)]
        (loss,) = trace.loss.to_pylist()
        assert (loss["cause"], loss["count"], loss["severity"]) == ("kernel record never arrived", 2, "lost")


def test_correlation_ids_wrap_and_sessions_stay_apart(recording: Recording) -> None:
    arena = recording.process(1)
    wrap = (1 << 32) - 3
    around = [wrap, wrap + 1, wrap + 2, 1, 2, 3]  # 0 means none
    with recording.file(arena) as out:
        out.write("Api", launches(wrap, 6, correlation=around))
        out.write("Kernel", kernels(wrap, 6, correlation=around))
        out.write("Api", launches(1, 6, stack=1), session=1, writer=77)
        out.write("Kernel", kernels(1, 6), session=1, writer=78)
    with recording.finish() as trace:
        assert trace.sql("SELECT count(DISTINCT correlation) FROM kernel").fetchall() == [(12,)]
        joined = trace.sql(
            "SELECT k.stack = l.stack FROM kernel k JOIN launch l USING (process, correlation)"
        ).fetchall()
        assert joined == [(True,)] * 12
        ids = [i for (i,) in trace.sql("SELECT correlation FROM kernel WHERE stack = 2").fetchall()]
        assert sorted(ids) == [wrap, wrap + 1, wrap + 2, *(1 << 48 | low for low in (1, 2, 3))]


def test_ids_of_two_processes_are_one_set(recording: Recording) -> None:
    for number, uuid in ((1, "GPU-aaaa"), (2, "GPU-bbbb"), (3, "GPU-aaaa")):
        arena = recording.process(number, uuid)
        with recording.file(arena) as out:
            out.write("Api", launches(1, 4))
            out.write("Kernel", kernels(1, 4))
    with recording.finish() as trace:
        assert trace.tables["name"] == 1
        assert trace.tables["stack"] == 2
        assert trace.tables["device"] == 2
        assert trace.sql("SELECT process, pid, rank FROM process ORDER BY 1").fetchall() == [
            (0, 1, 1),
            (1, 2, 2),
            (2, 3, 3),
        ]
        assert trace.sql(
            "SELECT process, any_value(uuid) FROM kernel JOIN device USING (device) GROUP BY 1 ORDER BY 1"
        ).fetchall() == [(0, "GPU-aaaa"), (1, "GPU-bbbb"), (2, "GPU-aaaa")]


def test_a_device_keeps_the_number_that_its_first_process_gave_it(tmp_path):
    recording = Recording(tmp_path / "run.warp")
    for number, uuid, device in (
        (1, "GPU-aaaa", 3),
        (2, "GPU-bbbb", 3),
        (3, "GPU-cccc", 0),
        (4, "GPU-aaaa", 0),
    ):
        arena = recording.process(number, uuid, device)
        with recording.file(arena) as out:
            out.write("Api", launches(1, 1))
            out.write("Kernel", kernels(1, 1, device=device))
    with recording.finish() as trace:
        rows = trace.sql(
            """SELECT process, device, uuid, "index" FROM kernel JOIN device USING (device) ORDER BY 1"""
        )
        assert rows.fetchall() == [
            (0, 3, "GPU-aaaa", 3), (1, 4, "GPU-bbbb", 3), (2, 0, "GPU-cccc", 0), (3, 3, "GPU-aaaa", 3)
        ]  # fmt: skip


def test_opencl_and_cuda_in_one_process_keep_their_calls_apart(recording: Recording) -> None:
    arena = recording.process(1)
    first = 0x40000000
    for step in range(3):
        with recording.file(arena) as out:
            out.write("Api", launches(1 + 5 * step, 5))
            out.write("Api", launches(first + 5 * step, 5, domain=layout.API_OPENCL, function=59, stack=1))
        with recording.file(arena) as out:  # kernels come after their calls' segment is converted
            out.write("Kernel", kernels(1 + 5 * step, 5))
            out.write("Kernel", kernels(first + 5 * step, 5, context=0x40000000))
    with recording.finish() as trace:
        found = trace.sql(
            f"SELECT correlation >= {first}, stack, count(*) FROM kernel WHERE start IS NOT NULL GROUP BY ALL ORDER BY 1"
        ).fetchall()
        assert found == [(False, 2, 15), (True, 1, 15)]
        assert trace.loss.num_rows == 0
        assert trace.count("kernel") == 30


def test_launches_whose_kernels_are_not_timed_are_not_lost_kernels(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(0x40000000, 5, domain=layout.API_OPENCL, function=59, flags=9))
    with recording.finish() as trace:
        assert trace.tables["launch"] == 5
        assert trace.count("kernel") == 0
        assert trace.loss.num_rows == 0


def test_functions_that_only_the_process_knows_have_the_names_it_told(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write("ApiFunction", {"domain": [MACA] * 2, "number": [1, 2], "name": [12, 13]}, writer=7)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3, domain=MACA, function=[1, 2, 9], flags=0))
    with recording.finish() as trace:
        assert trace.sql("SELECT function FROM api ORDER BY correlation").fetchall() == [
            ("forward",),
            ("backward",),
            ("maca function 9",),
        ]


def test_launches_as_the_driver_names_them_count_once(recording: Recording) -> None:
    arena = recording.process(1)
    kernel, graph = 307, 514  # cuLaunchKernel, cuGraphLaunch
    with recording.file(arena) as out:
        out.write(
            "Api", launches(1, 4, domain=2, function=[kernel, kernel, graph, kernel], flags=[1, 3, 1, 1])
        )
        out.write("Kernel", kernels(1, 1))
        out.write("Kernel", kernels(3, 1, graph_node=[7]), writer=9)
        out.write("Kernel", kernels(3, 1, graph_node=[8]), writer=10)
        # waits, events and allocations are rows of their own beside the calls they come from
        out.write("Sync", {"start": [5], "end": 9, "type": 3, "context": 1, "correlation": 9})
        out.write("Memory", {"time": [5], "operation": 1, "bytes": 8, "kind": 3, "stream": 0xFFFFFFFF})
    with recording.finish() as trace:
        assert trace.sql("SELECT correlation, count(start) FROM kernel GROUP BY 1 ORDER BY 1").fetchall() == [
            (1, 1),
            (3, 2),
            (4, 0),  # the captured launch (2) went into a graph; this one never arrived
        ]
        assert trace.sql("SELECT function, captured FROM launch ORDER BY correlation").fetchall() == [
            ("cuLaunchKernel", False),
            ("cuLaunchKernel", True),
            ("cuGraphLaunch", False),
            ("cuLaunchKernel", False),
        ]
        assert (trace.tables["sync"], trace.tables["memory"], trace.count("api")) == (1, 1, 0)
        assert trace.sql("SELECT stream FROM memory").fetchall() == [(None,)]


def test_kernels_of_a_graph_take_the_stack_of_their_nodes_origin(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write(
            "GraphNode",
            {"node": [100, 200, 300], "original": [0, 100, 200], "graph": [1, 2, 3], "stack": [1, 0, 0]},
        )
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1, function=311))
        out.write("Kernel", kernels(1, 1))
        out.write("Kernel", {**kernels(1, 1), "graph_node": [300]})
        out.write("Kernel", {**kernels(1, 1), "graph_node": [999]})
    with recording.finish() as trace:
        stacks = dict(trace.sql("SELECT coalesce(graph_node, 0), stack FROM kernel").fetchall())
        folded = {node: trace.stacks([stack])[stack][-1] for node, stack in stacks.items()}
        assert folded == {0: "step (train.py:20)", 300: "main (train.py:10)", 999: "step (train.py:20)"}


def test_a_node_made_by_cloning_is_described_once(recording: Recording) -> None:
    """CUPTI tells that a node was made and then what it was cloned from; a node whose id is used again is another."""
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write(
            "GraphNode",
            {
                "node": [100, 200, 200, 300, 300, 300],
                "original": [0, 0, 100, 0, 0, 0],
                "type": [1, 255, 1, 0, 0, 2],
                "flags": [0, 0, 0, 0, 1, 0],
                "graph": [1, 2, 2, 1, 1, 1],
                "time": [1, 2, 3, 4, 5, 6],
            },
        )
    with recording.finish() as trace:
        assert trace.sql("SELECT graph_node, original, kind FROM graph_node ORDER BY time").fetchall() == [
            (100, None, "memcpy"),
            (200, 100, "memcpy"),
            (300, None, "kernel"),
            (300, None, "memset"),
        ]


def test_a_block_written_while_open_and_again_when_full_counts_once(recording: Recording) -> None:
    arena = recording.process(1)
    rows = np.zeros(4, DTYPES[21])
    rows["correlation"], rows["start"], rows["end"] = range(1, 5), range(10, 14), range(20, 24)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 4))
        out.write_block("Kernel", rows[:2].tobytes(), sealed=False, writer=9, sequence=0)
    with recording.file(arena) as out:
        out.write_block("Kernel", rows.tobytes(), writer=9, sequence=0)
    with recording.finish() as trace:
        assert trace.sql("SELECT start FROM kernel ORDER BY 1").fetchall() == [(10,), (11,), (12,), (13,)]


def test_missing_blocks_are_counted(recording: Recording) -> None:
    arena = recording.process(1)
    rows = np.zeros(1, DTYPES[31])
    rows["pid"] = 1
    with recording.file(arena) as out:
        out.write_block("Sample", rows.tobytes(), writer=9, sequence=0)
        out.write_block("Sample", rows.tobytes(), writer=9, sequence=4)
    with recording.finish() as trace:
        assert [(row["source"], row["count"]) for row in trace.loss.to_pylist()] == [("segment", 3)]


def test_an_undescribed_device_gets_a_row(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1))
        out.write("Kernel", kernels(1, 1, device=3))
    with recording.finish() as trace:
        assert trace.sql("SELECT uuid FROM kernel JOIN device USING (device)").fetchall() == [("unknown-3",)]


def test_rows_within_a_part_are_sorted_by_start(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 100))
        out.write(
            "Kernel",
            {**kernels(1, 100), "start": np.random.default_rng(1).permutation(100) + 200, "end": 1000},
        )
    with recording.finish():
        for table in ("kernel", "launch"):
            (part,) = (recording.root / f"table={table}").rglob("*.parquet")
            starts = pq.read_table(part, partitioning=None)["start"].to_pylist()
            assert starts == sorted(starts)


def test_the_manifest_says_who_what_and_how(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "Clock",
            {"monotonic": [0, 10**9], "realtime": [10**18, 10**18 + 10**9 + 1000], "device": 0xFFFFFFFF},
        )
    ends = [{"pid": 1, "arena": arena, "exit": "signal 9", "end": 99}]
    loss = [{"source": "launcher", "cause": "the program was killed", "count": 1, "severity": "note"}]
    with recording.finish(
        processes=ends, loss=loss, settings={"stacks": "python"}, overhead={"percent": 1.5}
    ) as trace:
        manifest = trace.manifest
        assert manifest["settings"] == {"stacks": "python"}
        assert manifest["overhead"] == {"percent": 1.5}
        assert manifest["loss"] == loss
        assert manifest["clocks"]["drift"] == pytest.approx(1.0)
        (process,) = manifest["processes"]
        assert process["command"] == "python 'train.py --lr 1'"
        assert json.loads(process["environment"]) == {"CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "4"}
        assert (process["exit"], process["end"], process["rank"], process["local_rank"]) == (
            "signal 9",
            99,
            1,
            None,
        )
        assert not (recording.root / "raw").exists()
        for path in recording.root.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


def test_damage_costs_the_damaged_block_and_is_told(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 2000))
        out.write("Kernel", kernels(1, 2000))
    path = next((recording.root / "raw" / arena).glob("data-*"))
    data = bytearray(path.read_bytes())
    data[2 * 65536 + 5000] ^= 1  # in the first block of kernels
    path.write_bytes(data)
    lost = layout.BLOCK_PAYLOAD_BYTES // layout.BY_NAME["Kernel"].size
    with recording.finish() as trace:
        assert trace.sql("SELECT count(*) FROM kernel WHERE start IS NOT NULL").fetchall() == [(2000 - lost,)]
        told = {row["source"]: row["count"] for row in trace.loss.to_pylist()}
        assert told == {"segment": 1, "cupti": lost}


def test_definitions_still_being_written_are_read(recording: Recording) -> None:
    arena = recording.process(1)
    converter = Converter(recording.root)
    opened = recording.file(arena, "definitions", suffix=".open")
    opened.write_strings({20: "late_kernel"}, writer=600)
    opened._file.flush()
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1, name=20))
        out.write("Kernel", kernels(1, 1, name=20))
    assert converter.convert(enough_bytes=0) == {"converted": 1, "kernels": 1}
    opened.write_strings({21: "later_kernel"}, writer=601)
    opened.close()
    Path(opened.path).rename(opened.path.with_suffix(""))
    with recording.file(arena) as out:
        out.write("Api", launches(2, 1, name=21))
        out.write("Kernel", kernels(2, 1, name=21))
    converter.close()
    with recording.finish() as trace:
        assert trace.sql("SELECT name FROM kernel ORDER BY start").fetchall() == [
            ("late_kernel",),
            ("later_kernel",),
        ]


def test_few_rows_wait_until_there_is_enough_to_convert(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 5))
    converter = Converter(recording.root)
    assert converter.convert() == {"converted": 0, "kernels": 0}
    assert converter.finish()["rows"]["launch"] == 5


def test_a_segment_that_cannot_be_converted_costs_only_itself(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = recording.process(1)
    for first in (1, 11, 21):
        with recording.file(arena) as out:
            out.write("Api", launches(first, 10))
            out.write("Kernel", kernels(first, 10))
    original = calls.convert

    def refuse_second(arena: Arena, batch: Batch) -> None:
        if batch.rows["correlation"][0] == 11:
            raise ValueError("no such thing")
        original(arena, batch)

    monkeypatch.setattr(calls, "convert", refuse_second)
    with recording.finish() as trace:
        assert trace.tables["launch"] == 20
        assert any("could not be converted: no such thing" in row["cause"] for row in trace.loss.to_pylist())


def test_counters_are_of_a_device_or_of_the_host(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "Counter", {"time": [5, 6, 7], "value": 1.5, "name": 12, "device": [-1, 0, -1], "source": 1}
        )
    with recording.finish() as trace:
        rows = trace.sql("SELECT time, device, unit FROM counter ORDER BY time").fetchall()
    assert [row[1:] for row in rows] == [(None, "1"), (0, "1"), (None, "1")]


def test_what_the_launcher_counts_belongs_to_no_process(recording: Recording) -> None:
    recording.process(1)
    launcher = f"{2:016x}"
    with recording.file(launcher, "definitions") as out:
        out.write_strings({12: "power"})
    with recording.file(launcher) as out:
        out.write("Counter", {"time": [5], "value": 1.5, "name": 12, "device": -1, "source": 1})
        out.write("Clock", {"monotonic": [5], "realtime": 6, "device": 0xFFFFFFFF})
    with recording.finish() as trace:
        assert trace.sql("SELECT process FROM counter UNION ALL SELECT process FROM clock").fetchall() == [
            (None,),
            (None,),
        ]
        assert trace.tables["process"] == 1


def test_overhead_is_named_by_its_kind(recording: Recording) -> None:
    kinds = {1: "driver compiler", 1 << 16: "buffer flush", 2 << 16: "instrumentation", 3 << 16: "resource",
             4 << 16: "runtime triggered module loading", 5 << 16: "lazy loading", 6 << 16: "command buffer full",
             7 << 16: "activity buffer request", 8 << 16: "unified memory initialisation", 99: "kind 99"}  # fmt: skip
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Overhead", {"start": list(range(1, len(kinds) + 1)), "end": 50, "kind": list(kinds)})
    with recording.finish() as trace:
        named = [row[0] for row in trace.sql("SELECT kind FROM overhead ORDER BY start").fetchall()]
    assert named == list(kinds.values())


@pytest.mark.parametrize(("segments", "joined"), [(0, True), (4, True), (5, False)])
def test_a_kernel_waits_for_its_launch_over_four_segments(
    recording: Recording, segments: int, joined: bool
) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Kernel", kernels(1, 3))
    for number in range(segments):
        if number < segments - 1:
            with recording.file(arena) as out:
                out.write("Overhead", {"start": [number], "end": number + 1, "kind": 1})
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3))
    with recording.finish() as trace:
        found = trace.sql("SELECT count(stack), count(*) FROM kernel WHERE start IS NOT NULL").fetchall()
        assert found == [(3 * joined, 3)]
        assert len(trace.loss) == (0 if joined else 2)


def test_of_launches_without_kernels_the_oldest_are_no_longer_watched(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAXIMUM_WAITING", 5)
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 8))
    with recording.file(arena) as out:
        out.write("Kernel", kernels(7, 1))
    with recording.finish() as trace:
        assert trace.sql("SELECT correlation FROM kernel ORDER BY start, 1").fetchall() == [
            (i,) for i in (7, 4, 5, 6, 8)
        ]
        lost = {row["cause"]: row["count"] for row in trace.loss.to_pylist()}
        assert lost == {
            "kernel record never arrived; the launch is in table launch only": 3,
            "kernel record never arrived": 4,
        }
