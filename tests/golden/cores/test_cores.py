"""Dumps from an H200 (driver 580, CUDA 13.0) say what cuda-gdb says about them, and what their programs' sources say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cores.golden_cores import NAMES, ROOT, debugger_text, unpack
from tests.gpu.broken.truth import fits, markers, truths, wrong_about_hang
from warpsight.debug import cuda_gdb
from warpsight.debug.core_verdict import decode
from warpsight.debug.cuda_gdb_check import compare_view
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.groups import join
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.summary import SummaryOptions, View
from warpsight.debug.gpucore.thread import Selector, select, thread_state

CUBINS = ROOT / "tests/golden/cubins"
WITH_LINES = [name for name in NAMES if not name.endswith(".plain")]


def document(name: str, folder: Path) -> dict[str, Any]:
    options = SummaryOptions(instructions=False, sources=(str(ROOT / "tests/gpu/broken"),), ptx=(CUBINS,))
    return View(GpuCore.open(unpack(name, folder)), options).document()


@pytest.mark.parametrize("name", NAMES)
def test_kernels_exception_error_pc_blocks_and_every_threads_pc_are_those_of_cuda_gdb(
    name: str, tmp_path: Path
) -> None:
    core = GpuCore.open(unpack(name, tmp_path))
    view = cuda_gdb.parse(debugger_text(name))
    differences, report = compare_view(core, view)
    assert differences == 0, "\n".join(report["lines"])
    compared = {check["what"].split(" of grid")[0] for check in report["checks"]}
    assert {"number of kernels", "kernel", "exception", "threads by PC", "blocks"} <= compared
    assert ("error PC" in compared) == (view.error_pc is not None)
    assert core.problems == []


@pytest.mark.parametrize("name", WITH_LINES)
def test_lines_inlined_calls_lanes_waits_and_causes_are_those_of_the_source(
    name: str, tmp_path: Path
) -> None:
    truth = truths()[name.split(".")[0]]
    found = document(name, tmp_path)
    assert found["kind"] == truth.kind
    if truth.kind == "exception":
        fault = found["faults"][0]
        assert fault["kernel"].startswith(truth.places[0].kernel)
        assert not truth.exceptions or fault["code"] in truth.exceptions
        assert tuple(fault["where"]["block"]) == truth.fault_block
        assert fits(fault["at"]["frames"], truth.places[0]), fault["at"]["frames"]
        return
    wrong = wrong_about_hang(found, truth)
    assert not wrong, "\n".join([*wrong, "", *found["explanation"]])


def test_a_kernel_without_lines_says_how_to_get_them(tmp_path: Path) -> None:
    found = document("spin_flag.plain", tmp_path)
    assert found["places"][0]["at"]["frames"] == []
    assert any("NVCC_PREPEND_FLAGS=-lineinfo" in note for note in found["notes"])
    with_lines = document("spin_flag.lineinfo", tmp_path)
    assert with_lines["notes"] == []


@pytest.mark.parametrize(
    "name", ["misaligned_address.lineinfo", "spin_flag.lineinfo", "stack_overflow.lineinfo"]
)
def test_registers_and_predicates_of_the_debuggers_thread_are_equal(name: str, tmp_path: Path) -> None:
    text = debugger_text(name)
    focus = cuda_gdb.parse(text).focus
    assert focus is not None
    core = GpuCore.open(unpack(name, tmp_path))
    chosen = Selector(sm=focus.sm, warp=focus.warp, lane=focus.lane, block=focus.block, thread=focus.thread)
    (lane,) = select(core, chosen)
    state = thread_state(core, lane)
    theirs = {m[1]: int(m[2], 16) for m in re.finditer(r"^(U?[RP]\d+)\s+0x([0-9a-f]+)", text, re.MULTILINE)}
    ours = {f"R{i}": value for i, value in enumerate(state.registers[: len(state.registers) - 2])}
    ours |= {f"P{i}": value for i, value in enumerate(state.predicates[:7])}
    ours |= {f"UR{i}": value for i, value in enumerate(state.uniform_registers)}
    shared = ours.keys() & theirs.keys()
    assert len(shared) > 80
    assert {k: ours[k] for k in shared} == {k: theirs[k] for k in shared}


def test_the_calls_of_a_recursion_are_the_debuggers_backtrace(tmp_path: Path) -> None:
    core = GpuCore.open(unpack("stack_overflow.lineinfo", tmp_path))
    printed = debugger_text("stack_overflow.lineinfo").split("[[bt]]")[1]
    theirs = re.findall(r"^#\d+\s+0x([0-9a-f]+) in", printed, re.MULTILINE)
    frames = thread_state(core, 0).calls
    assert [frame.address for frame in frames] == [int(address, 16) for address in theirs]


def test_parameters_shared_and_global_memory_hold_what_the_program_passed(tmp_path: Path) -> None:
    core = GpuCore.open(unpack("misaligned_address.lineinfo", tmp_path))
    state = thread_state(core, 0, join(core))
    assert state.parameters is not None
    bytes_, out, offset = (int.from_bytes(state.parameters[i : i + 8], "little") for i in (0, 8, 16))
    assert offset & 0xFFFFFFFF == 4  # the third argument: four bytes off
    assert bytes_ and out and bytes_ != out
    everything = GpuCore.open(unpack("spin_flag.all", tmp_path))
    flag = int.from_bytes(thread_state(everything, 0).parameters or b"", "little") & (1 << 64) - 1
    assert everything.memory(flag, 8) == bytes(8)  # the flag nobody set
    light = GpuCore.open(unpack("spin_flag.light", tmp_path))
    assert light.memory(flag, 8) is None
    assert thread_state(light, 0).shared is None and thread_state(light, 0).local is None


def test_warps_tell_exited_diverged_and_blocked_lanes(tmp_path: Path) -> None:
    (grid,) = document("warp_divergence.lineinfo", tmp_path)["grids"]
    assert (grid["lanes_active"], grid["lanes_diverged"], grid["lanes_exited"]) == (16, 14, 2)
    core = GpuCore.open(unpack("warp_divergence.lineinfo", tmp_path))
    assert int(core.table(Kind.WARPS).rows["cbu_exited"][0]) == 0b1010


@pytest.mark.parametrize(
    ("name", "thread"), [("shared_out_of_range.lineinfo", 9), ("illegal_address.debug", 7)]
)
def test_the_registers_tell_which_thread_of_the_warp_it_was(name: str, thread: int, tmp_path: Path) -> None:
    (fault, *_) = document(name, tmp_path)["faults"]
    assert [suspect["thread"] for suspect in fault["accesses"]["suspects"]] == [[thread, 0, 0]]
    assert fault["accesses"]["size"] == 4


def test_an_address_register_that_was_overwritten_is_not_used(tmp_path: Path) -> None:
    (fault,) = document("misaligned_address.lineinfo", tmp_path)["faults"]
    assert fault["accesses"] is None  # LDG.E.128 R4, [R4.64]: the load's own destination


def test_a_jump_to_nowhere_has_the_line_it_was_called_from(tmp_path: Path) -> None:
    (fault,) = document("invalid_call.lineinfo", tmp_path)["faults"]
    assert fault["at"]["frames"] == [] and fault["at"]["function"] is None
    marked = markers("invalid_call.cu")
    assert [frame["line"] for frame in fault["calls"][0]["frames"]] == [marked["call"]]


def test_the_size_that_drivers_write_of_cooperative_grids_is_not_believed(tmp_path: Path) -> None:
    core = GpuCore.open(unpack("grid_sync.lineinfo", tmp_path))
    assert core.table(Kind.GRIDS).rows["grid"].tolist() == [[1, 1, 1]]  # four were launched
    assert document("grid_sync.lineinfo", tmp_path)["grids"][0]["blocks"] is None
    assert [kernel["grid"] for kernel in decode(core.path)["kernels"]] == [
        None
    ]  # a launch of any size may be its own


def test_blocks_that_do_not_fit_are_named_before_those_that_wait_for_them(tmp_path: Path) -> None:
    found = document("grid_generation.lineinfo", tmp_path)
    assert found["explanation"][0].startswith(
        "264 of 600 blocks are on the device, and each of them polls memory. The other 336 cannot start before one of these "
        "ends, and these seem to wait for a count that includes them"
    )
    (counted,) = document("grid_barrier.lineinfo", tmp_path)["missing_blocks"]
    assert counted["text"].split(". ")[1].endswith("a count that includes them: it is at 132 of 232")
