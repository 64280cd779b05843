"""The last second of the recorded processes: rows of a few kinds from newly closed segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.capture.segments import layout
from warpsight.capture.segments.blocks import BlockTracker
from warpsight.capture.segments.segment import Batch, gather, open_segment, strings
from warpsight.recorder.ring.store import Closed

_STRING = layout.BY_NAME["String"].kind
#: Texts kept for each process; more come only from a program that makes new ones for ever.
_MOST_TEXTS = 100_000


@dataclass
class TailedArena:
    """The known state of one process."""

    name: str
    pid: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    data: BlockTracker = field(default_factory=lambda: BlockTracker(anywhere=True))
    definitions: BlockTracker = field(default_factory=lambda: BlockTracker(anywhere=True))
    read: set[str] = field(default_factory=set)

    def text(self, number: int) -> str:
        """A string, empty for 0 and unknown ones."""
        return self.texts.get(number, "")


@dataclass(frozen=True)
class News:
    """New rows of one process by kind name, and the times when their segments were seen closed."""

    arena: TailedArena
    batches: dict[str, Batch]
    at: float


class Tail:
    """Reads segments in the order they are closed. Used by one thread."""

    def __init__(self, kinds: Iterable[str]) -> None:
        """`kinds`: names of the record kinds to read; strings are always read."""
        self._kinds = frozenset(layout.BY_NAME[name].kind for name in kinds) | {_STRING}
        self.arenas: dict[str, TailedArena] = {}

    def read(self, closed: Iterable[Closed]) -> list[News]:
        """The rows of newly closed segments; a segment that is already gone loses its rows."""
        by_arena: dict[str, list[Closed]] = {}
        for one in closed:
            by_arena.setdefault(one.arena, []).append(one)
        return [self._read_arena(name, some) for name, some in by_arena.items()]

    def forget(self, arena: str) -> None:
        """Forget a process that has ended."""
        self.arenas.pop(arena, None)

    def _read_arena(self, name: str, closed: list[Closed]) -> News:
        arena = self.arenas.setdefault(name, TailedArena(name))
        self._define(arena, closed[0].path.parent)
        found: dict[int, list[tuple[object, object]]] = {}
        for one in closed:
            try:
                segment = open_segment(one.path)
            except FileNotFoundError:
                continue
            for block in segment.blocks(kinds=self._kinds):
                skip = arena.data.fresh(block)
                if skip is None:
                    continue
                arena.pid = arena.pid or block.pid
                if block.kind == _STRING:
                    arena.texts.update(strings(block.payload, skip)[0])
                else:
                    found.setdefault(block.kind, []).append((block, block.body(skip)))
        batches = {layout.BY_KIND[kind].name: gather(parts, kind) for kind, parts in found.items()}  # type: ignore[arg-type]
        return News(arena, batches, max(one.at for one in closed))

    def _define(self, arena: TailedArena, folder: Path) -> None:
        """Read strings from definition files that have not been read yet."""
        files = sorted(folder.glob("definitions-*.seg"))
        arena.read &= {path.name for path in files}  # the others were merged
        for path in files:
            if path.name in arena.read:
                continue
            try:
                segment = open_segment(path)
            except FileNotFoundError:  # merged into an earlier one at this moment: read again the next time
                continue
            arena.read.add(path.name)
            for block in segment.blocks(kinds=frozenset((_STRING,))):
                skip = arena.definitions.fresh(block)
                if skip is not None:
                    arena.texts.update(strings(block.payload, skip)[0])
        while len(arena.texts) > _MOST_TEXTS:
            del arena.texts[next(iter(arena.texts))]
