"""Traces with NVBit on a real GPU: every execution is counted, registers are what the program stored, accesses are the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden import event_truth, nvbit_truth, tma_truth
from tests.race_model import delays as model
from warpsight.formats.events.kinds import CLASSES
from warpsight.formats.events.operands import Operands
from warpsight.race import delays, plan
from warpsight.sass.events.trace import EventTrace

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not os.environ.get("NVBIT_PATH"), reason="NVBIT_PATH names no copy of NVBit"),
]

HERE = Path(__file__).parent
_ELSEWHERE = [kind.number for kind in CLASSES["memory"] if kind.name in ("global", "local")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nvbit")


def _traced(
    folder: Path, name: str, *options: str, arguments: tuple[str, ...] = ()
) -> tuple[EventTrace, str]:
    """The trace of a program of this folder and what it printed."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program, out = folder / name, folder / f"{name}.events"
    if not program.is_file():
        subprocess.run(
            ["nvcc", "-O2", "-lineinfo", "-arch=native", "-o", program, HERE / f"{name}.cu"], check=True
        )
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "sass",
        "trace",
        "-f",
        "-o",
        out,
        *options,
        "--",
        program,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return EventTrace(out), done.stdout


def test_every_execution_is_told_once(folder: Path) -> None:
    trace, _ = _traced(folder, "nvbit_truth", "--events", "instructions", "-k", "counted*")
    assert nvbit_truth.executions(trace) == nvbit_truth.COUNTED
    assert trace.notes == []


@pytest.mark.parametrize("when", ["before", "both"])
def test_registers_hold_what_the_program_stores(folder: Path, when: str) -> None:
    trace, printed = _traced(
        folder, "nvbit_truth", "--events", "registers", "-k", "logged*", "--sass", "STG", "--when", when, "--predicates"
    )  # fmt: skip
    said = json.loads(printed)
    assert nvbit_truth.stored(trace, said["out"]) == {i: {value} for i, value in enumerate(said["values"])}
    assert len(trace.events) == 9 * (2 if when == "both" else 1)


def test_accesses_are_those_that_the_program_must_make(folder: Path) -> None:
    trace, printed = _traced(folder, "event_truth", "--events", "memory,instructions")
    base = json.loads(printed)
    for kernel, expected in event_truth.EXPECTED.items():
        recorded = event_truth.recorded(trace, kernel)
        assert recorded == event_truth.without_values(expected(base)), kernel


def test_graphs_streams_and_functions_that_are_called(folder: Path) -> None:
    trace, printed = _traced(folder, "nvbit_truth", "--events", "memory,instructions", arguments=("graphs",))
    assert float(printed) == 216
    found: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        stores = events.take(events.is_access & (events.flags == 2))
        begun = nvbit_truth.executed(events) & (events.pc == launch.said["pc"] & 0xFFFFFFFF)
        found.setdefault((launch.grid[0], bool(launch.said["graph"])), []).append(
            (int(stores.active.sum()), int(begun.sum()))
        )
    # Each node and replay has its own: 100 and 70 floats are two nodes of one shape.
    assert found == {
        (2, True): [(100, 4), (70, 4)] * 3,
        (1, True): [(50, 2)] * 3,
        (3, False): [(150, 6)],
        (4, False): [(200, 8)] * 3,
    }
    assert trace.notes == []


def test_instructions_of_functions_that_are_called_are_told(folder: Path) -> None:
    trace, _ = _traced(folder, "nvbit_truth", "--events", "instructions", "-k", "calls*", "--sass", "RET")
    assert len(trace.events) == 2
    for place in trace.places(next(iter(trace.launches.values())), trace.events.pc):
        assert trace.instructions(place.module, place.function)[place.offset].startswith("RET")


def _lanes(trace: EventTrace, kernel: str, left_out: set[int]) -> Counter[tuple[int, ...]]:
    """Every lane's accesses, from the lowest of their memory: buffers and, with each tool, stacks are elsewhere."""
    launch = nvbit_truth.launch_of(trace, kernel)
    events = trace.of_launch(launch.number)
    offset = events.pc.astype(np.int64) - (launch.said["pc"] & 0xFFFFFFFF)
    events = events.take(events.is_access & ~np.isin(offset, list(left_out)))
    address, row = events.operand(0), np.nonzero(events.active)
    for own in (events.kind == kind for kind in _ELSEWHERE):
        if own.any():
            address[own] -= address[own][events.active[own]].min()
    fields = [events.pc.astype(np.int64) - (launch.said["pc"] & 0xFFFFFFFF), *(
        getattr(events, name) for name in ("kind", "flags", "size", "block", "warp")
    )]  # fmt: skip
    return Counter(
        zip(
            *(field[row[0]].tolist() for field in fields), row[1].tolist(), address[row].tolist(), strict=True
        )
    )


