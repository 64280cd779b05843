"""The trace that a reader writes to, with ids of processes, threads, devices and streams by the source's own keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.identities import Identities
from warpsight.model.definitions import Definitions, Frame
from warpsight.model.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model.storage.writer import TraceWriter

#: Rows and bytes of one table that are collected before they are written as a part.
PART_ROWS = 1 << 19
PART_BYTES = 64 << 20
#: Bytes of all tables together that may wait.
_WAITING_BYTES = 128 << 20
#: Maximum parts in progress or finished but not yet checked; each holds its rows.
_WRITERS = 2
#: What columns of a launch shape hold is below this, as is what is below zero.
_WIDE = 1 << 31
_TIME = {"memory": "time", "counter": "time", "sample": "time"}


class Target:
    """Wraps a :class:`~warpsight.model.TraceWriter`: accepts rows in pieces of any size, in any order.

    Ids: `process`, `device`, `context`, `stream` and `thread` take the source's own key (a pid, a UUID, a pointer) and
    give the id to store in rows; asking again with the same key gives the same id and completes the row. Keys that are
    numbers and fit the column are kept as they are (threads from 0, contexts and streams of any sign).

    Parts of different tables are written while reading continues, and in parallel. Use it as a context manager: leaving it ends
    the writing. Unless there was an error, call :meth:`close` before.
    """

    def __init__(self, writer: TraceWriter, scope: str = "") -> None:
        """Rows go to `writer`, which the caller closes."""
        self._writer = writer
        #: Distinguishes sources: the same pid in two files means two processes unless the reader says otherwise.
        self.scope = scope
        #: The current source's entry in the manifest, besides format and file: tool, version, clock, …
        self.source: dict[str, Any] = {}
        #: Exports of ours whose rows were read, and the parts of their traces (:mod:`warpsight.formats.enclosed`).
        self.exports: set[tuple[int, int]] = set()
        #: Rows of table `loss` so far.
        self.losses: list[dict[str, Any]] = []
        self._identities = Identities()
        self._waiting: dict[str, list[pa.Table]] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self._small: dict[str, list[dict[str, Any]]] = {"attribute": [], "loss": []}
        self._pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="part")
        self._parts: dict[str, Future[None]] = {}
        #: Protects `_spans`, which every writing thread widens.
        self._lock = Lock()
        #: Rows added so far, by table.
        self.rows: dict[str, int] = {}

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=True)

    def begin(self, scope: str) -> None:
        """Start the rows of the next source."""
        self.scope = scope
        self.source = {}

    # Definitions

    @property
    def definitions(self) -> Definitions:
        """The interned tables, for readers that build stacks frame by frame."""
        return self._writer.definitions

    def name(self, text: str) -> int:
        """Id of a name, for `name_id` columns."""
        return self._writer.name(text)

    def names(self, texts: Iterable[str | None]) -> list[int | None]:
        """Ids of several names; None stays None."""
        return self._writer.names(texts)

    def shape(self, **columns: object) -> int:
        """Id of a launch shape from columns of table `shape`; missing ones are 0 and regular.

        Numbers that their column cannot hold are 0, too. No launch has them, but real files contain some that were never set.
        """
        wide = [
            name for name, value in columns.items() if isinstance(value, int) and not -_WIDE <= value < _WIDE
        ]
        for name in wide:
            columns[name] = 0
            self._note_once(f"launch shapes with an impossible {name}, which was set to 0")
        return self._writer.shape(**columns)

    def _note_once(self, cause: str) -> None:
        """Add a note once, no matter how many rows it applies to."""
        if not any(row["cause"] == cause for row in self.losses):
            self.note(cause)

    def stack(self, frames: Iterable[Frame | str], method: str = "imported") -> int | None:
        """Id of a stack, outermost frame first, given as strings or Frame tuples; None without frames."""
        return self._writer.stack(frames, method)

    # Who and where

    def process(self, pid: object, /, *, scope: str | None = None, **columns: object) -> int:
        """Id of a process. `pid` is the source's key; string keys and unsuitable numbers get pid 0.

        `columns` are those of table `process` (host, parent, rank, local_rank, world_size, command, executable,
        environment, settings, start, end, exit); missing columns are empty, and start and end default to those of its rows.
        `scope` joins sources that describe the same processes (files of one folder): give them the same text.
        """
        return self._identities.process((self.scope if scope is None else scope, pid), pid, columns)

    def thread(self, process: int, tid: object, name: str | None = None) -> int:
        """Thread id for rows: `tid` itself if it is a non-negative int32, otherwise a negative substitute."""
        return self._identities.thread(process, tid, name)

    def device(self, key: object, **columns: object) -> int:
        """Id of a device by its key: a UUID if known, otherwise a tuple that begins with :attr:`scope`.

        Pass the source's own number as `index` in the first call: it becomes the id, unless another device of the trace has it.
        """
        return self._identities.device(key, columns)

    def context(self, process: int, context: object, **columns: object) -> int:
        """Id of a context within its process; `columns`: device, null_stream, api (default cuda)."""
        return self._identities.context(process, context, columns)

    def stream(self, process: int, context: int, stream: object, **columns: object) -> int:
        """Id of a stream within its context (an id this object gave); `columns`: device, priority, flags, name."""
        return self._identities.stream(process, context, stream, columns)

    # Rows

    def add_columns(self, table: str, /, **columns: object) -> None:
        """Append rows, as columns of Arrow or NumPy; see :meth:`add`."""
        import pyarrow as pa

        self.add(table, pa.table(columns))

    def add(self, table: str, rows: pa.Table | Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> None:
        """Append rows: an Arrow table, a mapping of columns, or an iterable of rows; see :meth:`TraceWriter.add`.

        Raises:
            UsageError: for a table or column that is not in the schema, or a value that does not fit: a reader's bug.
        """
        import pyarrow as pa

        if isinstance(rows, pa.Table):
            rows = self._without_gaps(table, rows)
        data = self._writer.conformed(table, rows)
        if not len(data):
            return
        if "duration" in data.column_names:
            data = self._without_negative_durations(table, data)
        self.rows[table] = self.rows.get(table, 0) + len(data)
        self._waiting.setdefault(table, []).append(data)
        count, size = self._sizes.get(table, (0, 0))
        self._sizes[table] = count + len(data), size + data.nbytes
        if self._sizes[table][0] >= PART_ROWS or self._sizes[table][1] >= PART_BYTES:
            self._write(table)
        elif sum(waiting for _, waiting in self._sizes.values()) >= _WAITING_BYTES:
            self._write(max(self._sizes, key=lambda name: self._sizes[name][1]))

    def _without_gaps(self, table: str, rows: pa.Table) -> pa.Table:
        """Drop rows with a null in a required column, counting them as lost."""
        from warpsight.model import arrow

        for column in TABLES[table].columns:
            if column.nullable or column.name not in rows.column_names or not rows[column.name].null_count:
                continue
            self.lost(rows[column.name].null_count, f"rows without a value in {column.name}", table)
            rows = arrow.keep(rows, arrow.is_valid(rows[column.name]))
        return rows

    def _without_negative_durations(self, table: str, data: pa.Table) -> pa.Table:
        import pyarrow as pa

        from warpsight.model import arrow

        durations = data["duration"]
        least = arrow.least(durations).as_py()
        if least is None or least >= 0:
            return data
        negative = arrow.less(durations, 0)
        self.negative_durations(arrow.total(negative).as_py(), table)
        kept = arrow.if_else(negative, pa.scalar(0, durations.type), durations)
        return data.set_column(data.column_names.index("duration"), "duration", kept)

    def negative_durations(self, count: int, kind: str) -> None:
        """Record that `count` rows end before they begin."""
        self.lost(count, "negative durations, set to 0", kind)

    def attribute(self, table: str, row: int, key: str, value: str, process: int | None = None) -> None:
        """Keep a raw field of the `row`-th foreign row (source order) as JSON in `value`."""
        self._small["attribute"].append(
            {"table": table, "row": row, "key": key, "value": value, "process": process}
        )
        if len(self._small["attribute"]) >= PART_ROWS // 8:
            self._flush_small("attribute")

    def note(self, text: str, kind: str | None = None) -> None:
        """Add a note about how the trace was recorded or read; it does not imply missing data."""
        self.lost(0, text, kind, severity="note")

    def lost(
        self,
        count: int,
        cause: str,
        kind: str | None = None,
        *,
        severity: str = "lost",
        process: int | None = None,
    ) -> None:
        """Record that `count` rows (of record kind `kind`) are missing, and why."""
        row = {
            "source": "import",
            "cause": cause,
            "count": count,
            "kind": kind,
            "severity": severity,
            "process": process,
        }
        self.losses.append(row)
        self._small["loss"].append(row)

    def describe(self, **content: object) -> None:
        """Set entries of the manifest; details of the source (tool, version, clock) go to :attr:`source`."""
        self._writer.describe(**content)

    # The end

    def close(self) -> None:
        """Write all waiting rows and the tables of processes, threads, devices, contexts and streams.

        Raises:
            OSError: when a part could not be written.
        """
        for table in list(self._small):
            self._flush_small(table)
        for table in list(self._waiting):
            self._write(table)
        for table in list(self._parts):
            self._parts.pop(table).result()
        for table, rows in self._identities.rows(self._spans).items():
            if rows:
                self._writer.add(table, rows)

    def _flush_small(self, table: str) -> None:
        rows, self._small[table] = self._small[table], []
        if rows:
            self.add(table, rows)

    def _write(self, table: str) -> None:
        """Pass the rows of a table to a writing thread, once there is room and its earlier rows are written."""
        self._sizes.pop(table, None)
        tables = self._waiting.pop(table, [])
        if not tables:
            return
        if table in self._parts:
            self._parts.pop(table).result()
        elif len(self._parts) >= _WRITERS:
            self._parts.pop(next(iter(self._parts))).result()
        self._parts[table] = self._pool.submit(self._write_part, table, tables)

    def _write_part(self, table: str, tables: list[pa.Table]) -> None:
        import pyarrow as pa

        rows = pa.concat_tables(tables)
        self._notice(table, rows)
        self._writer.add(table, rows)

    def _notice(self, table: str, data: pa.Table) -> None:
        """Extend the time span of the processes that the rows belong to."""
        from warpsight.model import arrow

        names = data.column_names
        column = _TIME.get(table, "start")
        if "process" not in names or column not in names:
            return
        end = data[column]
        if "duration" in names:
            duration = data["duration"]
            end = arrow.add(end, arrow.fill_null(duration, 0) if duration.null_count else duration)
        found = arrow.distinct(data["process"]).to_pylist()
        for process in found:
            if process is None:
                continue
            start, last = data[column], end
            if len(found) > 1:
                chosen = arrow.equal(data["process"], process)
                start, last = arrow.keep(start, chosen), arrow.keep(last, chosen)
            least, most = arrow.least(start).as_py(), arrow.most(last).as_py()
            if least is None:
                continue
            with self._lock:
                first, until = self._spans.get(process, (least, most))
                self._spans[process] = (min(first, least), max(until, most))
