"""`StoredTrace`: one recording, opened for reading, from which all questions start."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from warpsight._display import HtmlShown
from warpsight.errors import TraceError, UsageError, WarpsightError
from warpsight.model import database, views
from warpsight.model.database import Database
from warpsight.model.kept import Kept
from warpsight.model.schema import TABLES, Table
from warpsight.model.storage import manifest, store

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    from warpsight.model.storage.columns import Column

_EXPLAIN = re.compile(
    r"^\s*EXPLAIN\s+(ANALYZE\b\s*)?(\([^)]*\)\s*(?=SELECT|WITH|FROM|VALUES))?", re.IGNORECASE
)


#: Maximum number of rows of a table whose columns are kept as they were read.
_SMALL = 1 << 16
#: Errors caused by unforeseen values.
_OF_DATA = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_Self = TypeVar("_Self", bound="StoredTrace")


class StoredTrace(HtmlShown):
    """A trace folder opened read-only; use :func:`warpsight.model.open` to make one.

    Threads may share it: each gets its own DuckDB cursor on the same views. Close it (or use it as a context
    manager) to free memory and, for packed and remote traces, the private copy on disk.
    """

    def __init__(
        self,
        folder: Path,
        *,
        path: str,
        temporary: TemporaryDirectory[str] | None = None,
        instead: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:
        """Open `folder`, which the user called `path`; `temporary` is cleaned up on close.

        `instead` has parts, in `temporary`, to read in place of the folder's for some tables.
        """
        self.path = path
        self.folder = self._utf8_path(folder.resolve())
        self.manifest: dict[str, Any] = manifest.read(self.folder)
        #: Data that analyses share for as long as the trace is open.
        self.kept = Kept()
        self._footers: dict[str, pq.FileMetaData] = {}
        #: Columns of small tables that were asked for: opening files takes longer than reading a few rows.
        self._small: dict[tuple[object, ...], tuple[dict[str, Column], dict[str, list[str]]]] = {}
        self._temporary = temporary
        other = instead or {}
        self._files = {
            name: [str(part) for part in other.get(name) or store.parts(self.folder, name)] for name in TABLES
        }
        folders = [self.folder, *({Path(temporary.name)} if temporary and other else ())]
        self._database: Database | None = Database(folders, self._files)

    def _utf8_path(self, folder: Path) -> Path:
        """The folder under a name in UTF-8, which DuckDB and Arrow need."""
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, opened)
            return Path(f"/proc/self/fd/{opened}")
        return folder

    def sql(self, text: str, **parameters: object) -> duckdb.DuckDBPyRelation:
        """Run one read-only statement; `$name` in it refers to the keyword argument `name`.

        Raises:
            UsageError: for an invalid statement, or one that does more than read the trace.
        """
        import duckdb

        cursor = self._cursor()
        if text != text.encode("utf-8", "replace").decode():
            raise UsageError("SQL: the statement is not UTF-8 text")
        try:
            statements = cursor.extract_statements(text)
            database.check(statements)
            if statements[0].type.name == "EXPLAIN":  # EXPLAIN ANALYZE executes the statement
                database.check(
                    cursor.extract_statements(_EXPLAIN.sub("", text, count=1)), allowed=("SELECT",)
                )
            relation = self._relation(text, parameters or None)
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise UsageError(_sql_message(error)) from None
        if relation is None:
            raise UsageError("the statement has no result")
        return relation

    def _relation(self, text: str, parameters: dict[str, Any] | None) -> duckdb.DuckDBPyRelation:
        import duckdb

        try:
            return self._opened().ready(text).sql(text, params=parameters)
        except duckdb.CatalogException:  # with all views there, the error names the nearest one
            return self._opened().with_all().sql(text, params=parameters)

    def fetched(self, relation: duckdb.DuckDBPyRelation) -> pa.Table:
        """All rows of a relation of this trace and thread; Ctrl-C ends the statement.

        Raises:
            UsageError: when running the statement fails, as for an impossible cast or a file that it may not read.
        """
        import duckdb

        try:
            if threading.current_thread() is not threading.main_thread():
                return relation.to_arrow_table()
            return self._interruptible(relation.to_arrow_table)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise
        except duckdb.Error as error:
            raise UsageError(_sql_message(error)) from None

    def _interruptible(self, fetch: Callable[[], pa.Table]) -> pa.Table:
        """The result of a function that runs this thread's statements: in another thread, so that this one receives signals."""
        cursor = self._cursor()
        outcome: Future[pa.Table] = Future()

        def work() -> None:
            try:
                outcome.set_result(fetch())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, name="statement", daemon=True).start()
        try:
            return outcome.result()
        except KeyboardInterrupt:
            while not outcome.done():  # a statement that has not begun does not notice
                cursor.interrupt()
                wait([outcome], 0.05)
            raise

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the time of this thread's statements inside the block; they end with an error.

        Raises:
            UsageError: when a statement does not finish in time.
        """
        import duckdb

        cursor = self._cursor()
        timer = threading.Timer(seconds, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        except duckdb.InterruptException:
            raise UsageError(
                f"the statement had not finished after {seconds:g} s and was ended; filter or aggregate in SQL, or join on "
                "equal columns (process, correlation)"
            ) from None
        except duckdb.OutOfMemoryException as error:
            raise UsageError(f"the statement needs more memory than there is: {error}") from None
        finally:
            timer.cancel()

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """A view as a relation: a table of the schema, or a raw form (`kernel_ids`, `launch_ids`).

        Raises:
            UsageError: when there is no such view.
        """
        if name not in TABLES and name.removesuffix("_ids") not in views.NAMED:
            raise UsageError(f"there is no table {name!r}; tables: {', '.join(TABLES)}")
        return self._opened().with_views([name]).view(name)

    def arrow(self, name: str) -> pa.Table:
        """Read a whole table as Arrow, with the schema's types and metadata (ids, not strings)."""
        if name not in TABLES:
            raise UsageError(f"there is no table {name!r}; tables: {', '.join(TABLES)}")
        return self._whole(TABLES[name])

    def _whole(self, table: Table) -> pa.Table:
        import pyarrow as pa

        pieces = [self._part(table, file) for file in self._files[table.name]]
        return pa.concat_tables(pieces) if pieces else table.schema().empty_table()

    def _part(self, table: Table, file: str) -> pa.Table:
        import pyarrow as pa

        from warpsight.model.storage import damage

        footer = self._footer(file)
        try:
            return store.read_part(table, file, footer)
        except (pa.ArrowException, KeyError) as error:
            raise damage.unreadable(file, error) from None

    def columns(
        self,
        name: str | Sequence[str],
        numbers: Mapping[str, int],
        texts: Sequence[str] = (),
        narrow: Sequence[str] = (),
    ) -> tuple[dict[str, Column], dict[str, list[str]]]:
        """Whole columns of a table of the schema as NumPy arrays; see :func:`warpsight.model.storage.columns.read`.

        Rows of several tables follow each other, in the types of the first; a column that a table lacks is null there.
        """
        from warpsight.model.storage import columns

        tables = (name,) if isinstance(name, str) else name
        files = [file for table in tables for file in self._files[table]]
        if sum(map(self.count, tables)) > _SMALL:
            return columns.read(files, TABLES[tables[0]], numbers, texts, self._footer, narrow)
        key = tuple(tables), tuple(numbers.items()), tuple(texts), tuple(narrow)
        found = self._small.get(key)
        if found is None:
            found = columns.read(files, TABLES[tables[0]], numbers, texts, self._footer, narrow)
            self._small[key] = found
        # Copies, because they are the caller's to change.
        return {n: column.copy() for n, column in found[0].items()}, {n: [*t] for n, t in found[1].items()}

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of a small table as tuples, in part order, for tables whose rows are looked up."""
        if not self._files[name]:
            return []
        found = self._whole(TABLES[name].only(columns))
        return list(zip(*(found.column(column).to_pylist() for column in columns), strict=True))

    def least(self, name: str, column: str) -> int | None:
        """The smallest value of an integer column, or None; read from the parts' footers if they have it."""
        from warpsight.model.storage import columns

        return columns.least(self._files[name], TABLES[name], column, self._footer)

    def latest(self, name: str, column: str) -> int | None:
        """The last moment of a table, or None: the largest value of column `time`, or of `start` with the row's `duration`."""
        from warpsight.model.storage import columns

        length = "duration" if column == "start" else None
        return columns.latest(self._files[name], column, self._footer, length)

    def has(self, name: str, column: str) -> bool:
        """Whether a column has any non-null value, from the footers of the parts if they record it."""
        from warpsight.model.storage import columns

        return columns.has(self._files[name], TABLES[name], column, self._footer)

    @property
    def tables(self) -> dict[str, int]:
        """Row count of every table that has rows."""
        counts = {name: self.count(name) for name in TABLES}
        return {name: count for name, count in counts.items() if count}

    def count(self, name: str) -> int:
        """Rows of a table, from the footers of its parts."""
        return sum(self._footer(file).num_rows for file in self._files[name])

    def _footer(self, file: str) -> pq.FileMetaData:
        """The footer of a part, read once: parts do not change."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from warpsight.model.storage import damage

        if file not in self._footers:
            try:
                self._footers[file] = pq.read_metadata(file)
            except (pa.ArrowException, OSError) as error:
                raise damage.unreadable(file, error) from None
        return self._footers[file]

    @property
    def missing(self) -> dict[str, int]:
        """Rows by table that were written but whose files are gone, as after an incomplete copy.

        Raises:
            TraceError: when a part is damaged.
        """
        from warpsight.model.storage import damage

        return damage.missing(self.manifest.get("rows"), self.count)

    @property
    def loss(self) -> pa.Table:
        """Everything missing from the trace, and notes about how it was taken, as an Arrow table."""
        return self.arrow("loss")

    def stacks(self, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Frames of stacks, outermost first, as `function (file:line)`; none for an unknown id."""
        from warpsight.model import stacks

        found = stacks.load(self)
        return {i: found.of(i) for i in sorted({int(i) for i in ids if i is not None})}

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self.kept.forget()
        self._small.clear()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _opened(self) -> Database:
        if self._database is None:
            raise TraceError(f"{self.path} is closed")
        return self._database

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        return self._opened().cursor()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, _OF_DATA) or type(error).__module__.startswith(
                ("duckdb", "_duckdb", "pyarrow")
            ):
                self.blame(error)
        finally:
            self.close()

    def blame(self, error: BaseException | None) -> None:
        """After an unexpected failure, check whether the trace itself is damaged. Traces are not checked before a failure.

        Raises:
            TraceError: when it holds data that no writer of traces produces.
        """
        from warpsight.model.storage import damage

        if isinstance(error, WarpsightError) or type(error).__name__ in (
            "InterruptException",
            "OutOfMemoryException",
        ):
            return
        if problem := damage.found(self._files):
            raise TraceError(f"{self.path} is damaged: {problem} ({type(error).__name__})") from error

    def __repr__(self) -> str:
        rows = self.manifest.get("rows", {})
        described = ", ".join(
            f"{rows[name]:,} {name}" for name in ("kernel", "launch", "memcpy", "op") if rows.get(name)
        )
        return f"<Trace {self.path}: {described or 'no device work'}>"


def _sql_message(error: Exception) -> str:
    """The database's message; only that of a syntax error shows the place, which may be in a query around the user's."""
    text = str(error)
    if "syntax error" not in text:
        text = re.split(r"\n\s*(?:LINE \d+:|Candidate |\n)", text, maxsplit=1)[0].replace("!\n", "; ")
    return f"SQL: {text}"
