"""Which part of a trace an exporter writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.errors import UsageError, choices
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.formats.writing.overlay import Overlay

#: Values of `--kind`, and the corresponding tables.
KINDS: dict[str, tuple[str, ...]] = {
    "kernel": ("kernel",),
    "memcpy": ("memcpy",),
    "memset": ("memset",),
    "sync": ("sync",),
    "launch": ("launch",),
    "api": ("api",),
    "nvtx": ("marker",),
    "op": ("op",),
    "event": ("user_event",),
    "sample": ("sample",),
    "overhead": ("overhead",),
    "build": ("build",),
    "memory": ("memory",),
    "counter": ("counter",),
}
DEVICE_TABLES = ("kernel", "memcpy", "memset", "sync")


@dataclass(frozen=True)
class Selection:
    """What to export; an empty sequence means all. Times are ns on the trace's clock, both ends may be open."""

    begin: int | None = None
    end: int | None = None
    devices: Sequence[int] = ()
    streams: Sequence[int] = ()
    processes: Sequence[int] = ()
    kinds: Sequence[str] = ()
    flows: bool = True
    counters: bool = True
    #: Whether formats that can hold it carry the selection as rows too, for importing the file again.
    enclosed: bool = True
    #: Overlay to draw over the timeline; only the Perfetto format supports it.
    overlays: Sequence[Overlay] = ()

    def __post_init__(self) -> None:
        """Refuse a kind that does not exist and a window that is empty."""
        for kind in self.kinds:
            if kind not in KINDS:
                raise UsageError(f"there is no kind {kind!r}{choices(kind, KINDS, 'kinds: ')}")
        if self.begin is not None and self.end is not None and self.end <= self.begin:
            raise UsageError("the time window is empty: --until is not after --from")

    def wants(self, table: str) -> bool:
        """Whether rows of a table are exported."""
        if table in ("counter", "memory") and not self.counters:
            return False
        return not self.kinds or any(table in KINDS[kind] for kind in self.kinds)

    def where(self, table: str, process: int | None = None) -> str:
        """The SQL condition for a table with start and duration, for one process or all of them."""
        terms = ["start IS NOT NULL"]
        if process is not None:
            terms.append(f"process = {int(process)}")
        if self.end is not None:
            terms.append(f"start < {int(self.end)}")
        if self.begin is not None:
            terms.append(f"(duration IS NULL OR start + duration > {int(self.begin)})")
        if table in DEVICE_TABLES:
            for column, chosen in (("device", self.devices), ("stream", self.streams)):
                if chosen:
                    terms.append(f"{column} IN ({', '.join(str(int(c)) for c in chosen)})")
        return " AND ".join(terms)

    def instants(self, column: str = "time") -> str:
        """The SQL condition for a table of instants."""
        return Rows(self.begin, self.end).where(time=column)
