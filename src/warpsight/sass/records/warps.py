"""`sass warps`: which warps of a kernel have completed, are in progress, or were never seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.formats.errors import decodes
from warpsight.sass.records.origin import is_trace

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight_plugins.cutracer.fold import Fold
    from warpsight_plugins.cutracer.header import CutracerHeader

_SASS = attrgetter("sass")


@dataclass(frozen=True)
class Warps:
    """Ids of warps by outcome; `expected` is the number of warps of the grid, if the trace has it."""

    completed: Sequence[int]
    in_progress: Sequence[int]
    #: First and last of each run of ids.
    missing: Sequence[tuple[int, int]]
    notes: tuple[str, ...]
    expected: int | None = None

    @property
    def observed(self) -> int:
        """Warps that executed anything."""
        return len(self.completed) + len(self.in_progress)

    def to_json(self) -> dict[str, Any]:
        """The summary in CUTracer's form; the share of missing warps is relative to all ids up to the largest."""
        seen = [*self.completed, *self.in_progress]
        never = sum(last - first + 1 for first, last in self.missing)
        return {
            "total_observed": self.observed,
            "warp_id_range": [min(seen), max(seen)] if seen else None,
            "completed": _part(len(self.completed), self.observed, ranges(self.completed)),
            "in_progress": _part(len(self.in_progress), self.observed, ranges(self.in_progress)),
            "missing": _part(never, self.observed + never, self.missing),
        }


def _part(count: int, of: int, runs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    share = round(100 * count / of, 1) if of else 0.0
    return {"count": count, "percentage": share, "ranges": [list(run) for run in runs]}


def ranges(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Ids as ranges from first to last."""
    out: list[tuple[int, int]] = []
    first = last = None
    for number in sorted(ids):
        if first is None or last is None:
            first = number
        elif number != last + 1:
            out.append((first, last))
            first = number
        last = number
    return [*out, (first, last)] if first is not None and last is not None else out


@decodes
def summary(path: Path | str) -> Warps:
    """Sort the warps of a trace file by their last instruction, ignoring padding (NOP).

    A warp is complete if that is an EXIT. Warps of the kernel's grid that were never seen are missing; if the trace does not
    describe its kernel, so are all unseen ids below the largest one seen.

    Raises:
        FormatError: when the file does not exist or is damaged inside.
    """
    if is_trace(path):
        from warpsight.sass.records.imported import ImportedRecords

        with ImportedRecords(path) as opened:
            ended = {warp: _mnemonic(text) == "EXIT" for warp, text in opened.last_instructions()}
            return _sorted(ended, opened.grid_warps(), ())
    from warpsight.formats.writing.clp import source_of
    from warpsight_plugins.cutracer import fold

    with source_of(path) as source:
        found = fold.fold(source, ("warp", "opcode_id", "sass"), dict, _taker)
    if found is None:
        return by_columns(path)
    last: dict[int, int | str | None] = {}
    for state in found.states:
        last.update(state)
    last.pop(None, None)  # type: ignore[call-overload]  # records of no warp
    texts = {
        value: found.header.sass.get(value, "") if isinstance(value, int) else value or ""
        for value in set(last.values())
    }
    ends = {value: _mnemonic(text) == "EXIT" for value, text in texts.items()}
    ended = {warp: ends[value] for warp, value in last.items()}
    return _sorted(ended, found.header.grid_warps(), tuple(found.notes))


def _taker(header: CutracerHeader) -> Fold[dict[Any, Any]]:
    """Notes each warp's last instruction: its text if the record has it, otherwise its opcode id."""
    padding = {opcode for opcode, text in header.sass.items() if _mnemonic(text) == "NOP"}

    def is_padding(value: int | str | None) -> bool:
        return _mnemonic(value) == "NOP" if isinstance(value, str) else value in padding

    def take(state: dict[Any, Any], rows: Sequence[Any], _: object) -> None:
        if {*map(_SASS, rows)} <= {None}:
            last = {row.warp: row.opcode_id for row in rows}
        else:
            last = {row.warp: row.opcode_id if row.sass is None else row.sass for row in rows}
        if any(map(is_padding, set(last.values()))):
            pairs = ((row.warp, row.opcode_id if row.sass is None else row.sass) for row in rows)
            last = {warp: value for warp, value in pairs if not is_padding(value)}
        state.update(last)

    return take


def by_columns(path: Path | str) -> Warps:
    """Sort the warps of a file with unusual records."""
    import numpy as np
    import pyarrow.compute as pc

    from warpsight.sass.records import masks
    from warpsight_plugins.cutracer.trace_file import TraceFile

    trace = TraceFile(path)
    last: dict[int, bool] = {}
    for _, table in trace.chunks(("warp", "sass", "opcode_id")):
        warp = masks.numbers(table["warp"].combine_chunks())
        kept = pc.and_(pc.is_valid(warp), pc.invert(_instruction_is(table, "NOP")))
        ids = warp.filter(kept).to_numpy()
        ends = _instruction_is(table, "EXIT").filter(kept).to_numpy(zero_copy_only=False)
        place = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
        last.update(zip(ids[place].tolist(), ends[place].tolist(), strict=True))
    return _sorted(last, trace.header.grid_warps(), tuple(trace.notes))


def _sorted(last: dict[int, bool], expected: int | None, notes: tuple[str, ...]) -> Warps:
    """Warps by whether their last instruction ended them, and warps of the grid that never appeared."""
    seen = sorted(last)
    highest = max(expected or 0, seen[-1] + 1 if seen else 0)
    return Warps(
        [warp for warp in seen if last[warp]],
        [warp for warp in seen if not last[warp]],
        [(a + 1, b - 1) for a, b in pairwise([-1, *seen, highest]) if b > a + 1],
        notes,
        expected,
    )


def _instruction_is(table: pa.Table, mnemonic: str) -> pa.Array:
    """Whether each row's instruction is a mnemonic, after an optional predicate; false for instructions without text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = table["sass"].combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    known = pa.array([_mnemonic(text) == mnemonic for text in texts], pa.bool_())
    return pc.fill_null(known.take(coded.indices), False)


@lru_cache(maxsize=4096)
def _mnemonic(text: str) -> str:
    words = [word for word in text.replace(";", " ").split() if not word.startswith("@")]
    return words[0].split(".")[0].upper() if words else ""
