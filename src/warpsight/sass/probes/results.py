"""What probes found: a table for each of their maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpsight.device_code.demangle import demangle
from warpsight.errors import UsageError, choices
from warpsight.formats.events.blocks import EventFile
from warpsight.formats.events.probe_maps import Held, Map, held, maps_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Results:
    """What probes found.

    Attributes:
        tables: by the map's name; each begins with the launch and its kernel.
        launches: how many were probed; notes: what is missing, one sentence each.
        code: the program's exit code, 0 where probes read a recorded trace.
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


def results(files: Iterable[EventFile], code: int = 0) -> Results:
    """What the event files of a run's processes hold; launches of several processes are numbered one after the other."""
    tables: dict[str, list[pa.Table]] = {}
    maps: dict[str, Map] = {}
    notes: list[str] = []
    first = 0
    for file in files:
        shown = [one for one in maps_of(file.process.get("request") or {}) if not one.name.startswith("_")]
        maps |= {one.name: one for one in shown}
        names = {int(said["launch"]): demangle(str(said["name"])) for said in file.launches}
        for one in held(file):
            tables.setdefault(one.map.name, []).append(_table(one, names.get(one.launch, ""), first))
            if one.lost:
                notes.append(
                    f"{one.map.name}: {one.lost:,} additions of launch {one.launch + first} found no place in the map"
                )
        notes += [cause + (f" ({count:,})" if count > 1 else "") for cause, count in file.losses]
        first += len(names)
    return Results(
        {name: joined(one, tables.get(name, [])) for name, one in maps.items()}, first, tuple(notes), code
    )


def joined(known: Map, parts: list[pa.Table]) -> pa.Table:
    """The tables of a map's launches as one; without launches an empty one with its columns."""
    import pyarrow as pa

    if parts:
        return pa.concat_tables(parts)
    kinds = {name: pa.float64() if kind == "float" else pa.int64() for name, kind in known.types.items()}
    columns = {name: pa.array([], kinds.get(name, pa.int64())) for name in known.columns}
    return pa.table({"launch": pa.array([], pa.int64()), "kernel": pa.array([], pa.string()), **columns})


def _table(one: Held, kernel: str, first: int) -> pa.Table:
    import pyarrow as pa

    rows = len(next(iter(one.columns.values())))
    launch = np.full(rows, one.launch + first, np.int64)
    return pa.table({"launch": launch, "kernel": pa.array([kernel] * rows, pa.string()), **one.columns})
