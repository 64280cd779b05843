"""A trace as tracks of slices and counters: the common content of timeline formats, independent of syntax.

Columns stay NumPy arrays; texts (names, shapes, stacks) are lists that the columns index. Work of a stream
that overlaps is spread over lanes, calls of a thread over nesting depths, so the slices of one
:class:`Slices` never overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: The argument of a range that holds its domain, category, color (#AARRGGBB), payload, and where it came from.
NVTX = "nvtx"
#: Columns of addresses that slices may have, by table; exports write them as hexadecimal text.
ADDRESSES = {"memcpy": ("source_address", "destination_address"), "memset": ("address",)}
#: Maximum frames of a stack shown with a slice, innermost first.
_STACK_FRAMES = 32


@dataclass(frozen=True)
class Track:
    """A row of the timeline. `uuid` is unique in the export; tracks of a parent are listed in order of `rank`."""

    uuid: int
    name: str
    parent: int | None = None
    rank: int = 0
    pid: int | None = None
    tid: int | None = None
    command: str | None = None
    unit: str | None = None
    #: A process or a device: other tracks are below it
    is_group: bool = False


@dataclass
class SliceColumns:
    """Columns of slices, complete if present. Index columns point into :class:`Texts`; 0 or less means none."""

    start: Column
    end: Column
    name: Column
    category: Column
    correlation: Column | None = None
    shape: Column | None = None
    stack: Column | None = None
    bytes: Column | None = None
    graph: Column | None = None
    node: Column | None = None
    #: Addresses (uint64) that copies read and wrote, and that fills wrote
    source_address: Column | None = None
    destination_address: Column | None = None
    address: Column | None = None
    #: 0: no flow; else the number shared by a launch and its work
    flow: Column | None = None
    #: Explicit dependencies: the flow that begins here, and one that ends here; 0 none
    waited: Column | None = None
    waits: Column | None = None
    #: Arrows of an overlay, four per slice: into and out of its start, into and out of its end; 0 none
    arrows: Column | None = None
    #: The program's own attributes of a row: members of a JSON object without its braces; may be empty
    attributes: Column | None = None

    def __len__(self) -> int:
        """Number of slices."""
        return len(self.start)

    def columns(self) -> dict[str, Column]:
        """The existing columns by name."""
        found = {name: getattr(self, name) for name in COLUMNS}
        return {name: values for name, values in found.items() if values is not None}


#: Names of the columns that slices may have.
COLUMNS = tuple(column.name for column in fields(SliceColumns))


@dataclass(kw_only=True)
class Slices(SliceColumns):
    """Slices of one track in time order, none overlapping."""

    track: Track
    #: The flow begins at these slices instead of ending there
    source: bool = False


@dataclass(frozen=True)
class CounterTrack:
    """Samples of one number."""

    track: Track
    time: Column
    value: Column

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.time)


@dataclass
class Texts:
    """The strings that index columns refer to."""

    names: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    _added: dict[str, int] = field(default_factory=dict)

    def name(self, text: str) -> int:
        """Index of a string that is not in table `name`."""
        if text not in self._added:
            self._added[text] = len(self.names)
            self.names.append(text)
        return self._added[text]


CATEGORIES = (
    "kernel",
    "memcpy",
    "memset",
    "sync",
    "launch",
    "api",
    "nvtx",
    "op",
    "event",
    "sample",
    "overhead",
    "build",
    "critical path",
    "finding",
)
CATEGORY = {name: i for i, name in enumerate(CATEGORIES)}


def hexadecimal(column: Column) -> tuple[list[str], Column]:
    """A column's distinct numbers in hexadecimal, and each row's index into them; the first, for 0, is empty."""
    there = np.flatnonzero(column)
    values, found = np.unique(column[there], return_inverse=True)
    places = np.zeros(len(column), np.int32)
    places[there] = found + 1
    return ["", *(f"{value:#x}" for value in values.tolist())], places


def _shape_text(row: dict[str, Any]) -> str:
    """A launch shape in words."""
    grid = "×".join(str(row[f"grid_{a}"]) for a in "xyz")
    block = "×".join(str(row[f"block_{a}"]) for a in "xyz")
    parts = [f"grid {grid}", f"block {block}"]
    if row["cluster_x"]:
        parts.append("cluster " + "×".join(str(row[f"cluster_{a}"]) for a in "xyz"))
    if row["registers"]:
        parts.append(f"{row['registers']} registers")
    if row["shared_static"] or row["shared_dynamic"]:
        parts.append(f"shared {row['shared_static']}+{row['shared_dynamic']} B")
    if row["launch_type"] != "regular":
        parts.append(row["launch_type"])
    return ", ".join(parts)


def load_texts(trace: StoredTrace) -> Texts:
    """Names and shapes of the whole trace; stacks are read when slices refer to them."""
    names = trace.arrow("name").select(["id", "demangled"]).sort_by("id").to_pydict()
    texts = Texts([""] * (max(names["id"], default=0) + 1))
    for i, name in zip(names["id"], names["demangled"], strict=True):
        texts.names[i] = name.removeprefix("void ")
    shapes = trace.arrow("shape").sort_by("id").to_pylist()
    texts.shapes = [""] * (max((s["id"] for s in shapes), default=0) + 1)
    for shape in shapes:
        texts.shapes[shape["id"]] = _shape_text(shape)
    return texts


def load_stacks(trace: StoredTrace, texts: Texts, slices: Slices) -> None:
    """Fetch every stack the slices refer to, as text."""
    if slices.stack is None:
        return
    used = np.flatnonzero(np.bincount(slices.stack)).tolist()
    missing = [i for i in used if i > 0 and i not in texts.stacks]
    if missing:
        for stack, frames in trace.stacks(missing).items():
            texts.stacks[stack] = " ← ".join(frames[::-1][:_STACK_FRAMES])
