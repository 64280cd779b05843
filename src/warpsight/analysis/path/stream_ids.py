"""Streams and contexts of all rows that a dependency graph is made of, as small numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.model import work as device_work

Column = npt.NDArray[Any]


class StreamIds:
    """Numbers streams, known by process, context and stream id, and contexts, known by process and context id, from 0.

    Attributes:
        process: Process of each stream.
        context: Number of each stream's context.
        stream: Id of each stream, as rows have it.
        process_of_context: Process of each context.
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[int, int, int], int] = {}
        self._contexts: dict[tuple[int, int], int] = {}
        self.process: list[int] = []
        self.context: list[int] = []
        self.stream: list[int] = []
        self.process_of_context: list[int] = []

    def number(self, process: int, context: int, stream: int) -> int:
        """The number of a stream; a new one gets the next."""
        known = self._streams.setdefault((process, context, stream), len(self._streams))
        if known == len(self.stream):
            self.process.append(process)
            self.context.append(self.number_of_context(process, context))
            self.stream.append(stream)
        return known

    def number_of_context(self, process: int, context: int) -> int:
        """The number of a context; a new one gets the next."""
        known = self._contexts.setdefault((process, context), len(self._contexts))
        if known == len(self.process_of_context):
            self.process_of_context.append(process)
        return known

    def numbers(self, process: Column, context: Column, stream: Column) -> Column:
        """The numbers of the streams of some rows."""
        return _each([process, context, stream], self.number)

    def numbers_of_contexts(self, process: Column, context: Column) -> Column:
        """The numbers of the contexts of some rows."""
        return _each([process, context], self.number_of_context)


def _each(columns: Sequence[Column], number: Any) -> Column:
    """A function of every distinct row of some columns, spread over the rows."""
    code, distinct = device_work.numbered(columns)
    found: Column = np.array(
        [number(*row) for row in zip(*(column.tolist() for column in distinct), strict=True)], np.int64
    )
    return found[code]
