"""An imported instruction trace, opened for the questions of `sass` alone.

Only three tables are opened, by DuckDB's engine without the Python package around it: that package, Arrow, NumPy and the
views of all tables take three times as long to load as most answers. :class:`~warpsight.model.StoredTrace` is for everything
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from warpsight.errors import TraceError, UsageError, WarpsightError
from warpsight.model import views
from warpsight.model.storage import layout, manifest
from warpsight.sass.records import statements
from warpsight.sass.records.filters import Filter

_TABLES = ("warp_event", "instruction", "name")


class ImportedRecords:
    """Answers questions about an imported trace's records; use it as a context manager."""

    def __init__(self, path: Path | str) -> None:
        """Open a trace: a folder, a packed file or a URL.

        Raises:
            TraceError: when the trace is missing, damaged, or of a schema this version does not read.
            WarpsightError: when it has no records of instructions.
        """
        self.path = str(path)
        self._opened: Any = None  # holds the private copy of a packed or remote trace
        folder = Path(path)
        if not folder.is_dir():
            from warpsight.model import open as open_trace

            self._opened = open_trace(path)
            folder = self._opened.folder
        self._engine = _engine()
        try:
            self._manifest = manifest.read(folder)
            self._connection = self._engine.connect(
                ":memory:", config={"autoinstall_known_extensions": "false", "temp_directory": ""}
            )
            self._views(folder)
        except BaseException:
            self.close()
            raise

    def _views(self, folder: Path) -> None:
        for table in _TABLES:
            files = [str(part) for part in layout.parts(folder.resolve(), table)]
            if table == "warp_event" and not files:
                raise WarpsightError(f"{self.path} has no records of instructions (table warp_event)")
            self.rows(f'CREATE VIEW "{table}" AS {views.base(table, files)}')

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one of our own statements.

        Raises:
            TraceError: when a part of the trace cannot be read.
        """
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(statement).fetchall()
        except self._engine.Error as error:
            raise TraceError(f"{self.path} cannot be read: {_first_line(error)}") from None
        return found

    def arrays(self, statement: str) -> dict[str, Any]:
        """The columns of one of our own statements as NumPy arrays."""
        found: dict[str, Any] = self._connection.execute(statement).fetchnumpy()
        return found

    def counts(self, group_by: str, conditions: Filter, top: int | None = None) -> list[tuple[Any, int]]:
        """How many records have each value of a field, most frequent first, ties by value.

        Raises:
            UsageError: for an unknown field, or a regular expression that the engine does not support.
        """
        self._check(conditions)
        return [(key, int(count)) for key, count in self.rows(statements.counts(group_by, conditions, top))]

    def ends(self, conditions: Filter, head: int | None, tail: int | None) -> list[dict[str, Any]]:
        """The first or last records that match conditions, or all; without null fields."""
        self._check(conditions)
        return [_record(row) for row in self.rows(statements.ends(conditions, head, tail))]

    def groups(
        self, conditions: Filter, group_by: str, head: int | None, tail: int | None
    ) -> tuple[dict[Any, list[dict[str, Any]]], dict[Any, int]]:
        """The first or last records for each value of a field, and the total number of records with each value."""
        self._check(conditions)
        groups: dict[Any, list[dict[str, Any]]] = {}
        sizes: dict[Any, int] = {}
        for key, size, *row in self.rows(statements.grouped(conditions, group_by, head, tail)):
            groups.setdefault(key, []).append(_record(row))
            sizes[key] = int(size)
        return groups, sizes

    def _check(self, conditions: Filter) -> None:
        """Refuse a regular expression that the engine does not support."""
        for condition in (c for group in conditions.groups for c in group if c.operator in ("~", "!~")):
            try:
                self._connection.execute(f"SELECT regexp_matches('', {statements.quote(condition.text)})")
            except self._engine.Error as error:
                raise UsageError(
                    f"the condition {condition} cannot be tested: {_first_line(error)}"
                ) from None

    def last_instructions(self) -> list[tuple[int, str]]:
        """Each warp with the text of the last instruction it executed, ignoring padding; empty if unknown."""
        launches = self.rows(statements.LAUNCHES)
        if len(launches) != 1:
            return self.rows(statements.last_instructions())
        process, name_id, _ = launches[0]
        listed = self.rows('SELECT process, name_id, opcode, sass FROM "instruction"')
        texts = {opcode: text for *kernel, opcode, text in listed if kernel == [process, name_id]}
        last = self.rows(statements.last_opcodes(process, name_id))
        return [(warp, texts.get(opcode, "")) for warp, opcode in last]

    def executed(self) -> tuple[Any, Any]:
        """Warp and instruction of every event with a known instruction, in order, as NumPy arrays."""
        order = ", ".join(f"w.{name}" for name in statements.KEY)
        joined = statements.joined(["sass"])
        found = self.arrays(
            f'SELECT w.warp, i.sass FROM "warp_event" w{joined} WHERE i.sass IS NOT NULL ORDER BY {order}'
        )
        return found["warp"], found["sass"]

    def grid_warps(self) -> int | None:
        """Warps of the traced grid according to the source's description of its kernel, or None."""
        sources = self._manifest.get("source") or []
        listed = sources if isinstance(sources, list) else [sources]
        described: dict[str, Any] = next(
            (kernel for source in listed if isinstance(source, dict) for kernel in source.get("kernels", [])),
            {},
        )
        grid, block = described.get("grid"), described.get("block")
        if not grid or not block:
            return None
        return int(grid[0] * grid[1] * grid[2]) * -(-int(block[0] * block[1] * block[2]) // 32)

    def close(self) -> None:
        """Release everything, including the private copy of a packed trace."""
        if getattr(self, "_connection", None) is not None:
            self._connection.close()
            self._connection = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> ImportedRecords:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _record(row: Sequence[object]) -> dict[str, Any]:
    return {name: value for name, value in zip(statements.FIELDS, row, strict=True) if value is not None}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _engine() -> ModuleType:
    """DuckDB's engine; its Python package where the engine is not a module of its own (before 1.4)."""
    try:
        import _duckdb
    except ImportError:
        import duckdb

        return duckdb
    return _duckdb
