"""Launches as CUTracer's kernel events: a `kernel_launch` line each, and every host stack once, before its first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any

import msgspec

from warpsight.errors import WarpsightError
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight_plugins.cutracer.writer import rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "each launch in start order: kernel, shape, registers, shared memory, stream, host stack, process",
    ),
    lost=("times; code checksums that the trace lacks; everything but launches",),
    tested=("`sass validate` and the published schema",),
)
#: FNV-1a, 64 bits; http://www.isthe.com/chongo/tech/comp/fnv/
_FNV_START, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SHAPE = (
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "shared_static",
    "shared_dynamic",
)
#: What a launch does not say (none or 0: CUPTI's launches have no registers) comes from its kernel, the checksum of its code too.
_STATEMENT = f"""
SELECT l.correlation, coalesce(l.demangled, l.name, k.demangled, k.name) AS name, l.stack, p.pid, m.checksum,
  coalesce(k.stream, 0) AS stream, {", ".join(f"coalesce(nullif(l.{name}, 0), k.{name}, 0) AS {name}" for name in _SHAPE)}
FROM launch l LEFT JOIN process p ON p.process = l.process
LEFT JOIN (
  SELECT process, correlation, {", ".join(f"any_value({n}) AS {n}" for n in ("stream", "name", "demangled", "module", *_SHAPE))}
  FROM kernel GROUP BY process, correlation
) k ON k.process = l.process AND k.correlation = l.correlation AND l.correlation <> 0
LEFT JOIN (SELECT process, module, any_value(checksum) AS checksum FROM module GROUP BY ALL) m
  ON m.process = k.process AND m.module = k.module
WHERE coalesce(l.name, k.name) IS NOT NULL AND {{where}} ORDER BY l.start, l.process, l.correlation
"""


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the selected launches; returns the number of launches and of stacks.

    Raises:
        WarpsightError: when there are none.
    """
    where = selection.where("launch").replace("start", "l.start").replace("duration", "l.duration")
    if selection.processes:
        where += f" AND l.process IN ({', '.join(str(int(p)) for p in selection.processes)})"
    ids: dict[int, str] = {}
    defined: set[str] = set()
    launches = 0
    with ThreadPoolExecutor(1) as lookups:  # a thread's cursor has one open result, here the launches
        for batch in rows(trace.sql(_STATEMENT.format(where=where))):
            new = {row["stack"] for row in batch if row["stack"] is not None} - ids.keys()
            for stack, frames in lookups.submit(trace.stacks, new).result().items():
                ids[stack] = _stack_id(frames)
                if ids[stack] not in defined:
                    defined.add(ids[stack])
                    content = {"callstack_id": ids[stack], "frames": frames, "source": "cpython"}
                    file.write(_line({"type": "callstack_def", **content}))
            for row in batch:
                launches += 1
                file.write(_line(_launch(row, launches, ids)))
    if not launches:
        raise WarpsightError(f"{trace.path} has no launches of kernels (table launch)")
    return {"launches": launches, "stacks": len(defined)}


def _launch(row: Mapping[str, Any], number: int, ids: Mapping[int, str]) -> dict[str, Any]:
    checksum = f"{row['checksum']:016x}" if row["checksum"] else ""
    return {
        "type": "kernel_launch", "kernel_launch_id": number, "kernel_name": row["name"], "kernel_checksum": checksum,
        "grid": [row[f"grid_{axis}"] for axis in "xyz"], "block": [row[f"block_{axis}"] for axis in "xyz"],
        "nregs": row["registers"], "shmem": row["shared_static"] + row["shared_dynamic"], "stream_id": row["stream"],
        "callstack_id": ids.get(row["stack"]), "pid": row["pid"] or 0, "correlation_id": row["correlation"] or 0,
    }  # fmt: skip


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def _stack_id(frames: Sequence[str]) -> str:
    value = _FNV_START
    for byte in b"".join(frame.encode() + b"\xff" for frame in frames):
        value = (value ^ byte) * _FNV_PRIME & _FNV_MASK
    return f"{value:016x}"
