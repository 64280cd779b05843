"""Which rows an analysis looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warpsight.model import StoredTrace

#: Tables with timestamps, and their time column.
TIMED = {"kernel": "start", "memcpy": "start", "memset": "start", "sync": "start", "launch": "start", "api": "start",
         "marker": "start", "op": "start", "user_event": "start", "memory": "time", "counter": "time"}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Conditions on rows; empty means all. Times are ns on the trace's clock; `name` is a regular expression."""

    begin: int | None = None
    end: int | None = None
    devices: Sequence[int] = ()
    streams: Sequence[int] = ()
    processes: Sequence[int] = ()
    name: str | None = None

    def key(self) -> tuple[Any, ...]:
        """The conditions as a hashable key: equal for equal conditions."""
        lists = (self.devices, self.streams, self.processes)
        return (self.begin, self.end, *(tuple(values) for values in lists), self.name)

    def where(self, *, time: str = "start", device: bool = True, stream: bool = True) -> str:
        """The SQL condition, without `name`; `device` and `stream` say whether the table has those columns."""
        terms = ["true"]
        if self.begin is not None:
            terms.append(f"{time} >= {int(self.begin)}")
        if self.end is not None:
            terms.append(f"{time} < {int(self.end)}")
        chosen = [("process", self.processes), ("device", self.devices if device else ())]
        chosen.append(("stream", self.streams if stream else ()))
        for column, values in chosen:
            if values:
                terms.append(f"{column} IN ({', '.join(str(int(v)) for v in values)})")
        return " AND ".join(terms)

    def mask(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Which rows the conditions select, except for `name`: by their columns `start`, `process`, `device`, `stream`."""
        import numpy as np  # exports select rows without it

        start = columns["start"]
        keep = np.ones(len(start), bool)
        if self.begin is not None:
            keep &= start >= self.begin
        if self.end is not None:
            keep &= start < self.end
        for column, values in (
            ("process", self.processes),
            ("device", self.devices),
            ("stream", self.streams),
        ):
            if values:
                keep &= np.isin(columns[column], list(values))
        return keep


def begin_of(trace: StoredTrace) -> int:
    """The first recorded moment: the zero point of times that users enter and see.

    Samples of host threads count only if there is nothing else, because they begin before the program does anything of its own.
    """

    def least(tables: dict[str, str]) -> list[int]:
        return [value for value in map(trace.least, tables, tables.values()) if value is not None]

    def first() -> int:
        return min(least(TIMED) or least({"sample": "time"}), default=0)

    return trace.kept.get("begin", first)


def end_of(trace: StoredTrace) -> int:
    """The last recorded moment, including samples; 0 for an empty trace."""

    def last() -> int:
        tables = {**TIMED, "sample": "time"}
        found = map(trace.latest, tables, tables.values())
        return max((moment for moment in found if moment is not None), default=0)

    return trace.kept.get("end", last)
