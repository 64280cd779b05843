"""Everything that is read from the code of a cubin, as plain data that can be compared with stored data.

`python -m tests.golden.reading_code [NAME…]` writes `answers/` anew; the difference in version control is what to review.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from tests.golden.answering import ANSWERS, plain
from warpsight.device_code import kernel_info, latencies, registers
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.deferred import deferred_barrier
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.flow import polling
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.sass.code import KernelCode, kernels

CUBINS = Path(__file__).parent / "cubins"
#: One of every source, and every architecture.
NAMES = (
    "add_under_lock.triton.sm_90", "gather_kernel.triton.sm_90", "kinds.plain.sm_90", "matrix_products.plain.sm_90",
    "polls.plain.sm_120", "polls.plain.sm_80", "spin_flag.debug.sm_90", "stack_overflow.sm_90", "stalls.sm_80",
    "stalls.sm_100", "three_lines.sm_90", "warpgroup_tma.sm_100",
)  # fmt: skip


def code_of(name: str) -> dict[str, Any]:
    """Kernel → what is read from it."""
    cubin = Cubin(lzma.decompress((CUBINS / f"{name}.cubin.xz").read_bytes()), name)
    if (source := CUBINS / f"{name.split('.')[0]}.ptx").exists():
        cubin.use_ptx([source])
    functions = [(one.name, one.kernel, one.offset, one.size) for one in cubin.functions]
    found = {one.name: _kernel(one) for one in kernels(cubin)}
    return {
        "functions": plain(functions),
        "architecture": cubin.architecture,
        "ptx": plain(cubin.ptx),
        **found,
    }


def _kernel(code: KernelCode) -> dict[str, Any]:
    flow, graph = ControlFlow(code.code, code.architecture), code.graph
    polls = []
    for index in range(len(code.instructions)):
        loop = flow.loop_around(index)
        polls.append(None if loop is None else (loop, polling.poll_of(flow, loop)))
    return plain(
        {
            "name": [demangle(code.name), short(demangle(code.name))],
            "registers": code.registers,
            "parameters": kernel_info.parameters(code.cubin, code.name),
            "length": code.length,
            "checksum": code.checksum,
            "instructions": [_instruction(code, index) for index in range(len(code.instructions))],
            "distances": _distances(code),
            "blocks": [(one.first, one.last, one.successors, one.predecessors) for one in graph.blocks],
            "dominators": graph.dominators,
            "loops": [(one.head, sorted(one.blocks), one.parent, one.depth) for one in graph.loops],
            "calls": graph.calls,
            "returns": graph.returns,
            "unresolved": graph.unresolved,
            "highest pressure": code.live.highest,
            "polls": polls,
            "deferred": [deferred_barrier(flow, index) for index in range(len(code.instructions))],
            "grid size": polling.reads_grid_size(flow),
            "counts in memory": polling.counts_in_memory(flow),
        }
    )


def _instruction(code: KernelCode, index: int) -> dict[str, Any]:
    one = code.instructions[index]
    offset = one.offset
    return {
        "text": one.text,
        "scheduling": f"{one.scheduling} {one.scheduling.reuse:04b} {one.scheduling.sets:06b}",
        "reads": registers.names(one.access.reads),
        "writes": registers.names(one.access.writes),
        "addresses": registers.names(one.access.addresses),
        "live": registers.names(code.live.before[index]),
        "kind": one.kind,
        "latency": (latencies.usual_latency(one), latencies.longest_latency(one)),
        "following": code.graph.following[index],
        "loop": code.graph.loop_at(index),
        "frames": [f"{one.function} {Path(one.file).name}:{one.line}" for one in code.frames(index)],
        "ptx": code.cubin.ptx_at(code.section, offset),
    }


def _distances(code: KernelCode) -> list[int | None]:
    """Between an instruction and the next one that reads what it writes, in cycles."""
    found: list[int | None] = []
    for one in code.instructions:
        later = (
            other for other in code.instructions[one.index + 1 :] if other.access.reads & one.access.writes
        )
        reader = next(later, None)
        if reader is None:
            found.append(None)
        else:
            read = reader.access.reads & one.access.writes
            found.append(latencies.fixed_latency(one, reader, read))
    return found


def main(names: list[str]) -> None:
    """Write what is read from some cubins, from all by default."""
    for name in names or NAMES:
        text = json.dumps(code_of(name), indent=1, ensure_ascii=False, sort_keys=True)
        (ANSWERS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
