"""The database behind a trace's SQL: DuckDB over its Parquet parts, with views created on demand."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.errors import TraceError, UsageError
from warpsight.model import views
from warpsight.model.storage import damage
from warpsight.model.workers import processors

if TYPE_CHECKING:
    import duckdb

_WORD = re.compile(r"\w+")
#: Statements that ask which views there are.
_ASKS_FOR_ALL = re.compile(
    r"\b(information_schema|duckdb_\w+|pg_\w+|sqlite_\w+|show|describe|summarize)\b", re.I
)


class Database:
    """An in-memory DuckDB that can read the trace's folders and nothing else. Threads may share it: each has its own cursor.

    Most questions touch a few of the tables, and some none: the connection is made for the first statement, and a view for
    the first statement that names it.
    """

    def __init__(self, folders: Sequence[Path], files: Mapping[str, Sequence[str]]) -> None:
        """Parts of each table, and the folders that they are in."""
        self._folders = folders
        self._files = files
        self._lock = threading.Lock()  # protects the connection and which views it has
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._made: set[str] = set()
        self._local = threading.local()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """This thread's cursor."""
        if not hasattr(self._local, "cursor"):
            with self._lock:
                if self._connection is None:
                    self._connection = _connected(self._folders)
                self._local.cursor = self._connection.cursor()
                self._local.texts = set()
        cursor: duckdb.DuckDBPyConnection = self._local.cursor
        return cursor

    def ready(self, statement: str) -> duckdb.DuckDBPyConnection:
        """This thread's cursor, with every view that the statement could name.

        Raises:
            TraceError: when a part of one of them is damaged.
        """
        every = views.names()
        if _ASKS_FOR_ALL.search(statement):
            return self.with_views(every)
        words = {word.lower() for word in _WORD.findall(statement)}
        return self.with_views([name for name in every if name in words])

    def with_all(self) -> duckdb.DuckDBPyConnection:
        """This thread's cursor, with all views."""
        return self.with_views(views.names())

    def with_views(self, names: Sequence[str]) -> duckdb.DuckDBPyConnection:
        """This thread's cursor, with some views.

        Raises:
            TraceError: when a part of one of them is damaged.
        """
        import duckdb

        cursor = self.cursor()
        try:
            for name in names:
                for table in views.looks_up_in(name):
                    self._text(cursor, table)
                self._view(cursor, name)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise
        except (duckdb.Error, OSError, LookupError, TypeError, ValueError) as error:  # Arrow's are among them
            raise self._unreadable(name, error) from None
        return cursor

    def _unreadable(self, view: str, error: BaseException) -> TraceError:
        table = view.removesuffix("_ids")
        parts = [part for name in (table, *views.looks_up_in(table)) for part in self._files[name]]
        if named := damage.unreadable_part(parts):
            return damage.unreadable(*named)
        return damage.unreadable(f"table {table} of {self._folders[0]}", error)

    def close(self) -> None:
        """Close the connection; closing twice is allowed. One that another thread still asks closes with that statement."""
        with self._lock:
            if self._connection is not None:
                import duckdb

                with contextlib.suppress(duckdb.OperationalError):
                    self._connection.close()
                self._connection = None

    def _view(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        with self._lock:
            if name in self._made:
                return
            raw = name if name in views.RAW else f"{name}_ids"
            for one in dict.fromkeys((raw, name)):
                if one not in self._made:
                    cursor.execute(views.create(one, self._files))
                    self._made.add(one)

    def _text(self, cursor: duckdb.DuckDBPyConnection, table: str) -> None:
        """Variables are the cursor's own, and a view's types are known when it is created."""
        if table not in self._local.texts:
            self._view(cursor, table)
            cursor.execute(views.variable(table))
            self._local.texts.add(table)


def _connected(folders: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "temp_directory": "",
        "threads": str(processors()),
    }
    if not duckdb.__version__.startswith("1."):
        # Four for each CPU of the machine otherwise, for remote files: a container may not have so many.
        config["async_threads"] = "1"
    connection = duckdb.connect(":memory:", config=config)
    # In a notebook without ipywidgets it is off, and any change of it is an error.
    if connection.sql("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET enable_progress_bar = false")
    for statement in (
        f"SET allowed_directories = [{', '.join(views.quote(str(folder)) for folder in folders)}]",
        "SET autoload_known_extensions = false",
        "SET allow_community_extensions = false",
        "SET python_enable_replacements = false",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        connection.execute(statement)
    return connection


def check(statements: Sequence[duckdb.Statement], allowed: tuple[str, ...] = ("SELECT", "EXPLAIN")) -> None:
    """Refuse anything except a single read-only statement.

    Raises:
        UsageError: for any other statement; the message says what it is.
    """
    if len(statements) != 1:
        raise UsageError(f"one SQL statement is expected, {len(statements)} were given")
    kind = statements[0].type.name
    if kind not in allowed:
        raise UsageError(f"a trace can only be read: {kind} statements are not allowed")
