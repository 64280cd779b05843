"""Building a trace from rows in memory: importers, user events, tests."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from warpsight.errors import TraceError, UsageError
from warpsight.model import arrow
from warpsight.model.definitions import Definitions, Frame
from warpsight.model.schema import TABLES
from warpsight.model.storage import manifest, store

if TYPE_CHECKING:
    from warpsight.model.trace import StoredTrace

#: Tables of definitions: rows get there by interning.
INTERNED = ("name", "shape", "frame", "stack")
#: Tables that describe the trace as a whole; their parts are without a process level.
_TRACE_WIDE = frozenset(
    (*INTERNED, "process", "thread", "device", "context", "stream", "module", "loss", "clock")
)


class TraceWriter:
    """Writes a new trace folder: intern names, stacks and shapes, :meth:`add` rows, close.

    The folder becomes a trace when the writer closes without an error; after an error nothing is left.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Create the folder (mode 0700).

        Raises:
            TraceError: when `path` exists and `force` is not set, or it exists and is not a trace.
        """
        self.path = Path(path)
        if os.path.lexists(self.path):
            if not force:
                raise TraceError(f"{self.path} exists already; -f replaces it")
            if not (self.path / manifest.FILE).is_file() or self.path.is_symlink():
                raise TraceError(f"{self.path} exists and is not a trace; it is left alone")
            shutil.rmtree(self.path)
        self.path.mkdir(mode=0o700, parents=True)
        self.definitions = Definitions()
        self._rows: dict[str, int] = {}
        self._parts: dict[tuple[str, int | None], int] = {}
        self._content: dict[str, Any] = {"host": platform.node()}
        self._small: dict[str, list[dict[str, Any]]] = {"process": [], "device": []}
        self._closed = False

    def name(self, text: str) -> int:
        """Id of a name, for `name_id` columns."""
        return self.definitions.name(text)

    def take_up(self, trace: StoredTrace) -> None:
        """Start with the definitions of another trace, whose ids stay valid, before anything is interned."""
        self.definitions.load(trace.folder)
        for table in INTERNED:
            rows = trace.arrow(table)
            if len(rows):
                self._write(table, None, rows)

    def names(self, texts: Iterable[str | None]) -> list[int | None]:
        """Ids of several names; None stays None."""
        return [None if text is None else self.definitions.name(text) for text in texts]

    def shape(self, **columns: object) -> int:
        """Id of a launch shape from columns of table `shape`; absent ones are 0 and regular."""
        known = [c.name for c in TABLES["shape"].columns[1:]]
        unknown = set(columns) - set(known)
        if unknown:
            raise UsageError(f"table shape has no column {sorted(unknown)[0]}")
        return self.definitions.shape([columns.get(c, "regular" if c == "launch_type" else 0) for c in known])

    def stack(self, frames: Iterable[Frame | str], method: str = "imported") -> int | None:
        """Id of a stack, outermost frame first, given as strings or :data:`Frame` tuples."""
        full = [(f, None, None, None, "python", None) if isinstance(f, str) else f for f in frames]
        return self.definitions.stack_of(full, method) or None

    def conformed(
        self, table: str, rows: pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]
    ) -> pa.Table:
        """Rows for :meth:`add`, with exactly the columns and types of the schema.

        Raises:
            UsageError: for a table or column that is not in the schema, or a value that does not fit.
        """
        if table not in TABLES or table in INTERNED:
            raise UsageError(
                f"rows of table {table!r} cannot be added" if table in TABLES else f"no table {table!r}"
            )
        schema = TABLES[table].schema()
        try:
            return store.conform(TABLES[table], _arrow(rows, schema))
        except (
            KeyError,
            OverflowError,
            pa.ArrowInvalid,
            pa.ArrowTypeError,
            pa.ArrowNotImplementedError,
        ) as error:
            raise UsageError(f"rows for table {table}: {error.args[0]}") from None

    def add(self, table: str, rows: pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> None:
        """Append rows: an Arrow table, a mapping of columns, or an iterable of rows as mappings.

        Columns that may be null can be left out. Rows are sorted by the table's sort column and stored per
        process.

        Raises:
            UsageError: for a table or column that is not in the schema, or a value that does not fit.
        """
        data = self.conformed(table, rows)
        if not len(data):
            return
        if table in self._small:
            self._small[table] += data.to_pylist()
        if table in _TRACE_WIDE or "process" not in data.column_names:
            self._write(table, None, data)
            return
        found = arrow.distinct(data["process"]).to_pylist()
        if len(found) == 1:
            self._write(table, found[0], data)
            return
        for process in found:
            chosen = (
                arrow.is_null(data["process"]) if process is None else arrow.equal(data["process"], process)
            )
            self._write(table, process, arrow.keep(data, chosen))

    def _write(self, table: str, process: int | None, data: pa.Table) -> None:
        model = TABLES[table]
        if model.sort and not _ascending(data.column(model.sort)):
            data = arrow.in_order(data, model.sort)
        part = self._parts.get((table, process), 0)
        store.write_part(store.part_path(self.path, table, process, part), model, data)
        self._parts[table, process] = part + 1
        self._rows[table] = self._rows.get(table, 0) + len(data)

    def describe(self, **content: object) -> None:
        """Set entries of the manifest, such as source, settings, clocks, overhead."""
        self._content.update(content)

    def close(self) -> None:
        """Write definitions and manifest; afterwards the folder is a complete trace, or gone if that fails."""
        if self._closed:
            return
        try:
            self._complete()
        except BaseException:
            self.abandon()
            raise
        self._closed = True

    def _complete(self) -> None:
        for table, data in self.definitions.take().items():
            self._write(table, None, data)
        own = {"processes": self._small["process"], "devices": self._small["device"], "rows": self._rows}
        manifest.write(self.path, {**self._content, **own})

    def abandon(self) -> None:
        """Remove the output; the writer cannot be used afterwards."""
        self._closed = True
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


def _ascending(values: pa.ChunkedArray) -> bool:
    """Whether rows need no sorting by this column; a column with nulls is not checked."""
    if values.null_count:
        return False
    plain = values.to_numpy()
    return bool((plain[1:] >= plain[:-1]).all())


def _arrow(rows: pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, Mapping):
        arrays = {}
        for name, values in rows.items():
            if name not in schema.names:
                raise KeyError(f"no column {name}")
            arrays[name] = pa.array(values, schema.field(name).type)
        return pa.table(arrays)
    listed = list(rows)
    used = {name for row in listed for name in row}
    unknown = used - set(schema.names)
    if unknown:
        raise KeyError(f"no column {sorted(unknown)[0]}")
    return pa.Table.from_pylist(listed, pa.schema([field for field in schema if field.name in used]))
