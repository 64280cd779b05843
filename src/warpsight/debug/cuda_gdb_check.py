"""Our reading of a core dump, compared with cuda-gdb's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from warpsight.debug import cuda_gdb
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.faults import faults
from warpsight.debug.gpucore.groups import join
from warpsight.debug.gpucore.layout import Kind
from warpsight.device_code.demangle import short

_TIMEOUT_S = 60.0


def compare(core: GpuCore) -> tuple[int, dict[str, Any]]:
    """Have cuda-gdb read the dump too, and compare kernels, exception, error PC, and the PC of every thread.

    Returns:
        The number of differences, and a report: `lines` for people, `checks` for programs.

    Raises:
        WarpsightError: when cuda-gdb is not installed or does not answer.
    """
    kernels = max(len(core.table(Kind.GRIDS)), 1)
    view = cuda_gdb.parse(cuda_gdb.run(cuda_gdb.core_commands(core.path, kernels), _TIMEOUT_S))
    return compare_view(core, view)


def compare_view(core: GpuCore, view: cuda_gdb.GdbState) -> tuple[int, dict[str, Any]]:
    """Compare a dump with the given output of cuda-gdb."""
    checks = [*_kernels(core, view), *_exception(core, view), *_threads(core, view)]
    differences = sum(not check["equal"] for check in checks)
    lines = [_line(check) for check in checks]
    lines.append(
        f"{len(checks)} comparisons with cuda-gdb, {differences} different"
        if checks
        else "cuda-gdb shows nothing to compare with"
    )
    return differences, {"differences": differences, "checks": checks, "lines": lines}


def _line(check: dict[str, Any]) -> str:
    if check["equal"]:
        return f"equal: {check['what']}: {check['ours']}"
    return f"DIFFERENT: {check['what']}: {check['ours']}, cuda-gdb says {check['theirs']}"


def _check(what: str, ours: object, theirs: object) -> dict[str, Any]:
    return {"what": what, "ours": ours, "theirs": theirs, "equal": ours == theirs}


def _kernels(core: GpuCore, view: cuda_gdb.GdbState) -> list[dict[str, Any]]:
    code, grids = Code(core), core.table(Kind.GRIDS)
    ours = {int(row["id"]): (index, row) for index, row in enumerate(grids.rows)}
    checks = [_check("number of kernels", len(grids), len(view.kernels))]
    for kernel in view.kernels:
        found = ours.get(kernel.grid_id)
        if found is None:
            checks.append(_check(f"grid {kernel.grid_id}", None, kernel.name))
            continue
        index, row = found
        mine = [_plain(code.grid_name(index)), row["grid"].tolist(), row["block"].tolist()]
        theirs = [_plain(kernel.name), list(kernel.grid), list(kernel.block)]
        checks.append(_check(f"kernel of grid {kernel.grid_id}", mine, theirs))
    return checks


def _plain(name: str) -> str:
    """A kernel's name without parameters and template arguments, which the two demanglers write differently."""
    return short(name) if "(" in name and not name.endswith("()") else short(name.removesuffix("()"))


def _exception(core: GpuCore, view: cuda_gdb.GdbState) -> list[dict[str, Any]]:
    found = faults(core, Code(core))
    first = found[0] if found else None
    checks = [_check("exception", first.name if first else None, view.exception)]
    if first is not None and view.error_pc is not None:
        checks.append(_check("error PC", hex(first.pc) if first.pc else None, hex(view.error_pc)))
    if first is not None and first.warp is not None and view.focus is not None:
        block = int(core.table(Kind.WARPS).parent[first.warp])
        mine = [first.device, first.sm, core.table(Kind.BLOCKS).rows["index"][block].tolist()]
        checks.append(_check("its block", mine, [view.focus.device, view.focus.sm, list(view.focus.block)]))
    return checks


def _threads(core: GpuCore, view: cuda_gdb.GdbState) -> list[dict[str, Any]]:
    """How many threads of each kernel are at each PC."""
    joined, lanes, grids = join(core), core.table(Kind.LANES), core.table(Kind.GRIDS)
    checks = []
    for kernel in view.kernels:
        rows = [threads for threads in view.threads if threads.kernel == kernel.number]
        grid = np.flatnonzero(grids.rows["id"] == np.uint64(kernel.grid_id & 0xFFFFFFFFFFFFFFFF))
        if not rows or not len(grid):
            continue
        theirs: Counter[str] = Counter()
        for row in rows:
            theirs[hex(row.pc)] += row.count
        pcs = lanes.rows["pc"][joined.grid == grid[0]].tolist()
        ours = Counter(hex(pc) for pc in pcs)
        checks.append(_check(f"threads by PC of grid {kernel.grid_id}", _sorted(ours), _sorted(theirs)))
        blocks = core.table(Kind.BLOCKS).rows["index"][np.unique(joined.block[joined.grid == grid[0]])]
        mine = sorted(map(tuple, blocks.tolist()))
        seen = [min(row.first_block for row in rows), max(row.last_block for row in rows)]
        checks.append(
            _check(f"blocks of grid {kernel.grid_id}", [list(mine[0]), list(mine[-1])], list(map(list, seen)))
        )
    return checks


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
