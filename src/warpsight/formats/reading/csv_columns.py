"""CSV of profilers: columns by any spelling of their name, exact integers, in pieces."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from warpsight.formats.source import Source

Array = npt.NDArray[Any]


def normal(name: str) -> str:
    """A column's name without case, quotes, spaces and signs: `Start_Timestamp` and `start-timestamp` become equal."""
    return re.sub(r"[^a-z0-9()]", "", name.lower().strip("\ufeff"))


def spellings(head: bytes) -> list[str]:
    """Names of the columns in the first line."""
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    return [name.strip() for name in next(csv.reader(io.StringIO(line.rstrip("\r"))), [])]


def header(head: bytes) -> list[str]:
    """Normal names of the columns in the first line."""
    return [normal(name) for name in spellings(head)]


class Columns:
    """Some rows of a CSV file; every value is a string until requested as a number."""

    def __init__(self, source: Source, data: pa.Table, spellings: Sequence[str] = ()) -> None:
        self._source = source
        self._data = data
        self._spellings = dict(zip(data.column_names, spellings, strict=False))

    def __len__(self) -> int:
        return len(self._data)

    def has(self, *names: str) -> bool:
        """Whether one of the columns is there."""
        return any(name in self._data.column_names for name in names)

    def unknown(self, known: Collection[str]) -> list[str]:
        """Normal names of the columns that are not among `known`."""
        return [name for name in self._data.column_names if name not in known and name]

    def spelled(self, name: str) -> str:
        """A column's name as the file spells it."""
        return str(self._spellings.get(name, name))

    def texts(self, *names: str) -> list[str]:
        """The first of the columns that exists, as strings; otherwise empty strings."""
        found = self._find(names)
        values: list[str] = [""] * len(self) if found is None else self._data[found].to_pylist()
        return values

    def _find(self, names: Sequence[str]) -> str | None:
        return next((name for name in names if name in self._data.column_names), None)

    def numbers(self, *names: str, fill: int | None = None) -> Array:
        """The first of the columns that exists, as exact integers.

        Raises:
            FormatError: for a text that is not an integer, or a missing column without `fill`.
        """
        found = self._find(names)
        if found is None:
            if fill is None:
                raise self._source.error(f"has no column {names[0]}")
            return np.full(len(self), fill, np.int64)
        values = self._data[found]
        if fill is not None:
            values = pc.if_else(pc.is_in(values, pa.array(["", "N/A", "NA"])), str(fill), values)
        try:
            return np.asarray(values.cast(pa.int64()))
        except pa.ArrowInvalid:
            return np.array([self._integer(found, text) for text in values.to_pylist()], np.int64)

    def _integer(self, column: str, text: str) -> int:
        try:
            value = int(text.strip(), 0)
        except ValueError:
            try:
                value = int(Decimal(text.strip()))
            except (InvalidOperation, ValueError, OverflowError):
                raise self._source.error(
                    f"column {column} holds {text[:40]!r}, which is not a number"
                ) from None
        if not -(2**63) <= value < 2**63:
            raise self._source.error(f"column {column} holds {text[:40]!r}, which is too large")
        return value

    def nanoseconds(self, *names: str) -> Array:
        """A column of microseconds with decimals as exact nanoseconds.

        Raises:
            FormatError: for a text that is not a number, or a missing column.
        """
        found = self._find(names)
        if found is None:
            raise self._source.error(f"has no column {names[0]}")
        return np.array([self._scaled(found, text) for text in self._data[found].to_pylist()], np.int64)

    def _scaled(self, column: str, text: str) -> int:
        try:
            value = Decimal(text.strip()) * 1000
            whole = int(value.to_integral_value())
        except (InvalidOperation, ValueError, OverflowError):
            raise self._source.error(f"column {column} holds {text[:40]!r}, which is not a time") from None
        if not -(2**63) <= whole < 2**63:
            raise self._source.error(f"column {column} holds {text[:40]!r}, which is too large")
        return whole


def read(source: Source) -> Iterator[Columns]:
    """The rows of a file in pieces, columns by normal name (the first of several with one name).

    Raises:
        FormatError: for a line with more or fewer values than the header has.
    """
    import pyarrow.csv as pacsv

    names = header(source.head)
    if not names:
        raise source.error("has no header line")
    unique = [name if names.index(name) == i else f"{name}#{i}" for i, name in enumerate(names)]
    try:
        with source.open() as file:
            reader = pacsv.open_csv(
                pa.PythonFile(file, mode="r"),
                read_options=pacsv.ReadOptions(column_names=unique, skip_rows=1, block_size=1 << 22),
                parse_options=pacsv.ParseOptions(newlines_in_values=False),
                convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(unique, pa.string())),
            )
            for batch in reader:
                if len(batch):
                    yield Columns(source, pa.Table.from_batches([batch]), spellings(source.head))
    except pa.ArrowInvalid as error:
        text = str(error).splitlines()[0]
        if "Empty CSV" in text:
            return
        raise source.error(f"is not the expected CSV: {text}") from None
