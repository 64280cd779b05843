"""Launches of a trace without completed kernels, and the one that a core dump's grid came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from warpsight.model import StoredTrace

_MOST = 1000
# For graphs, only the launch as a whole is known; host functions have no kernel.
_OUTSTANDING = """
WITH done AS (SELECT DISTINCT process, correlation FROM kernel_ids WHERE start IS NOT NULL)
SELECT l.process, p.pid, l.thread, l.start, l.function, n.name, n.demangled, l.correlation, l.stack,
       s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z
FROM launch_ids l JOIN process p USING (process) LEFT JOIN name n ON n.id = l.name_id LEFT JOIN shape s ON s.id = l.shape_id
LEFT JOIN done d ON d.process = l.process AND d.correlation = l.correlation
WHERE d.correlation IS NULL AND NOT coalesce(l.captured, false) AND l.result = 0 AND l.function NOT LIKE '%HostFunc%'
ORDER BY l.start LIMIT {limit}
"""
# Without a device recording, work is known to have completed only if the same thread has since waited for it.
_NOT_WAITED_FOR = """
WITH waited AS (SELECT process, thread, max(start) AS at FROM api
                WHERE function LIKE '%Synchronize%' AND duration IS NOT NULL AND result = 0 GROUP BY 1, 2)
SELECT l.process, p.pid, l.thread, l.start, l.function, n.name, n.demangled, l.correlation, l.stack,
       s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z
FROM launch_ids l JOIN process p USING (process) LEFT JOIN name n ON n.id = l.name_id LEFT JOIN shape s ON s.id = l.shape_id
LEFT JOIN waited w ON w.process = l.process AND w.thread = l.thread
WHERE l.start > coalesce(w.at, 0) AND NOT coalesce(l.captured, false) AND l.result = 0 ORDER BY l.start LIMIT {limit}
"""
_FRAMES = """
WITH RECURSIVE chain AS (
    SELECT s.id AS root, s.parent, s.frame, 0 AS depth FROM stack s WHERE s.id IN ({ids})
    UNION ALL SELECT c.root, s.parent, s.frame, c.depth + 1 FROM chain c JOIN stack s ON s.id = c.parent)
SELECT root, f.function, f.file, f.line, f.kind FROM chain c JOIN frame f ON f.id = c.frame ORDER BY root, depth
"""


@dataclass(frozen=True)
class OutstandingLaunch:
    """One launch; `frames` innermost first, each with function, file, line."""

    process: int
    pid: int
    thread: int
    start: int
    function: str
    name: str
    demangled: str
    correlation: int | None
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    frames: tuple[dict[str, Any], ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {"pid": self.pid, "thread": self.thread, "launched": self.start, "call": self.function, "kernel": self.name,
                "demangled": self.demangled, "grid": self.grid, "block": self.block, "correlation": self.correlation,
                "frames": list(self.frames)}  # fmt: skip


def outstanding(trace: StoredTrace, limit: int = _MOST) -> list[OutstandingLaunch]:
    """Launches without a completed kernel, oldest first."""
    statement = _OUTSTANDING if device_recorded(trace) else _NOT_WAITED_FOR
    rows = trace.sql(statement.format(limit=int(limit))).fetchall()
    frames = frames_of(trace, [row[8] for row in rows])
    return [
        OutstandingLaunch(row[0], row[1], row[2], row[3], row[4], row[5] or "", row[6] or row[5] or "", row[7],
               _dimensions(row[9:12]), _dimensions(row[12:15]), frames.get(row[8], ()))
        for row in rows
    ]  # fmt: skip


def device_recorded(trace: StoredTrace) -> bool:
    """Whether the trace has any device work: with core dumps armed CUPTI is not used, so launches have no kernels."""
    found = trace.sql(
        "SELECT EXISTS (SELECT 1 FROM kernel_ids WHERE start IS NOT NULL) OR EXISTS (SELECT 1 FROM memcpy)"
    )
    return bool(found.fetchall()[0][0])


def frames_of(
    trace: StoredTrace, stacks: Sequence[int | None]
) -> dict[int | None, tuple[dict[str, Any], ...]]:
    """Frames of stacks, innermost first."""
    ids = sorted({int(stack) for stack in stacks if stack})
    found: dict[int | None, list[dict[str, Any]]] = {}
    if ids:
        for root, function, file, line, kind in trace.sql(
            _FRAMES.format(ids=", ".join(map(str, ids)))
        ).fetchall():
            found.setdefault(root, []).append(
                {"function": function, "file": file, "line": line, "kind": kind}
            )
    return {stack: tuple(listed) for stack, listed in found.items()}


def _dimensions(values: Sequence[int | None]) -> tuple[int, int, int] | None:
    x, y, z = values
    return None if x is None or y is None or z is None else (x, y, z)


@dataclass(frozen=True)
class Join:
    """The launch of a dump's grid, how it was found, and whether there are other candidates."""

    launch: OutstandingLaunch | None
    candidates: int
    by: str

    @property
    def unique(self) -> bool:
        """Whether no other launch fits."""
        return self.candidates == 1

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {"unique": self.unique, "candidates": self.candidates, "by": self.by,
                "launch": self.launch.to_json() if self.launch else None}  # fmt: skip


def join(launches: Sequence[OutstandingLaunch], pid: int, kernel: str, grid: Sequence[int] | None, block: Sequence[int] | None,
         thread: int | None = None) -> Join:  # fmt: skip
    """The uncompleted launch that a grid of a dump came from.

    Launches are matched by kernel name and dimensions, then by the launching thread if the dump has it. Of several, the oldest is
    taken, since a stream runs its launches in order: this is certain if all went to one stream, and a guess otherwise. A launch
    with other dimensions is never taken.
    """
    mine = [launch for launch in launches if launch.pid == pid] or list(launches)
    named = [one for one in mine if kernel and kernel in (one.name, one.demangled)]
    if not named:
        return Join(None, 0, "no launch of that kernel is outstanding in the trace")
    found = [one for one in named if _fits(one.grid, grid) and _fits(one.block, block)]
    if not found:
        return Join(None, 0, "the outstanding launches of that kernel have other dimensions")
    by = ["name", "dimensions"] if grid and any(one.grid for one in found) else ["name"]
    by_thread = [one for one in found if one.thread == thread]
    if len(found) > 1 and by_thread:
        found, by = by_thread, [*by, "thread"]
    if len(found) > 1:
        by.append("order: the oldest of them")
    return Join(found[0], len(found), ", ".join(by))


def _fits(launched: Sequence[int] | None, dumped: Sequence[int] | None) -> bool:
    """Whether dimensions are equal, ignoring unknown ones."""
    return launched is None or dumped is None or tuple(launched) == tuple(dumped)
