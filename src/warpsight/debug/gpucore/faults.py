"""The verdict on a dump: its exceptions, and which came first in the debugger's order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code, mask_lanes
from warpsight.debug.gpucore.layout import Kind, exception_name
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.debug.gpucore.waiting.instructions import trap_before

#: Not one of the debugger's codes: a warp that stopped at a trap or breakpoint.
_TRAP = 0


@dataclass(frozen=True)
class Fault:
    """The exception of one warp, or of a multiprocessor whose warps are gone.

    Attributes:
        code, name: the exception; :data:`_TRAP` for a trap.
        device, sm: their ids; sm_row: row of the SM table.
        warp: row of the warp table, None when the warp had left.
        lanes: which lanes of the warp it names.
        pc: the instruction that raised it; None when the hardware did not say.
        message: the driver's own words, if any (driver 580 and later).
        target: block that a cluster access went to.
    """

    code: int
    name: str
    device: int
    sm: int
    sm_row: int
    warp: int | None
    lanes: tuple[int, ...]
    pc: int | None
    message: str = ""
    target: tuple[int, int, int] | None = None


def faults(core: GpuCore, code: Code) -> list[Fault]:
    """Every exception of a dump, by device, multiprocessor and warp.

    A warp's exception is that of its lanes. If they have none but there is a valid error PC, it is that of the multiprocessor. A
    broken warp without either stopped at a trap. The error PC is reported if there is one, because the lanes' PC is past it.
    """
    warps, lanes, sms = core.table(Kind.WARPS), core.table(Kind.LANES), core.table(Kind.SMS)
    code_of_warp = np.zeros(len(warps), np.int64)
    owned = lanes.parent >= 0
    np.maximum.at(code_of_warp, lanes.parent[owned], lanes.rows["exception"][owned].astype(np.int64))
    sm_of_warp = _sm_of_warps(core)
    valid = warps.rows["error_pc_valid"] != 0
    sm_code = np.where(sm_of_warp >= 0, sms.rows["exception"][sm_of_warp] if len(sms) else 0, 0)
    code_of_warp = np.where((code_of_warp == 0) & valid, sm_code, code_of_warp)
    struck = np.flatnonzero((code_of_warp != 0) | valid | (warps.rows["broken"] != 0)).tolist()
    found = [_of_warp(core, code, warp, int(code_of_warp[warp]), int(sm_of_warp[warp])) for warp in struck]
    covered = {fault.sm_row for fault in found}
    for sm in np.flatnonzero(sms.rows["exception"] != 0).tolist():
        if sm not in covered:
            number = int(sms.rows["exception"][sm])
            pc = int(sms.rows["error_pc"][sm]) if sms.rows["error_pc_valid"][sm] else None
            found.append(
                Fault(number, exception_name(number), *_sm(core, sm), None, (), pc, *_words(core, sm))
            )
    return sorted(found, key=lambda f: (f.device, f.sm, -1 if f.warp is None else f.warp))


def _of_warp(core: GpuCore, code: Code, warp: int, number: int, sm: int) -> Fault:
    row, lanes = core.table(Kind.WARPS).rows[warp], core.table(Kind.LANES)
    mine = np.flatnonzero(lanes.parent == warp)
    raised = mine[lanes.rows["exception"][mine] != 0]
    named = lanes.rows["lane"][raised].tolist() or mask_lanes(int(row["active"]))
    pc: int | None = int(row["error_pc"]) if row["error_pc_valid"] else None
    at = mine[np.isin(lanes.rows["lane"][mine], named)]
    if pc is None and len(at):
        pc = int(lanes.rows["pc"][at[0]])
        if number == _TRAP and trap_before(pc, code.instruction):
            pc -= 16
    name = exception_name(number) if number else "Trap"
    return Fault(number, name, *_sm(core, sm), warp, tuple(named), pc, *_words(core, sm))


def _sm(core: GpuCore, sm: int) -> tuple[int, int, int]:
    """Device id, SM id and row of the SM."""
    table, devices = core.table(Kind.SMS), core.table(Kind.DEVICES)
    if not 0 <= sm < len(table):
        return -1, -1, sm
    device = int(table.parent[sm])
    return int(devices.rows["id"][device]) if device >= 0 else -1, int(table.rows["id"][sm]), sm


def _words(core: GpuCore, sm: int) -> tuple[str, tuple[int, int, int] | None]:
    table = core.table(Kind.SMS)
    if not 0 <= sm < len(table):
        return "", None
    x, y, z = table.rows["target"][sm].tolist()
    return core.text(int(table.rows["message"][sm])), (x, y, z) if table.rows["target_valid"][sm] else None


def _sm_of_warps(core: GpuCore) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Row of the SM table for each warp, -1 if unknown."""
    blocks, warps = core.table(Kind.BLOCKS), core.table(Kind.WARPS)
    parents = np.append(blocks.parent, -1)
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = parents[warps.parent]
    return found
