"""Identities shared by the processes of a recording: process numbers and physical devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.columns import Nullable, one_value, spread
from warpsight.model.device_ids import new_id

Array = npt.NDArray[Any]
#: kFirstClDevice of native/opencl/objects.h.
_FIRST_OPENCL_DEVICE = 256


def driver_index(number: int) -> int:
    """The driver's index of a device whose index in recorded rows is `number`: OpenCL's count from 256, separate from CUDA's."""
    return number - _FIRST_OPENCL_DEVICE if number >= _FIRST_OPENCL_DEVICE else number


class Processes:
    """Process ids from 0 in order of appearance, one per arena: a reused pid or an exec is a new process."""

    def __init__(self, known: dict[str, int] | None = None) -> None:
        self.by_arena: dict[str, int] = dict(known or {})
        self._by_pid: dict[int, int] = {}

    def of_arena(self, arena: str, pid: int | None) -> int:
        """The process that owns an arena."""
        number = self.by_arena.setdefault(arena, len(self.by_arena))
        if pid:
            self._by_pid[pid] = number
        return number

    def of_pid(self, pid: int) -> int:
        """The process that last had this pid; a process that never recorded gets a new id."""
        return self._by_pid[pid] if pid in self._by_pid else self.of_arena(f"pid-{pid}", pid)


class TraceDevices:
    """Devices of the trace by UUID; a device's id is its index in the first process that saw it, or the next free number."""

    def __init__(self, rows: list[dict[str, Any]] | None = None) -> None:
        self.rows: list[dict[str, Any]] = rows or []
        self._known: dict[str, dict[str, Any]] = {row["uuid"]: row for row in self.rows}
        self._taken: set[int] = {row["device"] for row in self.rows}

    def intern(self, row: dict[str, Any]) -> int:
        """The id of a device given as a row of table `device` without its id."""
        known = self._known.get(row["uuid"])
        if known is None:
            known = self._known[row["uuid"]] = {"device": new_id(row["index"], self._taken), **row}
            self._taken.add(known["device"])
            self.rows.append(known)
        else:  # each of counters and recorders knows some columns of a device
            known.update({name: value for name, value in row.items() if known.get(name) is None})
        return int(known["device"])

    def unknown(self, index: int) -> int:
        """The id of a device that rows refer to by index but no recorder described."""
        return self.intern(
            {
                "uuid": f"unknown-{index}",
                "index": driver_index(index),
                "name": "unknown",
                "vendor": "unknown",
                "platform": "cuda",
            }
        )


class DeviceIndex:
    """Translates one process's device indices."""

    def __init__(self, devices: TraceDevices) -> None:
        self._devices = devices
        self._ids = np.full(1 << 16, -1, np.int16)

    def set(self, index: int, device: int) -> None:
        """Define an index."""
        if 0 <= index < len(self._ids):
            self._ids[index] = device

    def get(self, index: int) -> int:
        """The trace's id of one index."""
        if self._ids[index] < 0:
            self._ids[index] = self._devices.unknown(index)
        return int(self._ids[index])

    def translate(self, index: Array, none: int | None = None) -> Nullable:
        """Translate a column of indices; `none` means no device."""
        if one_value(index):
            if none is not None and int(index[0]) == none:
                return Nullable(spread(0, len(index), np.int16), spread(True, len(index)))
            return Nullable(spread(self.get(int(index[0])), len(index), np.int16), None)
        places = np.minimum(index, 0xFFFF).astype(np.int32)
        ids = self._ids[places]
        if (ids < 0).any():
            for new in np.unique(places[ids < 0]).tolist():
                if new != none:
                    self.get(new)
            ids = self._ids[places]
        return Nullable(ids, None if none is None else places == none)
