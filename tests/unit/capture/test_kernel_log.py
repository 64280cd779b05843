"""The kernel log: a line per kernel, each stack once before its first use, whatever happens to the converter."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.capture.converter import Converter
from warpsight.capture.rows import kernel_log
from warpsight.model.trace import StoredTrace

MAIN, STEP = "train.py:10 in main", "train.py:20 in step"


def _log(recording: Recording, tmp_path: Path, stacks: str = "dedup") -> Path:
    path = tmp_path / "kernels.ndjson"
    path.touch()
    (recording.root / "raw").mkdir(parents=True, exist_ok=True)
    kernel_log.configure(recording.root / "raw", str(path), stacks)
    return path


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _check(lines: list[dict[str, Any]]) -> None:
    """Every line is as the schema says, and refers to nothing that is not defined before it."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "kernel_log.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    defined: set[str] = set()
    for line in lines:
        check.validate(line)
        if line["type"] == "callstack_def":
            assert line["callstack_id"] not in defined
            defined.add(line["callstack_id"])
        elif line.get("callstack_id") is not None:
            assert line["callstack_id"] in defined


def _segment(recording: Recording, arena: str, first: int, count: int, **kernel: Any) -> None:
    with recording.file(arena) as out:
        out.write("Api", launches(first, count), thread=11)
        out.write("Kernel", kernels(first, count, **kernel), thread=12)


def test_every_launch_has_a_line_and_each_stack_is_defined_once(recording: Recording, tmp_path: Path) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    _segment(recording, arena, 1, 5)
    _segment(recording, arena, 6, 5, stream=[7, 7, 8, 7, 7])
    recording.finish().close()
    lines = _lines(log)
    _check(lines)
    assert lines[0]["frames"] == [MAIN, STEP]
    assert lines[0]["source"] == "cpython"
    found = lines[1:]
    assert {line["type"] for line in found} == {"kernel_launch"}
    assert [line["kernel_launch_id"] for line in found] == list(range(1, 11))
    assert [line["correlation_id"] for line in found] == list(range(1, 11))
    assert [line["stream_id"] for line in found] == [7] * 7 + [8, 7, 7]
    assert found[0]["kernel_name"] == "vectorAdd(float const*, float const*, float*, int)"
    assert (found[0]["grid"], found[0]["block"]) == ([4, 1, 1], [128, 1, 1])
    assert found[0]["callstack_id"] == lines[0]["callstack_id"]


def test_a_stack_id_is_the_fnv_hash_of_its_frames(recording: Recording, tmp_path: Path) -> None:
    log = _log(recording, tmp_path)
    _segment(recording, recording.process(1), 1, 1)
    recording.finish().close()
    state = 0xCBF29CE484222325
    for byte in MAIN.encode() + b"\xff" + STEP.encode() + b"\xff":
        state = (state ^ byte) * 0x100000001B3 % 2**64
    assert _lines(log)[0]["callstack_id"] == f"{state:016x}"


@pytest.mark.parametrize("stacks", ["full", "none"])
def test_stacks_can_be_in_every_line_or_nowhere(recording: Recording, tmp_path: Path, stacks: str) -> None:
    log = _log(recording, tmp_path, stacks)
    _segment(recording, recording.process(1), 1, 2)
    recording.finish().close()
    lines = _lines(log)
    _check(lines)
    assert len(lines) == 2
    for line in lines:
        assert "callstack_id" not in line
        assert line.get("cpu_callstack") == ([MAIN, STEP] if stacks == "full" else None)


def test_graph_nodes_have_lines_with_the_stack_of_their_creation(
    recording: Recording, tmp_path: Path
) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write("GraphNode", {"node": [900, 901], "graph": 4, "stack": 1})
    with recording.file(arena) as out:
        out.write("Api", launches(1, 1, name=0, shape=0))
        out.write("Kernel", {**kernels(1, 1), "correlation": [1, 1], "start": [10, 600], "end": [20, 700],
                             "graph_node": [900, 901], "graph": 4})  # fmt: skip
    recording.finish().close()
    lines = _lines(log)
    _check(lines)
    assert [line["type"] for line in lines] == ["callstack_def", "kernel_launch", "kernel_launch"]
    assert lines[0]["frames"] == [MAIN]


