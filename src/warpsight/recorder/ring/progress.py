"""Launched and completed work of a process, followed as segments close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture import functions
from warpsight.recorder.ring.tail import News

Array = npt.NDArray[Any]
#: Kinds this needs of the tail.
KINDS = ("Api", "Kernel", "Memcpy", "Memset")
_LAUNCH, _NO_KERNEL = 1, 2 | 4 | 8
#: Completions that may wait for their launch's row: blocks of calls are handed over up to a second later.
_EARLY = 400_000
#: Stream handles that mean another stream in each thread, or may.
_SHARED_HANDLES = 2
_ROW = np.dtype([("id", "<u4"), ("start", "<i8"), ("duration", "<i8"), ("stream", "<u8"), ("thread", "<u4")])


@dataclass(frozen=True)
class Outstanding:
    """Launches whose kernels are not known to have completed, as last reported by the process."""

    count: int
    #: Launch time of the oldest one, CLOCK_MONOTONIC ns.
    oldest: int
    #: When its call returned, and the thread that made it.
    returned: int
    thread: int
    #: Since when the oldest kernel of some stream may have been running, ns.
    running_since: int


class Progress:
    """Follows one process. Lost records do no harm, because work before a completed kernel of its stream has completed, too."""

    def __init__(self) -> None:
        self._session = -1
        self._open = np.zeros(0, _ROW)
        self._early = np.zeros(0, np.uint32)
        self._ended: dict[tuple[int, int], int] = {}
        self._without: dict[int, bool] = {}
        self.completions = 0
        self.launches = 0
        #: End of the last completed device work, CLOCK_MONOTONIC ns; 0: none yet.
        self.last_end = 0
        #: time.monotonic() when completions were last seen, and when rows of any kind were.
        self.heard_at = 0.0

    def take(self, news: News) -> None:
        """Add new rows."""
        if not news.batches:
            return
        self.heard_at = news.at
        kernels = news.batches.get("Kernel")
        api = news.batches.get("Api")
        session = max(
            (int(b.session.max()) for b in (kernels, api) if b is not None and len(b.rows)),
            default=self._session,
        )
        if session != self._session:
            self._session = session
            self._open, self._early = self._open[:0], self._early[:0]
        if api is not None:
            self._launch(api.rows[api.session == session], api.thread[api.session == session])
        done = 0
        if kernels is not None:
            rows = kernels.rows[kernels.session == session]
            complete = rows[rows["end"] > 0]
            done += len(complete)
            self._complete(complete)
        for kind in ("Memcpy", "Memset"):
            if kind in news.batches and len(rows := news.batches[kind].rows):
                done += len(rows)
                self.last_end = max(self.last_end, int(rows["end"].max()))
        if done:
            self.completions += done

    def outstanding(self) -> Outstanding | None:
        """Uncompleted launches; None if there may be none."""
        if not len(self._open):
            return None
        oldest = self._open[self._open["start"].argmin()]
        begin, end = int(oldest["start"]), int(oldest["start"] + oldest["duration"])
        running = []
        for key in {_stream(row) for row in self._open[["stream", "thread"]].tolist()}:
            mine = self._open["start"][self._of_stream(self._open, key)]
            running.append(max(int(mine.min()), self._ended.get(key, 0)))
        return Outstanding(len(self._open), begin, end, int(oldest["thread"]), min(running))

    def _launch(self, rows: Array, thread: Array) -> None:
        chosen = ((rows["flags"] & _LAUNCH) != 0) & ((rows["flags"] & _NO_KERNEL) == 0)
        chosen &= (rows["result"] == 0) & (rows["correlation"] != 0)
        if not chosen.any():
            return
        rows, thread = rows[chosen], thread[chosen]
        codes = rows["domain"].astype(np.int64) << 16 | rows["function"]
        for code in np.unique(codes).tolist():
            if code not in self._without:
                self._without[code] = "HostFunc" in functions.name(code >> 16, code & 0xFFFF)
            if self._without[code]:
                keep = codes != code
                rows, thread, codes = rows[keep], thread[keep], codes[keep]
        new = np.zeros(len(rows), _ROW)
        new["id"], new["start"], new["stream"] = rows["correlation"], rows["start"], rows["object"]
        new["thread"], new["duration"] = thread.view(np.uint32), rows["duration"]
        self.launches += len(new)
        if len(self._early):
            arrived = np.isin(new["id"], self._early)
            self._note_ends(new[arrived])
            new = new[~arrived]
        self._open = np.concatenate([self._open, new])

    def _complete(self, rows: Array) -> None:
        if not len(rows):
            return
        self.last_end = max(self.last_end, int(rows["end"].max()))
        ids = rows["correlation"]
        arrived = np.isin(self._open["id"], ids)
        done = self._open[arrived]
        self._open = self._open[~arrived]
        self._note_ends(done)
        known = np.isin(ids, done["id"])
        self._early = np.concatenate([self._early, ids[~known]])[-_EARLY:]

    def _note_ends(self, done: Array) -> None:
        """A stream runs its kernels in order, so work given to it before a completed kernel has completed too."""
        if not len(done):
            return
        streams = done["stream"].astype(np.int64)
        for handle in np.unique(streams).tolist():
            mine = done[streams == handle]
            threads = np.unique(mine["thread"]).tolist() if handle <= _SHARED_HANDLES else [0]
            for thread in threads:
                key = (handle, thread)
                part = mine if not thread else mine[mine["thread"] == thread]
                latest = int(part["start"].max())
                self._ended[key] = max(self._ended.get(key, 0), self.last_end)
                if len(self._open):
                    self._open = self._open[
                        ~(self._of_stream(self._open, key) & (self._open["start"] < latest))
                    ]
        if len(self._ended) > 4096:
            self._ended.clear()

    @staticmethod
    def _of_stream(rows: Array, key: tuple[int, int]) -> Array:
        mine: Array = rows["stream"] == np.uint64(key[0])
        return mine & (rows["thread"] == key[1]) if key[1] else mine


def _stream(row: tuple[int, int]) -> tuple[int, int]:
    return (row[0], row[1] if row[0] <= _SHARED_HANDLES else 0)
