"""What instructions read and write, and which registers are live, as nvdisasm's life ranges have it.

`kinds` and `stalls` were built by `nvcc -std=c++17 -arch=sm_XX -cubin` of CUDA 13.0, the latter with -lineinfo.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.golden.cubins.test_cubins import cubin
from warpsight.device_code import registers
from warpsight.device_code.disassembly import find_tool
from warpsight.device_code.kernel_info import indirect_targets, register_count
from warpsight.sass.code import KernelCode, kernels

HERE = Path(__file__).resolve().parent
#: Every architecture and every kind of instruction; the others have nothing more, and each costs seconds.
_CHOSEN = ("kinds", "stalls", "matrix_products", "warpgroup_tma", "cub_deep.sm_90", "polls.plain.sm_120")
NAMES = sorted(
    path.name.removesuffix(".cubin.xz") for path in HERE.glob("*.cubin.xz") if path.name.startswith(_CHOSEN)
)
FILES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
#: What a call does to registers is the callee's matter.
CALLS = ("CALL", "RET", "EXIT", "BSYNC")


@cache
def life_ranges(name: str) -> list[tuple[str, int, int, int, int]]:
    """What :func:`_life_ranges` finds for a stored cubin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code.cubin")
        path.write_bytes(cubin(name).elf.data.tobytes())
        return list(_life_ranges(path))


@cache
def opened(name: str) -> dict[str, KernelCode]:
    """The kernels of a stored cubin."""
    return {one.name: one for one in kernels(cubin(name))}


def _life_ranges(path: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """(section, instruction, read, written, live) as nvdisasm prints them, one character for each register."""
    tool = find_tool("nvdisasm")
    if tool is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    text = subprocess.run(
        [tool, "-lrm", "narrow", "-c", path], capture_output=True, text=True, check=True
    ).stdout
    section, titles, heads, columns = "", [], [], []
    for line in text.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.(.+?),", line):
            section = found[1].strip('"')
            continue
        left, mark, right = line.partition("// |")
        cells = ("|" + right).split("|")[1:-1]
        if not mark:
            continue
        if not left.strip() and any(name in right for name in FILES):
            titles, heads, columns = [cell.strip() for cell in cells], [], []
        elif not left.strip() and re.fullmatch(r"[ |#0-9]+", right.strip()) and not columns:
            heads.append(cells)
            if "#" in right:
                columns = [_numbers(titles[n], n, heads) for n in range(len(titles))]
        elif instruction := re.match(r"\s*/\*([0-9a-f]+)\*/", left):
            sets = [0, 0, 0]
            for column, cell in zip(columns, cells, strict=False):
                for at, bit in column.items():
                    for number, marks in enumerate(("vx", "^x", ":vx^")):
                        sets[number] |= bit if cell[at : at + 1] in marks and cell[at : at + 1] else 0
            yield section, int(instruction[1], 16) // 16, *sets


def _numbers(title: str, column: int, heads: list[list[str]]) -> dict[int, int]:
    """Place in a column → register."""
    if title not in FILES:
        return {}
    found = {}
    for at in range(heads[-1][column].index("#") + 1, len(heads[-1][column])):
        digits = "".join(head[column][at : at + 1] for head in heads).strip()
        if digits.isdigit():
            found[at] = registers.register(FILES[title], int(digits))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_reads_and_writes_what_nvdisasm_says(name: str) -> None:
    found = opened(name)
    checked = 0
    for section, index, read, written, _ in life_ranges(name):
        one = found[section].instructions[index]
        if one.operation in CALLS:
            continue
        ours = (0, 0) if one.never else (one.access.reads, one.access.writes)
        barriers = registers.whole("B")
        assert tuple(registers.names(bits & ~barriers) for bits in ours) == (
            registers.names(read), registers.names(written)), (section, hex(index * 16), one.text)  # fmt: skip
        checked += 1
    assert checked >= 8


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.startswith(("kinds", "stalls", "cub_deep", "polls"))]
)
def test_no_register_is_live_that_nvdisasm_has_not(name: str) -> None:
    """nvdisasm keeps values alive that a guarded write ends on all lanes, and the stack pointer; never fewer than are needed."""
    found = opened(name)
    checked = 0
    for section, index, _, written, theirs in life_ranges(name):
        code = found[section]
        if code.graph.calls or code.graph.unresolved or index >= code.length:
            continue
        ours = (code.live.before[index] | code.live.after[index] | written) & ~registers.whole("B")
        extra = ours & ~theirs & ~registers.register("R", 1)
        assert _conditional(code, extra), (section, hex(index * 16), registers.names(extra))
        checked += 1
    assert checked >= 50


def _conditional(code: KernelCode, extra: int) -> bool:
    """Whether registers are written under a guard somewhere: there, the two analyses may differ."""
    guarded = 0
    for one in code.instructions:
        guarded |= one.access.writes if one.access.guard else 0
    return not extra & ~guarded


@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_indirect_branches_lead_where_the_cubin_says(architecture: int) -> None:
    switch = opened(f"stalls.sm_{architecture}")["branches"]
    targets = indirect_targets(switch.cubin, "branches")
    branches = [one.index for one in switch.instructions if one.operation == "BRX"]
    assert branches and sorted(offset // 16 for offset in targets) == branches
    assert switch.graph.unresolved == []
    for branch in branches:
        assert set(switch.graph.following[branch]) == {target // 16 for target in targets[branch * 16]}
    assert register_count(switch.cubin, switch.section) >= 8


@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_loops_and_calls(architecture: int) -> None:
    found = opened(f"stalls.sm_{architecture}")
    loops = {name: [loop.depth for loop in one.graph.loops] for name, one in found.items() if one.graph.loops}
    assert {"load_in_loop", "pointer_chase"} <= set(loops)
    assert found["load_use"].graph.loops == []
    divide = found["divide"].graph
    assert len(divide.entries) == 2, "the kernel, and the routine for the slow cases of division"
    entry = divide.entries[1]
    assert divide.callers[entry] and divide.returns[entry]
    body = divide.functions[entry]
    assert not body & divide.functions[0]
