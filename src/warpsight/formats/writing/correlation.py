"""Which correlations occur where. This is the input of flows, collected for the whole process before its first row is written."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from warpsight.formats.writing.batch import TrackBatch
from warpsight.formats.writing.timeline import Column

#: If ids are spread wider than this many times their number, they are looked up in a sorted list instead of by index.
_SPARSE = 16


class SharedCorrelations:
    """Correlations of one process that both a call and device work have, in three bits each."""

    def __init__(
        self, process: int, extent: tuple[int, int, int], device: Iterable[Column], host: Iterable[Column]
    ) -> None:
        """Read both sides chunk by chunk; `extent` is the lowest and the highest id and the number of rows."""
        low, high, rows = extent
        self._salt = np.uint64((process + 1) << 48)
        self._low, span = low, high - low + 1
        self._ids: Column | None = None
        if span > _SPARSE * rows + 65_536:
            device, host = list(device), list(host)
            self._ids = np.unique(np.concatenate([*device, *host]))
            span = len(self._ids)
        self._span = span
        device_has, host_has, repeated = (np.zeros(span, bool) for _ in range(3))
        for chunk in device:
            places = np.sort(self._places(chunk))
            repeated[places[device_has[places]]] = True
            repeated[places[1:][places[1:] == places[:-1]]] = True
            device_has[places] = True
        for chunk in host:
            host_has[self._places(chunk)] = True
        self._joined = device_has & host_has
        self._repeated = self._joined & repeated

    def connect(self, rows: TrackBatch) -> None:
        """Assign flow numbers to rows with a partner on the other side."""
        if rows.correlation is None or not len(self._joined):
            return
        joined = self._joined[self._places(rows.correlation)] & (rows.correlation != 0)
        if joined.any():
            rows.flow = rows.correlation.astype(np.uint64) ^ self._salt
            if not joined.all():
                rows.flow[~joined] = 0

    @property
    def shared(self) -> Column:
        """Flows that end at more than one slice: kernels of one graph launch."""
        places = np.flatnonzero(self._repeated)
        ids = places + self._low if self._ids is None else self._ids[places]
        flows: Column = ids[ids != 0].astype(np.uint64) ^ self._salt
        return flows

    def _places(self, correlation: Column) -> Column:
        if self._ids is not None:
            return np.minimum(np.searchsorted(self._ids, correlation), len(self._ids) - 1)
        places: Column = correlation - self._low
        # Rows without one (0) may be below all others.
        return np.clip(places, 0, self._span - 1)
