"""Definitions of one process, and the tables that map its ids to the trace's.

Rows carry ids that are unique in their arena. Each definition is interned in the trace by content; a lookup
array per kind then translates whole columns with one gather.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture.columns import one_value, spread
from warpsight.capture.segments import layout
from warpsight.model.definitions import Definitions

Array = npt.NDArray[Any]
_UNRESOLVED = -1
_FRAME_KINDS = {
    layout.FRAME_PYTHON: "python",
    layout.FRAME_NATIVE: "native",
    layout.FRAME_MARKER: "marker",
    layout.FRAME_KERNEL: "kernel",
    layout.FRAME_LINE: "line",
}
_METHODS = {
    layout.STACK_FRAME_CHAIN: "frame chain",
    layout.STACK_WITH_GIL: "with GIL",
    layout.STACK_UNWINDER: "unwinder",
    layout.STACK_IMPORTED: "imported",
    layout.STACK_REMOTE: "remote",
    layout.STACK_WAITER: "waiter",
}
#: Frames of the functions through which a program reports events (`ws.emit`, `with ws.annotate`): the program's own frame
#: is the one that called them, perhaps through contextlib; with native stacks the interpreter is between the two.
_OURS = re.compile(r"(^|[/\\])warpsight[/\\]inside[/\\][a-z_]+\.py$")
_BETWEEN = re.compile(r"(^|[/\\])(contextlib\.py|libpython[^/]*|python[0-9.]*)$")
_LAUNCH_TYPES = {0: "regular", 1: "cooperative", 2: "multi-device cooperative", 3: "device-launched"}
#: Ids are assigned from 1 upward; a higher one is damage, and must not size a lookup array.
_MAXIMUM_ID = 1 << 28


class _Lookup:
    """A growing array from local to trace ids. 0 stays 0 (none); unknown ids become 0 and are counted."""

    def __init__(self) -> None:
        self._ids = np.full(1024, _UNRESOLVED, np.int32)
        self._ids[0] = 0
        #: Ids far above the others: strings of a flight recorder that were written for a single row.
        self._once: dict[int, int] = {}
        self.missing = 0

    def set(self, local: int, value: int) -> None:
        """Define one id."""
        if local >= len(self._ids):
            if local > _MAXIMUM_ID:
                if local >= layout.FIRST_ONCE_STRING:
                    self._once[local] = value
                return
            grown = np.full(max(local + 1, 2 * len(self._ids)), _UNRESOLVED, np.int32)
            grown[: len(self._ids)] = self._ids
            self._ids = grown
        self._ids[local] = value

    def get(self, local: int) -> int:
        """The trace id of one local id, or -1."""
        return int(self._ids[local]) if local < len(self._ids) else _UNRESOLVED

    def unresolved(self, local: Array) -> list[int]:
        """Distinct local ids of a column that are not defined yet."""
        if one_value(local):
            local = local[:1]
        found = self._raw(local)
        if not len(found) or int(found.min()) != _UNRESOLVED:
            return []
        return [int(i) for i in np.unique(local[found == _UNRESOLVED])]

    def translate(self, local: Array) -> Array:
        """Trace ids of a column."""
        if one_value(local):
            missing = self.missing
            (value,) = self.translate(local[:1].copy())
            self.missing = missing + (self.missing - missing) * len(local)
            return spread(value, len(local), np.int32)
        found = self._raw(local)
        if len(found) and int(found.min()) == _UNRESOLVED:
            bad = found == _UNRESOLVED
            self.missing += int(bad.sum())
            found = np.where(bad, np.int32(0), found)
        return found

    def _raw(self, local: Array) -> Array:
        if not len(local):
            return np.zeros(0, np.int32)
        if int(local.max()) >= len(self._ids):
            inside = local < len(self._ids)
            found = np.where(inside, self._ids[np.where(inside, local, 0)], np.int32(_UNRESOLVED))
            if self._once:
                high = np.flatnonzero(~inside)
                found[high] = [self._once.get(number, _UNRESOLVED) for number in local[high].tolist()]
            return found
        return np.take(self._ids, local)


class LocalIds:
    """Strings, names, shapes, frames and stacks of one arena."""

    def __init__(self, trace: Definitions) -> None:
        self._trace = trace
        self.strings: dict[int, str] = {0: ""}
        self._names = _Lookup()
        self._shapes = _Lookup()
        self._frames = _Lookup()
        self._stacks = _Lookup()
        self._waiting: dict[int, tuple[int, int, int, int]] = {}
        self._our_frames: set[int] = set()
        self._between_frames: set[int] = set()
        self._native_frames: set[int] = set()
        #: Local id of a stack that ends in one of our reporting functions or their internals -> trace id of its caller.
        self._called: dict[int, int] = {}
        self._between: dict[int, int] = {}

    def text(self, local: int) -> str:
        """A string; empty for id 0 and for a missing one."""
        return self.strings.get(local, "")

    def texts(self, local: Array) -> pa.Array:
        """A column of strings, or null."""
        distinct, places = np.unique(local, return_inverse=True)
        values = [self.strings.get(int(i)) if i else None for i in distinct]
        known = [i for i, value in enumerate(values) if value is not None]
        codes = np.full(len(values), -1, np.int32)
        codes[known] = np.arange(len(known), dtype=np.int32)
        codes = codes[places]
        indices = pa.array(codes, mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array([values[i] for i in known], pa.string()))

    def names(self, local: Array) -> Array:
        """A column of string ids as trace-wide name ids; only strings used as names become names."""
        for number in self._names.unresolved(local):
            text = self.strings.get(number)
            if text is not None:
                self._names.set(number, self._trace.name(text))
        return self._names.translate(local)

    def name_of(self, text: str) -> int:
        """The trace's id for a name created here rather than recorded."""
        return self._trace.name(text)

    def shapes(self, local: Array) -> Array:
        """A column of shape ids as trace-wide ones."""
        return self._shapes.translate(local)

    def stacks(self, local: Array) -> Array:
        """A column of stack ids as trace-wide ones."""
        return self._stacks.translate(local)

    def callers(self, local: Array) -> Array:
        """A column of stack ids for rows that a program reports through our functions; our functions' frames are left out."""
        found = self.stacks(local)
        if not self._called:
            return found
        distinct, places = np.unique(local, return_inverse=True)
        own = np.array([self._called.get(number, _UNRESOLVED) for number in distinct.tolist()], np.int32)[
            places
        ]
        return np.where(own == _UNRESOLVED, found, own)

    def take_missing(self) -> int:
        """References to definitions that never arrived, since the last call."""
        lookups = (self._names, self._shapes, self._stacks)
        count = sum(lookup.missing for lookup in lookups)
        for lookup in lookups:
            lookup.missing = 0
        return count

    def add_shapes(self, rows: Array) -> None:
        """Intern rows of kind `Shape`."""
        for row in rows.tolist():
            number, *numbers, kind, config = row
            clipped = [min(n, 0x7FFFFFFF) for n in numbers]
            values = [*clipped, _LAUNCH_TYPES.get(kind, f"type {kind}"), min(config, 0x7FFFFFFF)]
            self._shapes.set(number, self._trace.shape(values))

    def add_frames(self, rows: Array) -> None:
        """Intern rows of kind `Frame`; their strings must have been added."""
        for number, function, file, line, address, kind, _, build in rows.tolist():
            frame = (
                self.text(function) or "?",
                self.text(file) or None,
                line & 0x7FFFFFFF or None,
                address or None,
                _FRAME_KINDS.get(kind, "native"),
                self.text(build) or None,
            )
            self._frames.set(number, self._trace.frame(frame))
            if kind == layout.FRAME_NATIVE:
                self._native_frames.add(number)
            if frame[1] is not None and kind in (layout.FRAME_PYTHON, layout.FRAME_NATIVE):
                if kind == layout.FRAME_PYTHON and _OURS.search(frame[1]):
                    self._our_frames.add(number)
                elif _BETWEEN.search(frame[1]):
                    self._between_frames.add(number)

    def add_stacks(self, rows: Array) -> None:
        """Intern rows of kind `Stack`; rows with an unknown parent or frame wait for it."""
        for number, parent, frame, method, flags, _ in rows.tolist():
            self._waiting[number] = (parent, frame, method, flags)
        for number in sorted(self._waiting):  # a parent's id is lower than its children's
            parent, frame, method, flags = self._waiting[number]
            above, inner = self._stacks.get(parent), self._frames.get(frame)
            if above == _UNRESOLVED or inner == _UNRESOLVED:
                continue
            name = _METHODS.get(method, f"method {method}")
            self._stacks.set(number, self._trace.stack(above, inner, name, bool(flags & 1)))
            self._note_caller(number, parent, frame, above)
            del self._waiting[number]

    def _note_caller(self, number: int, parent: int, frame: int, above: int) -> None:
        """Remember the caller if a stack ends in our functions; `above` is its parent in the trace."""
        if frame in self._our_frames:
            self._called[number] = self._called.get(parent, self._between.get(parent, above))
        elif parent in self._called and frame in self._native_frames:  # ctypes, on its way to the recorder
            self._called[number] = self._called[parent]
        elif frame in self._between_frames:
            self._between[number] = self._between.get(parent, above)
