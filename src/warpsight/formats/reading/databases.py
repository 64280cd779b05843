"""Foreign tables: a SQLite file, or a folder of Parquet or Arrow files, read column by column as Arrow.

Recorders add and drop tables and columns with every version, so a reader requests the columns it knows and gets nulls for those
missing from a file. Rows come in pieces of :data:`PIECE`; a table is never loaded as a whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.model import arrow

if TYPE_CHECKING:
    from warpsight.formats.errors import FormatError
    from warpsight.formats.source import Source

Array = npt.NDArray[Any]
#: Rows read at a time.
PIECE = 65_536
SQLITE_MAGIC = b"SQLite format 3\0"


class ForeignRows:
    """Some rows of a foreign table: every requested column, null where the file lacks it."""

    def __init__(self, data: pa.Table) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def column(self, name: str) -> pa.ChunkedArray:
        """The column unchanged, including nulls."""
        return self.data[name]

    def numbers(self, name: str, fill: int = 0) -> Array:
        """An integer column as NumPy; nulls are `fill`."""
        return np.asarray(arrow.fill_null(self.data[name], fill))

    def null(self, name: str) -> Array:
        """Which rows have a null value."""
        return np.asarray(arrow.is_null(self.data[name]))

    def given(self, name: str) -> bool:
        """Whether any row has a value in the column."""
        return bool(self.data[name].null_count < len(self.data))

    def where(self, chosen: Array) -> ForeignRows:
        """The rows selected by a mask or by indices."""
        return ForeignRows(self.data.filter(pa.array(chosen)))


def distinct(values: Array) -> tuple[Array, pa.Array]:
    """The distinct values of a column, and each row's index into them, by hashing."""
    coded = pa.array(values).dictionary_encode()
    return np.asarray(coded.dictionary), coded.indices


def distinct_rows(columns: Sequence[Array]) -> tuple[Array, pa.Array]:
    """Like :func:`distinct`, for rows of several integer columns: one row of the first result per combination."""
    rows = np.ascontiguousarray(np.stack([np.asarray(column, np.int64) for column in columns], axis=1))
    width = rows.shape[1] * 8
    packed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(rows.tobytes())]
    )
    coded = packed.dictionary_encode()
    known = np.frombuffer(b"".join(coded.dictionary.to_pylist()), np.int64).reshape(-1, rows.shape[1])
    return known, coded.indices


def numbered(values: Array, function: Callable[[int], int]) -> Array:
    """`function` of every value as int64, called once per distinct value."""
    known, places = distinct(values)
    if not len(known):
        return np.empty(0, np.int64)
    return np.asarray(np.array([function(value) for value in known.tolist()], np.int64)[np.asarray(places)])


class Tables(Protocol):
    """The interface of both kinds of foreign tables."""

    def names(self) -> list[str]:
        """Tables that are there."""

    def columns(self, table: str) -> Sequence[str]:
        """Columns of a table; empty if it does not exist."""

    def count(self, table: str) -> int:
        """Number of rows in a table; 0 if it does not exist."""

    def read(
        self, table: str, columns: Mapping[str, pa.DataType], only: tuple[str, Collection[int]] | None = None
    ) -> Iterator[ForeignRows]:
        """The rows of a table in pieces, with exactly these columns. Empty if the table does not exist.

        `only` keeps the rows whose column has one of some values; a table without that column gives no rows.
        """

    def close(self) -> None:
        """Close the files."""


def whole(tables: Tables, table: str, columns: Mapping[str, pa.DataType]) -> ForeignRows:
    """All rows of a small table at once."""
    parts = [rows.data for rows in tables.read(table, columns)]
    return ForeignRows(pa.concat_tables(parts) if parts else pa.schema(list(columns.items())).empty_table())


