"""Kernels of the stored cubins, and traces with samples of them."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.disassembly import find_tool
from warpsight.model.storage.writer import TraceWriter
from warpsight.sass.code import KernelCode

CUBINS = Path(__file__).resolve().parents[2] / "golden" / "cubins"
CHECKSUM = 0xC0FFEE
Rows = Iterable[tuple[int, str, int]]


def image(name: str) -> bytes:
    """The bytes of a stored cubin."""
    return lzma.decompress((CUBINS / f"{name}.cubin.xz").read_bytes())


@cache
def module(name: str) -> Cubin:
    """A stored cubin; skips the test without nvdisasm."""
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    return Cubin(image(name), name)


@cache
def kernel(name: str, cubin: str = "stalls.sm_90") -> KernelCode:
    """One kernel of a stored cubin."""
    found = module(cubin)
    section = found.section_of(name)
    assert section is not None
    return KernelCode(found, section, name)


def only(code: KernelCode, operation: str, number: int = 0) -> int:
    """The instruction, by its operation and which of them it is."""
    return [one.index for one in code.instructions[: code.length] if one.operation == operation][number]


def trace(
    path: Path, code: KernelCode, rows: Rows, *, with_code: bool = True, launched: bool = False
) -> Path:
    """A trace with samples: (instruction, reason, samples), four fifths of them in cycles without an issue."""
    with TraceWriter(path) as writer:
        process = 1
        name = writer.name(code.name)
        if launched:
            writer.add(
                "device",
                [
                    {
                        "device": 0,
                        "index": 0,
                        "uuid": "u",
                        "name": "H100",
                        "vendor": "NVIDIA",
                        "platform": "cuda",
                        "compute_capability": "9.0",
                        "multiprocessors": 132,
                        "host": "h",
                    }
                ],
            )
            shape = writer.shape(
                grid_x=66, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1, registers=32
            )
            writer.add("kernel", [{"start": 0, "duration": 9, "name_id": name, "shape_id": shape, "device": 0, "context": 1,
                                    "stream": 7, "graph_level": False,
                                   "process": process}])  # fmt: skip
        writer.add(
            "pc_sample",
            [
                {"start": 0, "duration": 10, "name_id": name, "checksum": CHECKSUM, "pc": index * 16, "reason": reason,
                 "samples": count, "not_issued": 0 if reason == "selected" else count * 4 // 5, "context": 1,
                 "process": process}
                for index, reason, count in rows
            ],
        )  # fmt: skip
    if with_code:
        (path / "cubins").mkdir()
        (path / "cubins" / f"{CHECKSUM:016x}.cubin").write_bytes(code.cubin.elf.data.tobytes())
    return path
