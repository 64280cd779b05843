"""`ws.top`: what a running recording does now, as data."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import fields

from warpsight._display import HtmlShown
from warpsight.recorder.live.recording import Live, Snapshot, find


class TopSnapshot(HtmlShown, Snapshot):
    """One snapshot of `warpsight top`; prints as it does in a pipe."""

    def __str__(self) -> str:
        """The rates, kernels, counters and losses as lines."""
        from warpsight.ui.render.live import view

        stream = io.StringIO()
        view.write(self, stream)
        return stream.getvalue().rstrip()


def top(
    recording: str | None = None, *, interval: float = 1.0, window: float = 5.0, count: int = 15
) -> Iterator[TopSnapshot]:
    """Watch a running recording: rates, GPU utilization, kernels, stacks, counters and loss, refreshed repeatedly.

    `next(ws.top("run.warp"))` takes one snapshot. The iteration ends with the recording, after a last snapshot.

    Args:
        recording: The folder, or the process id of a recorded process or its launcher; by default the newest running one here.
        interval: Seconds between snapshots; the first needs one, too.
        window: Seconds that rates and kernels cover.
        count: Kernels and stacks of a snapshot.

    Raises:
        UsageError: at once, when there is no such recording.
        WarpsightError: at once, when the folder or process is not being recorded.
    """
    return _looks(Live(find(recording), window), interval, count)


def _looks(live: Live, interval: float, count: int) -> Iterator[TopSnapshot]:
    shown: Snapshot = live.look(count)  # reads the current state first: rates need two readings
    while shown.recording:
        time.sleep(interval)
        shown = live.look(count, count)
        yield TopSnapshot(**{field.name: getattr(shown, field.name) for field in fields(shown)})