class Sqlite:
    """The tables of a SQLite file, opened for reading only."""

    def __init__(self, source: Source) -> None:
        """Open the file (a temporary copy when it is compressed).

        Raises:
            FormatError: when SQLite cannot read it.
        """
        self._source = source
        with _source_errors(source):
            self._file = sqlite3.connect(f"{source.local().resolve().as_uri()}?mode=ro&immutable=1", uri=True)
            self._file.set_authorizer(_without_recursion)
            self._file.execute("pragma cell_size_check=on")
            self._file.execute("pragma trusted_schema=off")
            found = self._file.execute("select name from sqlite_master where type in ('table', 'view')")
            # Columns are requested when they are needed: SQLite refuses to look into some views of untrusted files.
            self._columns: dict[str, list[str] | None] = {str(name): None for (name,) in found.fetchall()}

    def names(self) -> list[str]:
        """Tables and views of the file."""
        return list(self._columns)

    def columns(self, table: str) -> Sequence[str]:
        """Columns of a table; empty if it does not exist."""
        if table not in self._columns:
            return ()
        known = self._columns[table]
        if known is None:
            with _source_errors(self._source):
                found = self._file.execute(f"pragma table_info({_quoted(table)})").fetchall()
            known = self._columns[table] = [str(row[1]) for row in found]
        return known

    def count(self, table: str) -> int:
        """Number of rows in a table; 0 if it does not exist."""
        if table not in self._columns:
            return 0
        with _source_errors(self._source):
            return int(self._file.execute(f"select count(*) from {_quoted(table)}").fetchone()[0])

    def read(
        self, table: str, columns: Mapping[str, pa.DataType], only: tuple[str, Collection[int]] | None = None
    ) -> Iterator[ForeignRows]:
        """See :class:`Tables`.

        Raises:
            FormatError: for a damaged file, or a value of the wrong type for its column.
        """
        there = self.columns(table)
        chosen = [name for name in columns if name in there]
        if not chosen or (only and (only[0] not in there or not only[1])):
            return
        with _source_errors(self._source):
            chosen = self._filled(table, chosen)
            whole = [name for name in chosen if pa.types.is_integer(columns[name])]
            rest = [name for name in chosen if name not in whole]
            parts = [_packed(whole)] if whole else []
            query = f"select {', '.join([*parts, *map(_quoted, rest)])} from {_quoted(table)}"
            if only:
                query += f" where {_quoted(only[0])} in ({', '.join(map(str, map(int, only[1])))})"
            cursor = self._file.execute(query)
            # Queries may run concurrently, so each sets how its strings are decoded before it starts.
            texts = _lenient if rest else str
            while rows := self._fetched(cursor, texts):
                listed = list(zip(*rows, strict=True))
                found = {name: self._array(table, name, values, columns[name]) for name, values in
                         zip(rest, listed[len(parts) :], strict=True)}  # fmt: skip
                if whole:
                    found.update(self._unpacked(table, whole, listed[0], columns))
                yield ForeignRows(
                    pa.table(
                        {
                            name: found[name] if name in found else pa.nulls(len(rows), kind)
                            for name, kind in columns.items()
                        }
                    )
                )

    def _fetched(self, cursor: sqlite3.Cursor, texts: Callable[[bytes], str]) -> list[Any]:
        self._file.text_factory = texts
        return cursor.fetchmany(PIECE)

    def _unpacked(
        self, table: str, names: list[str], lines: tuple[str, ...], columns: Mapping[str, pa.DataType]
    ) -> dict[str, pa.Array]:
        """Split the lines that SQLite joined back into integer columns; a null is an empty string."""
        import pyarrow.csv as pacsv

        try:
            data = pacsv.read_csv(
                pa.BufferReader("\n".join((*lines, "")).encode()),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 30),
                pacsv.ParseOptions(ignore_empty_lines=False, quote_char=False),
                pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.int64()), null_values=[""]),
            )
        except (pa.ArrowInvalid, UnicodeError):
            data = None
        if data is None or len(data) != len(lines):
            raise self._source.error(self._wrong(table, names, columns))
        # SQLite supports signed integers only
        return {
            name: data[name].combine_chunks().cast(columns[name], safe=columns[name] != pa.uint64())
            for name in names
        }

    def _wrong(self, table: str, names: list[str], columns: Mapping[str, pa.DataType]) -> str:
        """Which of some columns contain anything but integers."""
        for name in names:
            found = f"select 1 from {_quoted(table)} where typeof({_quoted(name)}) not in ('integer', 'null') limit 1"
            if self._file.execute(found).fetchone():
                return f"column {name} of table {table} holds something other than {columns[name]}"
        return f"table {table} holds values that are not integers"

    def _filled(self, table: str, columns: list[str]) -> list[str]:
        """The non-empty columns of a large table: SQLite skips nulls far faster than Python fetches them."""
        if self.count(table) <= PIECE:
            return columns
        counts = ", ".join(f"count({_quoted(name)})" for name in columns)
        row = self._file.execute(f"select {counts} from {_quoted(table)}").fetchone()
        return [name for name, count in zip(columns, row, strict=True) if count] or columns[:1]

    def _array(self, table: str, name: str, values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError, UnicodeError):
            raise self._source.error(
                f"column {name} of table {table} holds something other than {kind}"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Sqlite:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Folder:
    """A folder with one Parquet or Arrow IPC file per table, named after it."""

    SUFFIXES = (".parquet", ".arrow", ".feather")

    def __init__(self, source: Source) -> None:
        """Nothing is read yet."""
        self._source = source
        self._files = {
            file.stem: file for file in sorted(source.path.iterdir()) if file.suffix in self.SUFFIXES
        }

    def names(self) -> list[str]:
        """Names of the tables, one per file."""
        return list(self._files)

    def columns(self, table: str) -> Sequence[str]:
        """Columns of a table; empty if it does not exist."""
        file = self._files.get(table)
        if file is None:
            return ()
        with self._source_errors(file):
            return [str(name) for name in _dataset(file).schema.names]

    def count(self, table: str) -> int:
        """Number of rows in a table; 0 if it does not exist."""
        file = self._files.get(table)
        if file is None:
            return 0
        with self._source_errors(file):
            return int(_dataset(file).count_rows())

    def read(
        self, table: str, columns: Mapping[str, pa.DataType], only: tuple[str, Collection[int]] | None = None
    ) -> Iterator[ForeignRows]:
        """See :class:`Tables`.

        Raises:
            FormatError: for a damaged file, or a column of the wrong type.
        """
        file = self._files.get(table)
        if file is None:
            return
        with self._source_errors(file):
            data = _dataset(file)
            chosen = [name for name in columns if name in data.schema.names]
            if only and only[0] not in data.schema.names:
                return
            import pyarrow.dataset as ds

            condition = ds.field(only[0]).isin(list(only[1])) if only else None
            for batch in data.to_batches(columns=chosen, batch_size=PIECE, filter=condition):
                if not len(batch):
                    continue
                yield ForeignRows(
                    pa.table(
                        {
                            name: _cast(batch.column(name), kind)
                            if name in chosen
                            else pa.nulls(len(batch), kind)
                            for name, kind in columns.items()
                        }
                    )
                )

    @contextmanager
    def _source_errors(self, file: Path) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
            raise _error(self._source, file.name, error) from None

    def close(self) -> None:
        """Do nothing, as no file stays open."""


def _dataset(file: Path) -> pa.dataset.Dataset:
    import pyarrow.dataset as ds

    if file.suffix == ".parquet":
        return ds.dataset(file, format="parquet")
    with file.open("rb") as stream:
        random_access = stream.read(6) == b"ARROW1"
    if random_access:
        return ds.dataset(file, format="ipc")
    with pa.memory_map(str(file)) as mapped_file:
        return ds.dataset(pa.ipc.open_stream(mapped_file).read_all())


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    # Ids of 64 bits wrap between signed and unsigned; everything else must fit.
    wraps = pa.types.is_integer(values.type) and kind in (pa.int64(), pa.uint64())
    return values.cast(kind, safe=not wraps)


def _lenient(text: bytes) -> str:
    """Replace bytes that are not UTF-8: real files keep serialized messages in text columns."""
    return text.decode("utf-8", "replace")


def _without_recursion(action: int, *_: str | None) -> int:
    """Refuse endless queries: a view in a foreign file may refer to itself."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK


@contextmanager
def _source_errors(source: Source) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise source.error(f"SQLite cannot read it: {error}") from None


def _error(source: Source, file: str, error: Exception) -> FormatError:
    text = str(error).splitlines()
    return source.error(f"{file} cannot be read: {text[0] if text else type(error).__name__}")


def _packed(names: Sequence[str]) -> str:
    """An expression that joins columns with commas: one string per row costs Python a third of one number per column."""
    return f"printf('{','.join(['%s'] * len(names))}', {', '.join(map(_quoted, names))})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
