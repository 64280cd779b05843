"""`sass warps`: which warps of a kernel ended, which are under way, which were never seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.cutracer.trace_file import TraceFile
from warpsight.formats.importing import open_any as open_trace
from warpsight.sass import tables
from warpsight.sass.query import is_trace

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Warps:
    """Ids of warps by what became of them; `expected` is the number of the whole grid when the trace says it."""

    completed: Array
    in_progress: Array
    missing: Array
    notes: tuple[str, ...]
    expected: int | None = None

    @property
    def observed(self) -> int:
        """Warps that executed anything."""
        return len(self.completed) + len(self.in_progress)

    def to_json(self) -> dict[str, Any]:
        """The summary in CUTracer's shape; the share of missing warps is of all ids up to the largest."""
        seen = np.concatenate([self.completed, self.in_progress])
        everything = self.observed + len(self.missing)
        return {
            "total_observed": self.observed,
            "warp_id_range": [int(seen.min()), int(seen.max())] if len(seen) else None,
            "completed": _part(self.completed, self.observed),
            "in_progress": _part(self.in_progress, self.observed),
            "missing": _part(self.missing, everything),
        }


def _part(ids: Array, of: int) -> dict[str, Any]:
    share = round(100 * len(ids) / of, 1) if of else 0.0
    return {"count": len(ids), "percentage": share, "ranges": [list(r) for r in ranges(ids)]}


def ranges(ids: Array) -> list[tuple[int, int]]:
    """Sorted ids as ranges from first to last."""
    if not len(ids):
        return []
    ordered = np.sort(ids)
    breaks = np.flatnonzero(np.diff(ordered) > 1)
    first = np.concatenate([ordered[:1], ordered[breaks + 1]])
    last = np.concatenate([ordered[breaks], ordered[-1:]])
    return [(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def summary(path: Path | str) -> Warps:
    """Sort the warps of a trace file by their last instruction; what pads a program's end (NOP) does not count.

    A warp is completed when that is an EXIT. Warps are missing when the kernel's grid has them, or, where the trace does
    not describe its kernel, when a warp with a larger id was seen.
    """
    if is_trace(path):
        with open_trace(path) as opened:
            ended = {w: _mnemonic(text or "") == "EXIT" for w, text in tables.last_instructions(opened)}
            return _sorted(ended, tables.grid_warps(opened), ())
    trace = TraceFile(path)
    last: dict[int, bool] = {}
    for _, table in trace.chunks(("warp", "sass", "opcode_id")):
        warp = table["warp"].combine_chunks()
        kept = pc.and_(pc.is_valid(warp), pc.invert(_instruction_is(table, "NOP")))
        ids = warp.filter(kept).to_numpy()
        ends = _instruction_is(table, "EXIT").filter(kept).to_numpy(zero_copy_only=False)
        place = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
        last.update(zip(ids[place].tolist(), ends[place].tolist(), strict=True))
    return _sorted(last, _expected(trace), tuple(trace.notes))


def _sorted(last: dict[int, bool], expected: int | None, notes: tuple[str, ...]) -> Warps:
    """Warps by whether their last instruction ended them, and those of the grid that never came."""
    seen = np.array(sorted(last), np.int64)
    done = np.array([last[int(w)] for w in seen], bool)
    highest = max(expected or 0, int(seen[-1]) + 1 if len(seen) else 0)
    missing = np.setdiff1d(np.arange(highest), seen)
    return Warps(seen[done], seen[~done], missing, notes, expected)


def _instruction_is(table: pa.Table, mnemonic: str) -> pa.Array:
    """Whether each row's instruction is a mnemonic, after an optional predicate; instructions without text are not."""
    coded = table["sass"].combine_chunks().dictionary_encode()
    texts = coded.dictionary.to_pylist()
    known = pa.array([_mnemonic(text) == mnemonic for text in texts], pa.bool_())
    return pc.fill_null(known.take(coded.indices), False)


def _mnemonic(text: str) -> str:
    words = [word for word in text.replace(";", " ").split() if not word.startswith("@")]
    return words[0].split(".")[0].upper() if words else ""


def _expected(trace: TraceFile) -> int | None:
    grid, block = trace.header.kernel.get("grid"), trace.header.kernel.get("block")
    if not grid or not block:
        return None
    return _product(grid) * -(-_product(block) // 32)


def _product(values: Iterable[int]) -> int:
    total = 1
    for value in values:
        total *= int(value)
    return total
