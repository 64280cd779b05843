"""Rows of kind `Api`: tables `launch` and `api`, and what device rows need to find their call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture import functions
from warpsight.capture.columns import Nullable, zero_is_null
from warpsight.capture.correlation import LAUNCH
from warpsight.capture.segment import Batch

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_LAUNCH_FLAG, _CAPTURED_FLAG, _NESTED_FLAG = 1, 2, 4
_NOT_RETURNED = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Launches that may wait for their kernel rows at once; beyond it the oldest are no longer watched.
MAXIMUM_WAITING = 4_000_000


class Functions:
    """API functions by (domain, number) as codes into a list of names that grows as functions appear."""

    def __init__(self) -> None:
        self._codes = np.full(8 << 16, -1, np.int16)
        self._names: list[str] = []
        self._without_kernel = np.zeros(0, bool)

    def codes(self, domain: Array, number: Array) -> Array:
        """Codes of a column of functions."""
        key = (domain.astype(np.int32) & 7) << 16 | number
        codes: Array = self._codes[key]
        if (codes < 0).any():
            for new in np.unique(key[codes < 0]).tolist():
                self._codes[new] = len(self._names)
                self._names.append(functions.name(new >> 16, new & 0xFFFF))
            self._without_kernel = np.array(["Graph" in name or "HostFunc" in name for name in self._names])
            codes = self._codes[key]
        return codes

    def texts(self, codes: Array) -> pa.DictionaryArray:
        """Codes as Arrow texts."""
        return pa.DictionaryArray.from_arrays(codes, self._names)

    def expects_kernel(self, codes: Array) -> Array:
        """Whether a launch by this function is one kernel (not a graph, not a host function)."""
        return np.asarray(~self._without_kernel[codes])


def convert(arena: Arena, batch: Batch) -> None:
    """Note every call for the join and write the calls."""
    rows = batch.rows
    stack = arena.local.stacks(rows["stack"])
    flags = rows["flags"]
    codes = arena.functions.codes(rows["domain"], rows["function"])
    launch = (flags & _LAUNCH_FLAG) != 0
    shown = (flags & _NESTED_FLAG) == 0
    expected = (
        launch & shown & ((flags & _CAPTURED_FLAG) == 0) & (rows["result"] == 0) & (rows["correlation"] != 0)
    )
    expected &= arena.functions.expects_kernel(codes)
    start = rows["start"].astype(np.int64)
    correlation = np.zeros(len(rows), np.int64)
    low = rows["correlation"]
    for window, chosen in arena.correlations.split(batch.session):
        ids = window.unwrap(low[chosen])
        correlation[chosen] = window.full(ids)
        real = slice(None) if bool((low[chosen] != 0).all()) else low[chosen] != 0
        window.put(ids[real], stack[chosen][real], start[chosen][real], (expected[chosen] * LAUNCH)[real])
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


def _chosen(arena: Arena, values: dict[str, Any], mask: Array) -> dict[str, Any]:
    out = values
    if not mask.all():
        out = {name: v.take(mask) if isinstance(v, Nullable) else v[mask] for name, v in values.items()}
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
                "session": session[expected],
                "correlation": values["correlation"].values[expected],
                "name": name[expected],
                "shape": shape[expected],
                "stack": values["stack"].values[expected],
            }
        )
    arena.emit(
        "launch",
        int(mask.sum()),
        {
            **_chosen(arena, values, mask),
            "name_id": zero_is_null(name[mask]),
            "shape_id": zero_is_null(shape[mask]),
            "captured": (rows["flags"][mask] & _CAPTURED_FLAG) != 0,
        },
    )


def _write_others(arena: Arena, rows: Array, values: dict[str, Any], mask: Array) -> None:
    if not mask.any():
        return
    arena.emit(
        "api",
        int(mask.sum()),
        {
            **_chosen(arena, values, mask),
            "object": zero_is_null(rows["object"][mask]),
            "bytes": zero_is_null(
                rows["bytes"].view(np.int64)[mask]
                if rows["bytes"].flags.c_contiguous
                else rows["bytes"][mask].astype(np.int64)
            ),
        },
    )