@pytest.mark.parametrize("kernel", ["counted", "generic", "calls", "logged"])
def test_the_sanitizer_sees_the_same_accesses(folder: Path, kernel: str) -> None:
    with_nvbit, _ = _traced(folder, "nvbit_truth", "--events", "memory,instructions", "-k", f"{kernel}*")
    with_sanitizer, _ = _traced(folder, "nvbit_truth", "--events", "memory", "-k", f"{kernel}*")
    listed = Operands(with_nvbit.file).of(nvbit_truth.launch_of(with_nvbit, kernel).said)
    # Of a generic address the Sanitizer does not say which memory it is in.
    generic = {offset for offset, (text, _) in listed.items() if {"ST.E", "LD.E"} & set(text.split())}
    ours, theirs = (_lanes(trace, kernel, generic) for trace in (with_nvbit, with_sanitizer))
    assert sorted((ours - theirs).items()) == sorted((theirs - ours).items()) == []


def test_records_of_every_size_come_through_a_small_ring(folder: Path) -> None:
    trace, _ = _traced(
        folder, "event_truth", "--events", "registers,memory", "--when", "both", "--ring-mib", "1"
    )  # fmt: skip
    assert trace.notes == []


def test_nothing_is_lost_in_a_small_ring(folder: Path) -> None:
    trace, _ = _traced(
        folder, "event_truth", "--events", "memory", "--sass", "LDG|STG", "--ring-mib", "1", arguments=("measure", "4194304", "1")
    )  # fmt: skip
    assert len(trace.events) == 2 * 2 * 4194304 // 32
    assert trace.notes == []


def test_cutracers_files_are_written_from_it(folder: Path) -> None:
    trace, _ = _traced(folder, "nvbit_truth", "--events", "registers,memory", "-k", "logged*", "--predicates")
    imported, exported = folder / "logged.warp", folder / "logged.ndjson"
    for command in (
        ["import", trace.name, "-o", str(imported), "--force"],
        ["export", str(imported), "--to", "cutracer", "-o", str(exported), "--force"],
        ["sass", "validate", str(exported)],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "warpsight", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
    kinds = Counter(json.loads(line)["type"] for line in exported.read_text().splitlines())
    assert kinds["reg_trace"] > 0
    assert kinds["mem_addr_trace"] == 9


def test_warps_wait_at_any_instruction(folder: Path) -> None:
    program, made, log = folder / "nvbit_truth", folder / "plan.json", folder / "log"
    _traced(folder, "nvbit_truth", "--events", "instructions", "-k", "none")
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "race",
        "points",
        "-f",
        "-o",
        made,
        "-k",
        "counted*",
        "--any",
        "MEMBAR|STG",
    ]
    options = ["--floor-ns", "1000", "--ceiling-ns", "9000", "--seed", "6"]
    done = subprocess.run([*command, *options, "--", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = plan.read(made)
    assert sorted(point.opcode.split(".")[0] for point in found.points) == ["MEMBAR", "STG", "STG"]
    logs = []
    for _ in range(2):
        code = subprocess.run(
            [program], env={**os.environ, **delays.environment(made, log)}, check=False
        ).returncode
        assert code == 0
        assert delays.losses(log) == []
        logs.append(delays.read_log(found, log))
        for file in delays.logs(log):
            file.unlink()
    # Two blocks of three warps: the store in the loop warp + 3 times, the others once.
    assert [len(one["point"]) for one in logs] == [2 * sum(warp + 3 + 2 for warp in range(3))] * 2
    keys = [sorted(zip(*(one[name].tolist() for name in one), strict=True)) for one in logs]
    assert keys[0] == keys[1]
    one = logs[0]
    for at, point in enumerate(found.points):
        own = one["point"] == at
        where = (one[name][own] for name in ("launch", "cta", "warp", "occurrence"))
        assert np.array_equal(one["delay_ns"][own], model.delays(found, point, *where))


@pytest.fixture(scope="module")
def tensor_copies(folder: Path) -> tuple[EventTrace, list[dict[str, Any]]]:
    """A trace of every form of copy, and what the program says of each launch; both are kept where OUT is set."""
    trace, printed = _traced(folder, "tma_truth", "--events", "tensor-copies")
    if out := os.environ.get("OUT"):
        (folder / "tma.json").write_text(printed)
        with tarfile.open(Path(out, "tma.tar.gz"), "w:gz") as packed:
            packed.add(folder / "tma_truth.events", "tma.events")
            packed.add(folder / "tma.json", "tma.json")
    return trace, json.loads(printed)


def test_tensor_copies_are_those_that_the_program_issues(
    tensor_copies: tuple[EventTrace, list[dict[str, Any]]],
) -> None:
    tma_truth.check_operands(*tensor_copies)


def test_tensor_maps_are_those_that_the_program_made(
    tensor_copies: tuple[EventTrace, list[dict[str, Any]]],
) -> None:
    tma_truth.check_maps(*tensor_copies)


def test_tiles_are_what_the_program_finds(tensor_copies: tuple[EventTrace, list[dict[str, Any]]]) -> None:
    tma_truth.check_tiles(tensor_copies[1])


def test_tensor_copies_beside_other_classes_and_in_a_small_ring(folder: Path) -> None:
    trace, printed = _traced(
        folder, "tma_truth", "--events", "tensor-copies,registers,memory", "--ring-mib", "1", "--predicates"
    )  # fmt: skip
    tma_truth.check_operands(trace, json.loads(printed))
    assert trace.notes == []
