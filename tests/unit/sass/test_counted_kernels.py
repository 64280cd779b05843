"""Exact counts of a stored kernel: added up by line and by operation, and beside its instructions."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sass.kernels import CHECKSUM, kernel
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace
from warpsight.model.storage.writer import TraceWriter
from warpsight.sass import recorded
from warpsight.sass.code import KernelCode
from warpsight.sass.counts.kernels import counted_kernels
from warpsight.sass.listing import listing
from warpsight.ui.render.sass import counts as shown

#: Of each instruction with index i: i warps execute it with 16 of 32 lanes switched off, each touching 4 sectors.
OF_ONE = {
    "inst_executed": 1,
    "thread_inst_executed": 32,
    "thread_inst_executed_pred_on": 16,
    "sectors_mem_global": 4,
}


@pytest.fixture
def code() -> KernelCode:
    return kernel("load_in_loop")


@pytest.fixture
def trace(code: KernelCode, tmp_path: Path) -> Iterator[StoredTrace]:
    path = tmp_path / "a.warp"
    with TraceWriter(path) as writer:
        name = writer.name(code.name)
        rows = [
            {"start": 0, "duration": 9, "name_id": name, "checksum": CHECKSUM, "pc": index * 16, "metric": f"smsp__sass_{metric}",
             "value": index * value, "context": 1, "process": 1}
            for index in range(1, code.length) for metric, value in OF_ONE.items()
        ]  # fmt: skip
        writer.add("instruction_count", rows)
    (path / "cubins").mkdir()
    (path / "cubins" / f"{CHECKSUM:016x}.cubin").write_bytes(code.cubin.elf.data.tobytes())
    with open_trace(path) as opened:
        yield opened


def test_lines_and_operations_add_up_the_instructions(trace: StoredTrace, code: KernelCode) -> None:
    [found], _ = counted_kernels(trace)
    executions = sum(range(code.length))
    assert found.executions == executions
    assert (found.lanes, found.predicated_off) == (32.0, 16 * executions)
    assert found.l1_bytes == 4 * 32 * executions
    for level in ("instruction", "line"):
        assert sum(place.executions for place in found.levels[level]) == executions
    assert sum(counts.executions for counts in found.operations.values()) == executions
    loads = [one.index for one in code.instructions[: code.length] if one.operation == "LDG"]
    assert found.operations["LDG"].executions == sum(loads)


def test_counts_stand_beside_the_instructions_of_a_listing(trace: StoredTrace) -> None:
    chosen = recorded.choose(recorded.listed_kernels(trace), None, "here")
    assert chosen.code is not None
    rows = listing(chosen.code, chosen.samples, chosen.counts).rows
    assert [row.figures for row in rows[:3]] == [(None, "", ""), (1, "16", "4"), (2, "16", "4")]


def test_kernels_are_shown_with_their_places(trace: StoredTrace, code: KernelCode) -> None:
    stream = io.StringIO()
    shown.show(counted_kernels(trace, levels=("instruction",))[0], [], stream, 0, 1)
    text = stream.getvalue()
    assert f"({sum(range(code.length)):,} executed by warps)" in text
    assert "32 of 32 lanes, 50% of them switched off" in text
    assert f"+{(code.length - 1) * 16:#06x}" in text
