"""Ids that are unique in a trace: names, shapes, frames and stacks, interned by content from 1 without gaps.

New rows are handed out part by part (:meth:`Definitions.take`), so a trace that grows for hours writes each
definition once, and a conversion that was interrupted reads back what it had (:meth:`Definitions.load`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.device_code import demangle
from warpsight.model.schema import TABLES
from warpsight.model.sharing import secrets
from warpsight.model.storage import store

#: The columns of :data:`FRAME_COLUMNS`.
Frame = tuple[str, str | None, int | None, int | None, str, str | None]
FRAME_COLUMNS = ("function", "file", "line", "address", "kind", "build_id")
_SHAPE_COLUMNS = tuple(c.name for c in TABLES["shape"].columns[1:])


class Definitions:
    """The four interned tables of one trace. Not thread-safe: only one converter or writer may use it."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, int, str, bool], int] = {}
        self._depths: list[int] = [0]
        self._taken = dict.fromkeys(("name", "shape", "frame", "stack"), 0)

    def name(self, text: str) -> int:
        """Id of a name."""
        return self._names.setdefault(text, len(self._names) + 1)

    def shape(self, values: Sequence[Any]) -> int:
        """Id of a launch shape: the columns of table `shape` after `id`, in order."""
        return self._shapes.setdefault(tuple(values), len(self._shapes) + 1)

    def frame(self, frame: Frame) -> int:
        """Id of a frame."""
        return self._frames.setdefault(frame, len(self._frames) + 1)

    def stack(self, parent: int, frame: int, method: str, cut: bool = False) -> int:
        """Id of the stack that is `frame` called from stack `parent` (0: the frame is the root)."""
        key = (parent, frame, method, cut)
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = len(self._stacks) + 1
            self._depths.append(self._depths[parent] + 1)
        return number

    def stack_of(self, frames: Iterable[Frame], method: str = "imported") -> int:
        """Id of a whole stack given from the outermost frame inwards; 0 without frames."""
        stack = 0
        for frame in frames:
            stack = self.stack(stack, self.frame(frame), method)
        return stack

    def listed(self, table: str, first: int) -> list[Any]:
        """Definitions after the first `first` rows of a table: strings for names, tuples for all others."""
        interned: dict[str, Any] = {
            "name": self._names,
            "shape": self._shapes,
            "frame": self._frames,
            "stack": self._stacks,
        }
        return list(islice(interned[table], first, None))

    def counts(self) -> dict[str, int]:
        """Rows of each table so far."""
        return {
            "name": len(self._names),
            "shape": len(self._shapes),
            "frame": len(self._frames),
            "stack": len(self._stacks),
        }

    def take(self) -> dict[str, pa.Table]:
        """Rows added since the last call, by table; tables without new rows are absent."""
        makers = {
            "name": self._name_rows,
            "shape": self._shape_rows,
            "frame": self._frame_rows,
            "stack": self._stack_rows,
        }
        out = {}
        for table, count in self.counts().items():
            first = self._taken[table]
            if count > first:
                columns = makers[table](first)
                columns["id"] = range(first + 1, count + 1)
                out[table] = pa.Table.from_pydict(
                    {c.name: columns[c.name] for c in TABLES[table].columns}, TABLES[table].schema()
                )
                self._taken[table] = count
        return out

    def _name_rows(self, first: int) -> dict[str, Any]:
        names = list(self._names)[first:]
        readable = demangle.demangle_all(names)
        # Shortening may tear a secret from the name before it.
        safe = secrets.column("demangled", pa.array(readable, pa.string())).to_pylist()
        short = list(map(demangle.short, safe))
        return {"name": names, "demangled": readable, "short": short}

    def _shape_rows(self, first: int) -> dict[str, Any]:
        return dict(zip(_SHAPE_COLUMNS, zip(*list(self._shapes)[first:], strict=True), strict=True))

    def _frame_rows(self, first: int) -> dict[str, Any]:
        return dict(zip(FRAME_COLUMNS, zip(*list(self._frames)[first:], strict=True), strict=True))

    def _stack_rows(self, first: int) -> dict[str, Any]:
        parents, frames, methods, cuts = zip(*list(self._stacks)[first:], strict=True)
        return {
            "parent": [p or None for p in parents],
            "frame": frames,
            "method": methods,
            "cut": cuts,
            "depth": self._depths[first + 1 :],
        }

    def load(self, root: Path) -> None:
        """Load the definitions a trace folder already holds; must be called on a new object."""
        for table in ("name", "shape", "frame", "stack"):
            files = list(store.parts(root, table))
            if not files:
                continue
            rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by("id")
            self._restore(table, rows.to_pydict())
            self._taken[table] = len(rows)

    def _restore(self, table: str, columns: dict[str, list[Any]]) -> None:
        if table == "name":
            self._names = dict(zip(columns["name"], columns["id"], strict=True))
        elif table == "shape":
            keys = zip(*(columns[name] for name in _SHAPE_COLUMNS), strict=True)
            self._shapes = dict(zip(keys, columns["id"], strict=True))
        elif table == "frame":
            frames = zip(*(columns[name] for name in FRAME_COLUMNS), strict=True)
            self._frames = dict(zip(frames, columns["id"], strict=True))
        else:
            parents = (parent or 0 for parent in columns["parent"])
            keys = zip(parents, columns["frame"], columns["method"], columns["cut"], strict=True)
            self._stacks = dict(zip(keys, columns["id"], strict=True))
            self._depths = [0, *columns["depth"]]
