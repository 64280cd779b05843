"""The results of probes: a table per map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpsight.errors import UsageError, choices
from warpsight.formats.events.probe_maps import DeclaredMap, MapContents, held, maps_of
from warpsight.sass.events.trace import EventTrace

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Results:
    """The results of probes.

    Attributes:
        tables: tables by the map's name; each begins with the launch and its kernel.
        launches: number of probed launches; notes: missing data, one sentence each.
        code: the program's exit code, 0 if probes read a recorded trace.
    """

    tables: dict[str, pa.Table]
    launches: int
    notes: tuple[str, ...]
    code: int = 0

    def __getitem__(self, name: str) -> pa.Table:
        """The table of a map."""
        if name not in self.tables:
            raise UsageError(f"no probe has a map {name!r}{choices(name, self.tables)}")
        return self.tables[name]


def results(traces: Iterable[EventTrace], code: int = 0) -> Results:
    """The contents of the event files of a run's processes; launches are numbered across processes."""
    tables: dict[str, list[pa.Table]] = {}
    maps: dict[str, DeclaredMap] = {}
    notes: list[str] = []
    first = 0
    for trace in traces:
        shown = [
            one for one in maps_of(trace.file.process.get("request") or {}) if not one.name.startswith("_")
        ]
        maps |= {one.name: one for one in shown}
        for one in sorted(held(trace.file), key=lambda one: one.launch):
            tables.setdefault(one.map.name, []).append(_table(one, trace, first))
            if one.lost:
                notes.append(
                    f"{one.map.name}: {one.lost:,} additions of launch {one.launch + first} did not fit into the map"
                )
        notes += trace.notes
        first += len(trace.launches)
    return Results(
        {name: joined(one, tables.get(name, [])) for name, one in maps.items()}, first, tuple(notes), code
    )


def joined(known: DeclaredMap, parts: list[pa.Table]) -> pa.Table:
    """The tables of a map's launches as one; without launches an empty one with its columns."""
    import pyarrow as pa

    if parts:
        return pa.concat_tables(parts)
    kinds = {name: pa.float64() if kind == "float" else pa.int64() for name, kind in known.types.items()}
    columns = {name: pa.array([], kinds.get(name, pa.int64())) for name in known.columns}
    if "pc" in columns:
        columns["where"] = pa.array([], pa.string())
    return pa.table({"launch": pa.array([], pa.int64()), "kernel": pa.array([], pa.string()), **columns})


def _table(one: MapContents, trace: EventTrace, first: int) -> pa.Table:
    import pyarrow as pa

    rows = len(next(iter(one.columns.values())))
    launch = np.full(rows, one.launch + first, np.int64)
    kernel = trace.launches[one.launch].name
    columns = {"launch": launch, "kernel": pa.repeat(kernel, rows), **one.columns}
    if "pc" in columns:
        columns["where"] = pa.array(_places(trace, one), pa.string())
    return pa.table(columns)


def _places(trace: EventTrace, one: MapContents) -> list[str]:
    """Function, offset and source line of each row's instruction."""
    launch = trace.launches[one.launch]
    distinct, inverse = np.unique(one.columns["pc"], return_inverse=True)
    low = ((distinct.astype(np.int64) + int(launch.said["pc"])) % (1 << 32)).astype(np.uint32)
    texts = [trace.describe(place) for place in trace.places(launch, low)]
    return [texts[number] for number in inverse.ravel().tolist()]
