"""Writes parts in parallel with the conversion: two threads sort and encode while the next segment is decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.capture import columns
from warpsight.model import private_files
from warpsight.model.schema import TABLES
from warpsight.model.storage import store

#: Maximum parts waiting or in progress: bounds memory to a few decoded segments.
_OUTSTANDING = 4
#: For one number of these types in every row zstd takes four times as long as a dictionary, and fifty times the space.
_EIGHT_BYTES = ("int64", "uint64")


@lru_cache(maxsize=64)
def _schema(table: str) -> pa.Schema:
    return TABLES[table].schema()


class PartWriter:
    """Queues tables of columns and writes each as a part; pass the result of :meth:`queued` to :func:`wait`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="part")
        self._room = BoundedSemaphore(_OUTSTANDING)
        self._futures: list[Future[Path]] = []
        self._pieces: Counter[tuple[str, int | None, int]] = Counter()
        #: Rows of every table, over all rounds.
        self.rows: Counter[str] = Counter()

    def add(self, table: str, process: int | None, part: int, count: int, values: Mapping[str, Any]) -> None:
        """Queue `count` rows; columns as :func:`columns.arrow` takes them, absent ones null."""
        if not count:
            return
        piece = self._pieces[table, process, part]
        self._pieces[table, process, part] += 1
        path = store.part_path(self._root, table, process, part, piece)
        self.rows[table] += count
        self._room.acquire()
        self._futures.append(self._pool.submit(self._write, table, path, count, dict(values)))

    def add_arrow(self, table: str, part: int, data: pa.Table) -> None:
        """Queue rows that are Arrow already (trace-wide definitions)."""
        self.add(
            table,
            None,
            part,
            len(data),
            {name: data.column(name).combine_chunks() for name in data.column_names},
        )

    def _write(self, table: str, path: Path, count: int, values: dict[str, Any]) -> Path:
        try:
            model = TABLES[table]
            order = _order(values.get(model.sort)) if model.sort else None
            arrays, plain = [], []
            for column in model.columns:
                value = values.pop(column.name, None)
                if columns.constant(value) and column.type not in _EIGHT_BYTES:
                    plain.append(column.name)
                if order is not None:
                    value = columns.take(value, order)
                arrays.append(columns.arrow(column, value, count))
            schema = pa.schema([f.with_type(a.type) for f, a in zip(_schema(table), arrays, strict=True)])
            store.write_part(path, model, pa.Table.from_arrays(arrays, schema=schema), plain)
            return path
        finally:
            self._room.release()

    def queued(self) -> list[Future[Path]]:
        """The parts queued since the last call, for :func:`wait`; later ones need other part numbers."""
        futures, self._futures = self._futures, []
        self._pieces.clear()
        return futures

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=True)


def wait(parts: Iterable[Future[Path]]) -> None:
    """Wait until parts have been written.

    Raises:
        OSError: when one could not be written; the others are complete or absent.
    """
    errors = [error for error in (part.exception() for part in parts) if error is not None]
    if errors:
        raise errors[0]


def keep(parts: Iterable[Future[Path]]) -> None:
    """Block until parts would survive a power failure, so that the files they came from can be deleted.

    Raises:
        OSError: when one could not be written.
    """
    written = list(parts)
    wait(written)
    for part in written:
        private_files.keep(part.result())


def _order(values: columns.Nullable | columns.Array | None) -> columns.Array | None:
    """The order that sorts a column, nulls last; None if it is already sorted."""
    if isinstance(values, columns.Nullable):
        if values.null is not None and values.null.any():
            return np.lexsort((values.values, values.null))
        values = values.values
    if values is None or bool((values[1:] >= values[:-1]).all()):
        return None
    return np.argsort(values, kind="stable")
