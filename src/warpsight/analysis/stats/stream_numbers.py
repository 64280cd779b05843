"""The streams of kernels as one integer each: grouping by one column is faster than by three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Columns that identify a stream.
COLUMNS = ("process", "context", "stream")
_LISTED = """SELECT row_number() OVER (ORDER BY process, context, stream) AS number, process, context, stream
    FROM (SELECT DISTINCT process, context, stream FROM kernel_ids)"""


@dataclass(frozen=True)
class StreamNumbers:
    """How each kernel's stream becomes a number and back.

    Attributes:
        source: The relation to read kernels from.
        expression: SQL over `source` that gives the number of a row's stream, from 0.
    """

    source: str
    expression: str
    _trace: StoredTrace
    #: Minimum and number of possible values of each column; None if they span more than 62 bits.
    _spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, trace: StoredTrace) -> StreamNumbers:
        """Number the streams of a trace's kernels.

        Ids are usually close together, so arithmetic combines three into one number: of processes 0 and 1, context 1 and streams
        7 to 9, stream 8 of process 1 is 1 * 3 + 1 = 4. Streams that are spread over all 64 bits are listed and joined.
        """
        limits = ", ".join(f"min({name}), max({name})" for name in COLUMNS)
        found = trace.sql(f"SELECT {limits} FROM kernel_ids").fetchall()[0]
        pairs = [(found[i] or 0, found[i + 1] or 0) for i in range(0, len(found), 2)]
        spans = tuple((low, high - low + 1) for low, high in pairs)
        if spans[0][1] * spans[1][1] * spans[2][1] >= 1 << 62:
            return cls(f"kernel_ids JOIN ({_LISTED}) USING (process, context, stream)", "number", trace)
        number = "0::BIGINT"
        for name, (low, width) in zip(COLUMNS, spans, strict=True):
            if width > 1:
                number = f"({number} * {width} + ({name}::BIGINT - ({low})))"
        return cls("kernel_ids", number, trace, spans)

    def columns(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        """Process, context and stream of some numbers."""
        if not self._spans:
            streams = {number: where for number, *where in self._trace.sql(_LISTED).fetchall()}
            return {name: [streams[i][place] for i in numbers] for place, name in enumerate(COLUMNS)}
        out: dict[str, list[int]] = {}
        rest = list(numbers)
        for name, (low, width) in zip(reversed(COLUMNS), reversed(self._spans), strict=True):
            out[name] = [low + number % width for number in rest]
            rest = [number // width for number in rest]
        return {name: out[name] for name in COLUMNS}
