"""One thread as plain data, for JSON and for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.debug.gpucore.layout import BARRIER_SCOPES, Kind, lane_state
from warpsight.debug.gpucore.summary import View
from warpsight.debug.gpucore.thread import thread_state


def details(view: View, lane: int, around: int = 4) -> dict[str, Any]:
    """All data of a dump about one lane.

    Args:
        view: the summary of the dump.
        lane: row of the lane table.
        around: instructions before and after its PC, if nvdisasm is available.
    """
    core = view.core
    state = thread_state(core, lane, view.joined)
    row = core.table(Kind.LANES).rows[lane]
    pc = int(row["pc"])
    wait = view.wait(lane)
    address = view.fault_pc(lane) or (wait.address if wait else pc)
    code = view.code.disassemble(pc, around, around) if view.options.instructions else []
    active = bool(view.joined.active[lane])
    return {
        "where": view.lane(lane),
        "pc": hex(pc),
        "state": ("active" if active else "diverged") + (f", {lane_state(int(row['state']))}"),
        "exception": view.exception_of(lane),
        "waits_for": wait.text if wait else None,
        "calls": [view.at(address), *view.calls(lane)],
        "code": [{"address": hex(i.address), "text": i.text} for i in code],
        "registers": list(state.registers),
        "uniform_registers": list(state.uniform_registers),
        "predicates": [bool(value) for value in state.predicates],
        "uniform_predicates": [bool(value) for value in state.uniform_predicates],
        "convergence_barriers": list(state.barriers),
        "parameters": {"address": "constant bank 0", "hex": state.parameters.hex()}
        if state.parameters is not None
        else None,
        "shared": _memory(state.shared),
        "local": _memory(state.local),
    }


def warp_list(view: View) -> list[dict[str, Any]]:
    """Every warp: its place, lanes, PCs and wait, as in the debugger's `info cuda warps`."""
    core, found = view.core, []
    lanes = core.table(Kind.LANES)
    order = np.argsort(view.joined.warp, kind="stable")
    starts = np.searchsorted(view.joined.warp[order], np.arange(len(core.table(Kind.WARPS)) + 1))
    for row, warp in enumerate(core.table(Kind.WARPS).rows):
        mine = order[starts[row] : starts[row + 1]]
        active = mine[view.joined.active[mine]]
        first = int((active if len(active) else mine)[0]) if len(mine) else None
        wait = view.wait(first) if first is not None else None
        found.append(
            {
                **(view.lane(first) if first is not None else {"warp": int(warp["id"])}),
                "active": f"{int(warp['active']):#010x}",
                "diverged": f"{int(warp['valid']) & ~int(warp['active']) & 0xFFFFFFFF:#010x}",
                "exited": f"{int(warp['cbu_exited']):#010x}",
                "pc": hex(int(lanes.rows["pc"][first])) if first is not None else None,
                "pcs": [hex(pc) for pc in np.unique(lanes.rows["pc"][mine]).tolist()],
                "exception": view.exception_of(first) if first is not None else None,
                "error_pc": hex(int(warp["error_pc"])) if warp["error_pc_valid"] else None,
                "waits_for": wait.text if wait else None,
                "barrier_scope": BARRIER_SCOPES[int(warp["barrier_scope"])] or None
                if warp["barrier_scope"] < len(BARRIER_SCOPES)
                else None,
                "barrier": core.text(int(warp["barrier_info"])) or None,
            }
        )
    return found


def _memory(found: tuple[bytes, int] | None) -> dict[str, str] | None:
    return None if found is None else {"address": hex(found[1]), "hex": found[0].hex()}
