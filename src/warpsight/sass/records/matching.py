"""Records of a file that match conditions, found on all cores: matching lines are fully decoded, others only as far as needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warpsight.formats.writing import clp
from warpsight.sass.records.values import verdicts
from warpsight_plugins.cutracer import fold

if TYPE_CHECKING:
    from warpsight.sass.records.filters import Condition
    from warpsight.sass.records.selection import RecordSelection
    from warpsight_plugins.cutracer.header import CutracerHeader

#: Larger files are read from their beginning, which ends as soon as enough is found.
_LARGE_BYTES = 1 << 30
#: More records than this are the columns' business.
_MOST = 100_000


def matching(path: Path | str, selection: RecordSelection) -> tuple[list[dict[str, Any]], list[str]] | None:
    """The selected records, in order, and notes on losses; None if the columns must decide."""
    conditions = selection.conditions
    if selection.group_by or selection.describing or not (conditions.groups or selection.tail is not None):
        return None
    fields = tuple(dict.fromkeys(raw for name in conditions.fields for raw in _raw(name)))
    most = selection.tail if selection.tail is not None else selection.head

    def start() -> deque[bytes]:
        return deque(maxlen=selection.tail)

    def take(header: CutracerHeader) -> fold.Fold[deque[bytes]]:
        kept = _places(conditions.groups, header)

        def note(state: deque[bytes], rows: Sequence[Any], lines: Callable[[], Sequence[bytes]]) -> None:
            if selection.tail is None and most is not None and len(state) >= most:
                return
            if places := kept(rows):
                listed = lines()
                state.extend(listed[place] for place in places)
                if len(state) > _MOST:
                    raise fold.Unusual

        return note

    with clp.source_of(path) as source:
        if source.size > _LARGE_BYTES and selection.tail is None and most is not None:
            return None
        found = fold.fold(source, fields, start, take)
    if found is None:
        return None
    chosen = [line for state in found.states for line in state]
    if selection.tail is not None:
        chosen = chosen[len(chosen) - min(selection.tail, len(chosen)) :]
    records = [found.header.complete(msgspec.json.decode(line)) for line in chosen[:most]]
    return records, found.notes


def _raw(name: str) -> tuple[str, ...]:
    return ("sass", "opcode_id") if name == "sass" else (name,)


def _places(
    groups: Sequence[Sequence[Condition]], header: CutracerHeader
) -> Callable[[Sequence[Any]], Sequence[int]]:
    """A function for the positions of rows that match all groups; each distinct value is tested once."""
    known: dict[Condition, dict[Any, bool]] = {condition: {} for group in groups for condition in group}

    def places(rows: Sequence[Any]) -> Sequence[int]:
        kept: Sequence[int] = range(len(rows))
        for group in groups:
            flags = [_flags(condition, known[condition], rows, header) for condition in group]
            whether = flags[0] if len(flags) == 1 else list(map(any, zip(*flags, strict=True)))
            kept, rows = list(compress(kept, whether)), list(compress(rows, whether))
        return kept

    return places


def _flags(
    condition: Condition, decided: dict[Any, bool], rows: Sequence[Any], header: CutracerHeader
) -> list[bool]:
    if condition.field == "sass":
        sass = header.sass
        values = [sass.get(row.opcode_id) if row.sass is None else row.sass for row in rows]
    else:
        values = list(map(attrgetter(condition.field), rows))
    if new := set(values).difference(decided):
        decided.update(verdicts([condition], new))
    return list(map(decided.__getitem__, values))
