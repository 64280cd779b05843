"""Joining device rows with the calls that caused them, by correlation id.

Ids of one process and recorder session grow densely, so a window is a set of arrays indexed by id: a join is
one gather. The 32-bit ids of the records are unwrapped against the newest id of their session; a 64-bit id is
then `wraps << 48 | session << 32 | low`, so that sessions stay apart whatever wraps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.columns import one_value, pick

Array = npt.NDArray[Any]
#: Ids a window holds before its older half is closed; only the memory of ids in use is touched.
WINDOW_IDS = 8_000_000
#: Number of ids whose calls are kept across a commit: kernels arrive within far fewer.
SAVED_IDS = 1_000_000
#: The OpenCL recorder's first correlation id (native/opencl/recorder.cpp).
FIRST_OPENCL = 0x40000000
UNKNOWN = -1
#: `flags` of an id
LAUNCH, SEEN = 1, 2
_RANGE = 1 << 32
#: `call` is the stack + 1, so that untouched memory means "no call noted".
_TYPES = {"call": np.int32, "start": np.int64, "flags": np.uint8}


class CallWindow:
    """The known calls of one session, by unwrapped low id."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.reference: int | None = None
        self.base = 0
        self._size = 0
        self._arrays: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in _TYPES.items()}
        #: Launches still without a kernel that fell out of the window: sorted ids, stacks, starts.
        self._late: dict[str, Array] = {
            "id": np.zeros(0, np.int64),
            "stack": np.zeros(0, np.int32),
            "start": np.zeros(0, np.int64),
        }

    def unwrap(self, low: Array) -> Array:
        """64-bit ids from 32-bit ones; a jump back by more than 2^31 is a wrap-around."""
        if not len(low):
            return np.zeros(0, np.int64)
        values = low.astype(np.int64)
        if self.reference is None:
            self.reference = int(values[0])
        lead = self.reference
        near = lead - _RANGE // 2 <= int(values.min()) and int(values.max()) < lead + _RANGE // 2
        if not near:
            values = lead + ((values - lead + _RANGE // 2) % _RANGE - _RANGE // 2)
        self.reference = max(lead, int(values.max()))
        return values

    def full(self, ids: Array) -> Array:
        """64-bit ids, unique in the process, from unwrapped ones."""
        if len(ids) and int(ids.max()) >= _RANGE:
            return ids >> 32 << 48 | ids & (_RANGE - 1) | self.session << 32
        return ids + (self.session << 32) if self.session else ids

    def own(self, full: Array) -> Array:
        """The unwrapped ids of this session from its 64-bit ones."""
        if len(full) and not self.session and int(full.max()) < _RANGE:
            return full
        return full >> 48 << 32 | full & (_RANGE - 1)

    def put(self, ids: Array, stack: Array, start: Array, launch: Array) -> None:
        """Note calls and which of them expect a kernel.

        Of two with the same id the later wins (a runtime call around a driver call).
        """
        if not len(ids):
            return
        used = self.base + self._size
        first = int(ids.min())
        index = self._cover(ids, first)
        if first < self.base:  # far older than everything the window still holds
            fits = np.flatnonzero(index >= 0)
            index, stack, start, launch = index[fits], *(pick(v, fits) for v in (stack, start, launch))
        flags = pick(launch, slice(0, 1)) if one_value(launch) else launch
        self._arrays["call"][index] = stack[0] + np.int32(1) if one_value(stack) else stack + np.int32(1)
        self._arrays["start"][index] = start
        if first >= used:  # nothing is known of any of them
            self._arrays["flags"][index] = flags.view(np.uint8)
        else:
            self._arrays["flags"][index] |= flags.view(np.uint8)

    def get(self, ids: Array) -> tuple[Array, Array]:
        """Stack and start of the calls; stack UNKNOWN where no call was noted."""
        if not len(ids):
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        index = ids - self.base
        if int(index.min()) >= 0 and int(index.max()) < self._size:
            return np.take(self._arrays["call"], index) - np.int32(1), np.take(self._arrays["start"], index)
        stack, start = np.full(len(ids), UNKNOWN, np.int32), np.zeros(len(ids), np.int64)
        inside = (index >= 0) & (index < self._size)
        stack[inside] = self._arrays["call"][index[inside]] - np.int32(1)
        start[inside] = self._arrays["start"][index[inside]]
        self._get_late(ids, index < 0, stack, start)
        return stack, start

    def _get_late(self, ids: Array, old: Array, stack: Array, start: Array) -> None:
        if not len(self._late["id"]) or not old.any():
            return
        places = np.flatnonzero(old)
        at = np.minimum(np.searchsorted(self._late["id"], ids[places]), len(self._late["id"]) - 1)
        hit = self._late["id"][at] == ids[places]
        stack[places[hit]] = self._late["stack"][at[hit]]
        start[places[hit]] = self._late["start"][at[hit]]

    def see(self, ids: Array) -> None:
        """Note that device rows of these calls arrived."""
        if not len(ids):
            return
        index = ids - self.base
        if not (int(index.min()) >= 0 and int(index.max()) < self._size):
            keep = ~np.isin(self._late["id"], ids[index < 0])
            self._late = {name: values[keep] for name, values in self._late.items()}
            index = index[(index >= 0) & (index < self._size)]
        self._arrays["flags"][index] |= SEEN

    def seen(self, ids: Array) -> Array:
        """Which of these launches have device rows."""
        if not len(ids):
            return np.zeros(0, bool)
        index = ids - self.base
        if int(index.min()) >= 0 and int(index.max()) < self._size:
            return np.asarray((np.take(self._arrays["flags"], index) & SEEN) != 0)
        inside = (index >= 0) & (index < self._size)
        out = np.zeros(len(ids), bool)
        out[inside] = (self._arrays["flags"][index[inside]] & SEEN) != 0
        out[~inside] = ~np.isin(ids[~inside], self._late["id"])
        return out

    def _cover(self, ids: Array, first: int) -> Array:
        """Make room for ids, starting at `first`, and return their indices; negative indices are before the window."""
        last = int(ids.max())
        if not self._size:
            self._move(max(first - WINDOW_IDS // 8, 0))
        if last - self.base >= len(self._arrays["call"]):
            self._close(last - WINDOW_IDS // 2)
            if last - self.base >= len(self._arrays["call"]):  # a jump no real program makes
                self._move(last - WINDOW_IDS // 2)
        self._size = max(self._size, last - self.base + 1)
        return ids - self.base

    def _move(self, base: int) -> None:
        """Start over at another id, with an empty window."""
        self._arrays = {name: np.zeros(WINDOW_IDS, kind) for name, kind in _TYPES.items()}
        self.base = max(base, 0)
        self._size = 0

    def _close(self, upto: int) -> None:
        """Drop ids before `upto`, except launches without a kernel."""
        cut = min(max(upto - self.base, 0), self._size)
        if not cut:
            return
        waiting = np.flatnonzero((self._arrays["flags"][:cut] & (LAUNCH | SEEN)) == LAUNCH)
        kept = {
            "id": waiting + self.base,
            "stack": self._arrays["call"][waiting] - np.int32(1),
            "start": self._arrays["start"][waiting],
        }
        self._late = {name: np.concatenate([values, kept[name]]) for name, values in self._late.items()}
        rest = {name: values[cut : self._size] for name, values in self._arrays.items()}
        base, size = self.base + cut, self._size - cut
        self._move(base)
        for name, values in rest.items():
            self._arrays[name][:size] = values
        self._size = size

    def state(self) -> dict[str, Array]:
        """Everything needed to continue in another process; of old ids, only launches without a kernel."""
        reference = -1 if self.reference is None else self.reference
        if self._size > 2 * SAVED_IDS:
            self._close(self.base + self._size - SAVED_IDS)
        own = {name: values[: self._size] for name, values in self._arrays.items()}
        late = {f"late_{name}": values for name, values in self._late.items()}
        return {"window": np.array([self.session, reference, self.base], np.int64), **own, **late}

    @classmethod
    def restore(cls, state: dict[str, Array]) -> CallWindow:
        """Rebuild a window from its `state`."""
        session, reference, base = (int(v) for v in state["window"])
        window = cls(session)
        window.reference = None if reference < 0 else reference
        window._move(base)
        window._size = len(state["call"])
        for name in _TYPES:
            window._arrays[name][: window._size] = state[name]
        window._late = {name: state[f"late_{name}"] for name in ("id", "stack", "start")}
        return window


class Correlations:
    """The windows of one process, by recorder session and, if it uses both APIs, by API.

    CUDA counts its correlation ids from 1 and the OpenCL recorder from :data:`FIRST_OPENCL`, so one window over both
    would have to move with every batch.
    """

    def __init__(self) -> None:
        #: (session, 1 for OpenCL's ids) → window
        self.windows: dict[tuple[int, int], CallWindow] = {}
        #: Whether the process is known to use OpenCL; until then high ids are CUDA's, after a billion calls.
        self.opencl = False

    def split(self, session: Array, ids: Array) -> list[tuple[CallWindow, Array | slice]]:
        """The windows of a batch of rows, each with the rows that belong to it, by their (32 or 64-bit) ids."""
        if not len(session):
            return []
        first = int(session[0])
        one = one_value(session) or (int(session[-1]) == first and bool((session == first).all()))
        if one and not self.opencl:
            return [(self.window(first), slice(None))]
        key = session.astype(np.int64) << 1
        if self.opencl:
            key = key | ((ids & (_RANGE - 1)) >= FIRST_OPENCL)
        known = np.unique(key).tolist()
        if len(known) == 1:
            return [(self.window(known[0] >> 1, known[0] & 1), slice(None))]
        return [(self.window(k >> 1, k & 1), np.flatnonzero(key == k)) for k in known]

    def full_ids(self, session: Array, low: Array) -> Array:
        """The full correlation ids of rows that have only the lower half."""
        full = np.zeros(len(low), np.int64)
        for window, chosen in self.split(session, low):
            full[chosen] = window.full(window.unwrap(low[chosen]))
        return full

    def window(self, session: int, opencl: int = 0) -> CallWindow:
        """The window of a session and API."""
        found = self.windows.get((session, opencl))
        if found is None:
            found = self.windows[session, opencl] = CallWindow(session)
        return found

    def state(self) -> dict[str, Array]:
        """The windows as named arrays."""
        return {
            f"window_{session}_{opencl}_{name}": values
            for (session, opencl), window in self.windows.items()
            for name, values in window.state().items()
        }

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> Correlations:
        """Restore the windows from the arrays of `state`."""
        out = cls()
        for key in state:
            if key.startswith("window_") and key.endswith("_window"):
                prefix = key.removesuffix("window")
                session, opencl = (int(number) for number in prefix.split("_")[1:3])
                fields = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
                out.windows[session, opencl] = CallWindow.restore(fields)
                out.opencl |= bool(opencl)
        return out
