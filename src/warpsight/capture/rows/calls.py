"""Rows of kind `Api`: tables `launch` and `api`, and the data that matches device rows with calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture import functions
from warpsight.capture.columns import Nullable, bits, one_value, pick, spread, zero_is_null
from warpsight.capture.segments.layout import API_OPENCL
from warpsight.capture.segments.segment import Batch

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_LAUNCH_FLAG, _CAPTURED_FLAG, _NESTED_FLAG, _UNTIMED_FLAG = 1, 2, 4, 8
_NOT_RETURNED = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Launches waiting for kernel rows at the same time; beyond this, the oldest are no longer watched.
MAXIMUM_WAITING = 4_000_000


class FunctionCodes:
    """API functions by (domain, number) as codes into a list of names that grows as functions appear."""

    def __init__(self) -> None:
        self._codes = np.full(8 << 16, -1, np.int16)
        self._names: list[str] = []
        self._without_kernel = np.zeros(0, bool)
        #: Function names sent by the recorder, by domain and number.
        self._announced: dict[int, str] = {}

    def define(self, domain: int, number: int, name: str) -> None:
        """Add an `ApiFunction` row: the name of a function that only this process numbers."""
        self._announced[(domain & 7) << 16 | number] = name

    def codes(self, domain: Array, number: Array) -> Array:
        """Codes of a column of functions."""
        if one_value(domain) and one_value(number):
            return spread(self.codes(domain[:1].copy(), number[:1].copy())[0], len(number), np.int16)
        key = (domain.astype(np.int32) & 7) << 16 | number
        codes: Array = self._codes[key]
        if (codes < 0).any():
            for new in np.unique(key[codes < 0]).tolist():
                self._codes[new] = len(self._names)
                self._names.append(self._announced.get(new) or functions.name(new >> 16, new & 0xFFFF))
            self._without_kernel = np.array(["Graph" in name or "HostFunc" in name for name in self._names])
            codes = self._codes[key]
        return codes

    def texts(self, codes: Array) -> pa.DictionaryArray:
        """Codes as Arrow strings."""
        return pa.DictionaryArray.from_arrays(codes, self._names)

    def expects_kernel(self, codes: Array) -> Array:
        """Whether a launch by this function is one kernel (not a graph, not a host function)."""
        if one_value(codes):
            return spread(not self._without_kernel[codes[0]], len(codes))
        return np.asarray(~self._without_kernel[codes])


def convert(arena: Arena, batch: Batch) -> Array:
    """Register every call for the join and write the calls; returns their 64-bit correlation ids."""
    rows = batch.rows
    stack = arena.local.stacks(rows["stack"])
    flags = rows["flags"]
    codes = arena.functions.codes(rows["domain"], rows["function"])
    launch, shown = bits(flags, _LAUNCH_FLAG), ~bits(flags, _NESTED_FLAG)
    low = rows["correlation"]
    arena.correlations.opencl = arena.correlations.opencl or bool((rows["domain"] == API_OPENCL).any())
    expected = (
        launch & shown & ~bits(flags, _CAPTURED_FLAG | _UNTIMED_FLAG) & (rows["result"] == 0) & (low != 0)
    )
    expected &= arena.functions.expects_kernel(codes)
    start = rows["start"].view(np.int64)
    correlation = _note(arena, batch, stack, start, expected)
    duration = rows["duration"]
    values = {
        "start": start,
        "duration": Nullable(duration.view(np.int64), duration == _NOT_RETURNED),
        "codes": codes,
        "thread": batch.thread,
        "correlation": Nullable(correlation, low == 0),
        "stack": zero_is_null(stack),
        "result": rows["result"],
    }
    _write_launches(arena, rows, values, launch & shown, expected, batch.session)
    _write_others(arena, rows, values, ~launch & shown)
    return correlation


def _note(arena: Arena, batch: Batch, stack: Array, start: Array, expected: Array) -> Array:
    """Register the calls in the windows of their sessions; returns their 64-bit correlation ids."""
    low = batch.rows["correlation"]
    correlation = np.zeros(0, np.int64)
    for window, chosen in arena.correlations.split(batch.session, low):
        ids = window.unwrap(pick(low, chosen))
        full = window.full(ids)
        if isinstance(chosen, slice):
            correlation = full
        else:
            correlation = correlation if len(correlation) else np.zeros(len(low), np.int64)
            correlation[chosen] = full
        noted = [ids, *(pick(values, chosen) for values in (stack, start, expected))]
        real = pick(low, chosen) != 0
        if not real.all():
            noted = [pick(values, real) for values in noted]
        window.put(*noted)
    return correlation


def _chosen(arena: Arena, values: dict[str, Any], mask: Array | slice) -> dict[str, Any]:
    out = values
    if not isinstance(mask, slice):
        out = {name: v.take(mask) if isinstance(v, Nullable) else pick(v, mask) for name, v in values.items()}
    return {
        **{k: v for k, v in out.items() if k != "codes"},
        "function": arena.functions.texts(out["codes"]),
        "process": arena.process_id(),
    }


def _write_launches(
    arena: Arena, rows: Array, values: dict[str, Any], mask: Array, expected: Array, session: Array
) -> None:
    if not mask.any():
        return
    name, shape = arena.local.names(rows["name"]), arena.local.shapes(rows["shape"])
    if expected.any():
        arena.expect(
            {
                "session": session,
                "correlation": values["correlation"].values,
                "name": name,
                "shape": shape,
                "stack": values["stack"].values,
            },
            expected,
        )
    count = int(np.count_nonzero(mask))
    chosen = slice(None) if count == len(mask) else np.flatnonzero(mask)
    arena.emit(
        "launch",
        count,
        **_chosen(arena, values, chosen),
        name_id=zero_is_null(pick(name, chosen)),
        shape_id=zero_is_null(pick(shape, chosen)),
        captured=bits(pick(rows["flags"], chosen), _CAPTURED_FLAG),
    )


def _write_others(arena: Arena, rows: Array, values: dict[str, Any], mask: Array) -> None:
    if not mask.any():
        return
    chosen = np.flatnonzero(mask)
    arena.emit(
        "api",
        len(chosen),
        **_chosen(arena, values, chosen),
        object=zero_is_null(pick(rows["object"], chosen)),
        bytes=zero_is_null(pick(rows["bytes"], chosen).astype(np.int64)),
    )
