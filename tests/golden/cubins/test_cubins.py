"""Source chains of cubins from nvcc 13.0 for sm_80, sm_90 and sm_100 (deep CUB templates), from nvcc -G and from Triton.

Built by `nvcc -std=c++17 -arch=sm_XX -lineinfo -cubin NAME.cu` from the sources beside them; `spin_flag` and `stack_overflow`
are the programs of tests/gpu/broken.
"""

from __future__ import annotations

import lzma
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info import ptx_files
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.demangle import short
from warpsight.device_code.disassembly import find_tool

HERE = Path(__file__).resolve().parent
NVCC = sorted(
    p.name.removesuffix(".cubin.xz")
    for p in HERE.glob("*.cubin.xz")
    if not any(word in p.name for word in ("triton", "plain", "warpgroup"))  # nothing is inlined in the last
)
Chain = tuple[tuple[str, int], ...]


def cubin(name: str) -> Cubin:
    return Cubin(lzma.decompress((HERE / f"{name}.cubin.xz").read_bytes()), name)


def positions(frames: tuple[Frame, ...]) -> Chain:
    return tuple((frame.file, frame.line) for frame in frames)


def nvdisasm(path: Path) -> Iterator[tuple[str, int, bool, Chain]]:
    """(section, offset, whether the chain is fresh, chain) of each instruction, as `nvdisasm -gi` prints them."""
    tool = find_tool("nvdisasm")
    if tool is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    text = subprocess.run(
        [tool, "-ndf", "-c", "-gi", path], capture_output=True, text=True, check=True
    ).stdout
    section, fresh, chain = "", [], ()
    for line in text.splitlines():
        if m := re.match(r"\s*\.section\s+\.text\.(\S+?),", line):
            section, fresh, chain = m[1], [], ()
        elif m := re.match(r'\s*//## File "(.*?)", line (\d+)', line):
            fresh.append((m[1], int(m[2])))
        elif (m := re.match(r"\s*/\*([0-9a-f]{4,})\*/", line)) and section:
            chain = tuple(fresh) or chain
            if chain:
                yield section, int(m[1], 16), bool(fresh), chain
            fresh = []


@pytest.mark.parametrize("name", NVCC)
def test_chains_equal_nvdisasm_wherever_it_prints_a_new_one(name: str, tmp_path: Path) -> None:
    code = cubin(name)
    path = tmp_path / "code.cubin"
    path.write_bytes(code.elf.data.tobytes())
    fresh = deepest = 0
    for section, offset, is_fresh, theirs in nvdisasm(path):
        index = code.section_of(section)
        assert index is not None
        ours = code.chain(index, offset)
        assert ours is not None
        raw = positions(ours.raw)
        assert raw[0] == theirs[0], (section, hex(offset))
        if is_fresh:
            assert raw == theirs, (section, hex(offset))
            fresh += 1
        deepest = max(deepest, len(raw))
    assert fresh >= 5
    assert deepest >= (12 if name.startswith("cub_deep") else 1)
    assert code.elf.problems == []


@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_one_helper_inlined_on_three_lines_gives_three_lines(architecture: int) -> None:
    """nvdisasm prints line 6 for all three stores, the line table alone says 8 for all."""
    code = cubin(f"three_lines.sm_{architecture}")
    (section,) = code.sections
    stores = [offset for offset in range(0, 0x200, 16) if _is_store(code.instructions(section), offset)]
    chains = [code.chain(section, offset) for offset in stores]
    assert all(chain is not None for chain in chains)
    lines = [tuple(frame.line for frame in chain.frames) for chain in chains if chain]
    assert lines == [(1, 6), (1, 7), (1, 8)]
    names = {tuple(short(frame.function) for frame in chain.frames) for chain in chains if chain}
    assert names == {("put", "three_lines")}
    assert any(chain.refined and chain.raw != chain.frames for chain in chains if chain)


def _is_store(code: bytes, offset: int) -> bool:
    return int.from_bytes(code[offset : offset + 2], "little") & 0xFFF == 0x986  # STG


def test_functions_of_a_chain_have_their_names() -> None:
    code = cubin("cub_deep.sm_90")
    kernels = {code.sections[s]: s for s in code.sections}
    section = next(s for name, s in kernels.items() if "block_sum" in name)
    deepest = max(
        (code.chain(section, offset) for offset in range(0, len(code.instructions(section)), 16)),
        key=lambda chain: len(chain.frames) if chain else 0,
    )
    assert deepest is not None
    names = [short(frame.function) for frame in deepest.frames]
    assert names[-1] == "block_sum" and "cub::BlockReduce::Sum" in [
        "::".join(n.split("::")[0:1] + n.split("::")[-2:]) for n in names
    ]
    assert all(frame.file and frame.line for frame in deepest.frames)


@pytest.mark.parametrize("architecture", [80, 90])
def test_debug_builds_have_their_inlined_calls_from_dwarf(architecture: int) -> None:
    code = cubin(f"spin_flag.debug.sm_{architecture}")
    (section,) = code.sections
    chains = {
        tuple((short(frame.function), frame.line) for frame in chain.frames)
        for offset in range(0, len(code.instructions(section)), 16)
        if (chain := code.chain(section, offset)) and chain.origin == "dwarf"
    }
    assert (("wait_until_set", 5), ("consume", 9), ("spin_flag", 14)) in chains


def test_a_function_that_was_not_inlined_has_its_own_name() -> None:
    code = cubin("stack_overflow.sm_90")
    (section,) = code.sections
    assert [function.name for function in code.functions] == ["_Z14stack_overflowPKiPi", "_Z7descendPVKii"]
    inner = code.chain(section, 0x150)
    assert inner is not None and short(inner.innermost.function) == "descend"
    outer = code.chain(section, 0x10)
    assert outer is not None and short(outer.innermost.function) == "stack_overflow"


def test_a_cubin_without_lines_has_no_chains() -> None:
    code = cubin("spin_flag.plain.sm_90")
    (section,) = code.sections
    assert not code.has_lines and code.chain(section, 0) is None


def test_call_sites_of_triton_come_from_its_ptx() -> None:
    code = cubin("gather_kernel.triton.sm_90")
    section = code.section_of("gather_kernel")
    assert section is not None
    alone = code.chain(section, 0xE0)
    assert alone is not None and [frame.line for frame in alone.frames] == [11]
    code.use_ptx([HERE])
    chain = code.chain(section, 0xE0)
    assert chain is not None and chain.origin == "ptx file"
    assert [(frame.line, frame.column) for frame in chain.frames] == [(11, 19), (17, 31)]


def test_ptx_of_another_build_is_left_alone() -> None:
    embedded = cubin("gather_kernel.triton.sm_90").elf.bytes_of(".nv_debug_ptx_txt")
    own, other = ((HERE / f"{kernel}.ptx").read_text() for kernel in ("gather_kernel", "add_under_lock"))
    assert ptx_files.matches(own, embedded)
    assert not ptx_files.matches(other, embedded)
    shifted = own.replace("\n.version", "\n\n.version", 1)
    assert not ptx_files.matches(shifted, embedded)