def test_a_kernel_that_never_ran_has_a_line(recording: Recording, tmp_path: Path) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 3))
        out.write("Kernel", kernels(1, 2))
    recording.finish().close()
    lines = _lines(log)
    _check(lines)
    assert [line["correlation_id"] for line in lines[1:]] == [1, 2, 3]


def test_the_checksum_is_that_of_the_kernels_module(recording: Recording, tmp_path: Path) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write("Module", {"id": [3], "checksum": 0xABC})
    _segment(recording, arena, 1, 2, module=[3, 0])
    recording.finish().close()
    assert [line["kernel_checksum"] for line in _lines(log)[1:]] == [f"{0xABC:016x}", ""]


def test_a_conversion_that_is_repeated_writes_no_line_twice(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    _segment(recording, arena, 1, 5)
    first = Converter(recording.root)
    first.convert()
    assert len(_lines(log)) == 6  # lines come while the program runs
    _segment(recording, arena, 6, 5)
    with monkeypatch.context() as patched:
        patched.setattr("warpsight.capture.journal.Journal.commit", _crash)
        with pytest.raises(RuntimeError):
            first.convert()
    first.close()
    second = Converter(recording.root)
    second.finish()
    lines = _lines(log)
    _check(lines)
    assert [line["kernel_launch_id"] for line in lines[1:]] == list(range(1, 11))


def test_a_conversion_that_fails_twice_at_the_same_place_loses_no_line(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _log(recording, tmp_path)
    arena = recording.process(1)
    _segment(recording, arena, 1, 5)
    first = Converter(recording.root)
    first.convert()
    first.close()
    _segment(recording, arena, 6, 5)
    for _ in range(2):
        again = Converter(recording.root)
        with monkeypatch.context() as patched:
            patched.setattr("warpsight.capture.journal.Journal.commit", _crash)
            with pytest.raises(RuntimeError):
                again.convert()
        again.close()
    Converter(recording.root).finish()
    lines = _lines(log)
    _check(lines)
    assert [line["kernel_launch_id"] for line in lines[1:]] == list(range(1, 11))


def test_lines_are_in_the_order_of_launches_and_of_one_launch_by_start(
    recording: Recording, tmp_path: Path
) -> None:
    log = _log(recording, tmp_path)
    with recording.file(recording.process(1)) as out:
        out.write("Api", launches(1, 3))
        out.write("Kernel", {**kernels(1, 4), "correlation": [3, 2, 1, 2], "start": [10, 40, 60, 20],
                             "end": [15, 50, 70, 30], "stream": [1, 2, 3, 4]})  # fmt: skip
    recording.finish().close()
    lines = _lines(log)
    _check(lines)
    found = [(line["correlation_id"], line["stream_id"]) for line in lines[1:]]
    assert found == [(1, 3), (2, 4), (2, 2), (3, 1)]


def test_a_graph_that_was_not_expanded_has_no_line(recording: Recording, tmp_path: Path) -> None:
    log = _log(recording, tmp_path)
    with recording.file(recording.process(1)) as out:
        out.write("Api", launches(1, 3))
        out.write("Kernel", kernels(1, 3, flags=[0, 1, 0]))
    recording.finish().close()
    assert [line["correlation_id"] for line in _lines(log)[1:]] == [1, 3]


def _crash(*arguments: Any) -> None:
    raise RuntimeError("crash")


def test_a_log_that_cannot_be_written_costs_a_loss_row_not_the_trace(
    recording: Recording, tmp_path: Path
) -> None:
    log = _log(recording, tmp_path)
    log.unlink()
    _segment(recording, recording.process(1), 1, 5)
    with recording.finish() as trace:
        assert trace.tables["kernel"] == 5
        ((cause, count),) = trace.sql("SELECT cause, count FROM loss WHERE source = 'kernel log'").fetchall()
    assert str(log) in cause
    assert count == 1
    assert not log.exists()


def test_without_a_log_nothing_is_written(recording: Recording, tmp_path: Path) -> None:
    _segment(recording, recording.process(1), 1, 5)
    with recording.finish() as trace:
        assert isinstance(trace, StoredTrace)
    assert [path.name for path in tmp_path.iterdir()] == ["run.warp"]
