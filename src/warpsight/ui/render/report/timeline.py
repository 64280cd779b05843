"""Data of the report's timeline: rows, windows of them, and places of findings; times relative to the trace's start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.frames import is_folded
from warpsight.analysis.base.words import moment
from warpsight.analysis.timeline.part import Part, part, sums
from warpsight.analysis.timeline.row import KINDS
from warpsight.model import stacks as host_stacks
from warpsight.ui.render.pages import column, packed

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding
    from warpsight.analysis.timeline.scene import Scene
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_Text = Callable[[str], str]
#: Single slices of the whole recording and of the judged window, cells of bins, and bins of a row.
_WHOLE, _JUDGED, _CELLS, _BINS = 20_000, 60_000, 300_000, 16_384
#: The same for a single window from a server.
_ASKED, _ASKED_BINS = 30_000, 2_048
#: Matches of a search that are listed.
_MATCHES = 5_000


class Timeline:
    """A scene as a page shows it; names are redacted once."""

    def __init__(self, trace: StoredTrace, scene: Scene, text: _Text) -> None:
        """Show `scene` of `trace`; `text` redacts strings."""
        self._scene, self._text = scene, cache(text)
        self._stacks = host_stacks.load(trace)

    def data(self, judged: tuple[int, int] | None) -> dict[str, Any]:
        """The data that `timeline.js` draws: a short recording completely, otherwise an overview and the judged window."""
        scene = self._scene
        bins = _BINS
        while bins > 64 and bins * max(len(scene.rows), 1) > _CELLS:
            bins //= 2
        parts = [part(scene, scene.begin, scene.end, slices=_WHOLE, bins=bins)]
        window = self._window(judged)
        if len(parts[0].bins.rows):
            begin, end = self._close(window)
            parts.append(part(scene, begin, end, slices=_JUDGED, bins=_ASKED_BINS))
        return {
            "begin": scene.begin - scene.origin, "end": scene.end - scene.origin,
            "window": [window[0] - scene.origin, window[1] - scene.origin], "kinds": KINDS,
            "rows": [{"key": row.key, "label": self._text(row.label), "role": row.role, "group": row.group, "count": len(row),
                      "busy": row.busy(scene.begin, scene.end)} for row in scene.rows],
            "parts": [self.part(one) for one in parts], "merged": scene.merged, "threads": scene.threads,
        }  # fmt: skip

    def requested_window(self, begin: int, end: int) -> dict[str, Any]:
        """A window requested by a page, relative to the trace's start."""
        scene = self._scene
        begin, end = self._clipped(begin, end)
        return self.part(part(scene, begin, end, slices=_ASKED, bins=_ASKED_BINS))

    def sums(self, begin: int, end: int) -> dict[str, Any]:
        """The contents of a window: covered time by row, and the device work with the most time."""
        found = sums(self._scene, *self._clipped(begin, end))
        names = self._scene.names
        return {"busy": found.busy, "names": [
            {"name": self._text(names[name][1]), "kind": KINDS.index(names[name][0]), "time": time, "count": count}
            for name, time, count in found.names]}  # fmt: skip

    def matches(self, pattern: str) -> dict[str, Any]:
        """The places of device work whose name matches a regular expression.

        Raises:
            re.error: for an invalid pattern.
        """
        found = self._scene.matching(pattern)
        time = int((found[:, 2] - found[:, 1]).sum())
        shown = found[:_MATCHES]
        start, end = ((shown[:, i] - self._scene.origin).tolist() for i in (1, 2))
        return {"count": len(found), "time": time, "row": shown[:, 0].tolist(), "start": start, "end": end}

    def part(self, one: Part) -> dict[str, Any]:
        """A window as packed columns, with the names and stacks that it uses."""
        scene, slices, bins = self._scene, one.slices, one.bins
        is_stack = np.array([row.role == "stacks" for row in scene.rows], bool)
        of_stacks = np.repeat(is_stack[slices.rows], np.diff(slices.offsets))
        binned = is_stack[bins.rows]
        stacks = _Tree(
            self._stacks, np.concatenate([slices.stack, slices.name[of_stacks], bins.name[binned].ravel()])
        )
        plain, above = slices.name[~of_stacks], bins.name[~binned]
        used = np.unique(np.concatenate([plain, above[above >= 0]]))
        name, bin_name = np.zeros(len(slices), np.int64), np.zeros(bins.name.shape, np.int64)
        name[~of_stacks] = np.searchsorted(used, plain)
        name[of_stacks] = stacks.place(slices.name[of_stacks])
        # 0 means none, also for stacks
        bin_name[~binned] = np.where(above >= 0, np.searchsorted(used, above) + 1, 0)
        bin_name[binned] = stacks.place(bins.name[binned])
        return {
            "begin": one.begin - scene.origin, "end": one.end - scene.origin,
            "names": [self._text(scene.names[i][1]) for i in used.tolist()],
            "kinds": [KINDS.index(scene.names[i][0]) for i in used.tolist()],
            "frames": stacks.frames(self._text), "parent": column(stacks.parents), "frame": column(stacks.frame),
            "slices": {
                "rows": slices.rows.tolist(), "offsets": slices.offsets.tolist(), "start": column(slices.start - one.begin),
                "duration": column(slices.end - slices.start), "name": column(name), "stack": column(stacks.place(slices.stack)),
                "caller": column(slices.caller + 1), "lag": column(slices.lag),
            },
            "bins": {"rows": bins.rows.tolist(), "count": int(bins.busy.shape[1]),
                     "busy": packed(np.ceil(bins.busy * 255).clip(0, 255), "u1"), "name": column(bin_name.ravel())},
        }  # fmt: skip

    def marks(self, findings: Sequence[Finding]) -> list[dict[str, Any]]:
        """The findings with a time, with their number in reading order."""
        origin = self._scene.origin
        return [
            {"number": number, "begin": one.at[0] - origin, "end": one.at[1] - origin, "text": self._text(one.text),
             "severity": one.severity}
            for number, one in enumerate(findings, 1) if one.at is not None
        ]  # fmt: skip

    def _window(self, judged: tuple[int, int] | None) -> tuple[int, int]:
        begin, end = judged or (self._scene.begin, self._scene.end)
        begin, end = max(begin, self._scene.begin), min(end, self._scene.end)
        return (begin, end) if end > begin else (self._scene.begin, self._scene.end)

    def _close(self, window: tuple[int, int]) -> tuple[int, int]:
        """The start of a window, with as many single slices as fit into the page."""
        begin, end = window
        while end - begin > 1_000:
            where = (row.between(begin, end) for row in self._scene.rows)
            if sum(w.stop - w.start for w in where) <= _JUDGED:
                break
            end = begin + (end - begin) * 3 // 4
        return begin, end

    def _clipped(self, begin: int, end: int) -> tuple[int, int]:
        scene = self._scene
        begin = min(max(begin + scene.origin, scene.begin), scene.end - 1)
        return begin, min(max(end + scene.origin, begin + 1), scene.end)


def place(begin: int, end: int) -> str:
    """Address within the report of a stretch of time, ns since the trace's start. It is selected, with space around it."""
    room = max((end - begin) // 4, 2_000)
    window = f"from={moment(max(begin - room, 0), 9)}&until={moment(end + room, 9)}"
    return f"#timeline?{window}&select={moment(begin, 9)}..{moment(end, 9)}"


class _Tree:
    """The stacks that a part uses, with their callers, numbered from 1; 0 means no stack."""

    def __init__(self, stacks: host_stacks.Stacks, used: Column) -> None:
        ids = np.unique(used[(used > 0) & (used < len(stacks.parent))])
        while True:  # add callers until there are no new ones
            more = np.union1d(ids, stacks.parent[ids])
            more = more[more > 0]
            if len(more) == len(ids):
                break
            ids = more
        self._stacks, self._ids = stacks, ids
        self.parents = self.place(stacks.parent[ids])
        self._frames, self.frame = np.unique(stacks.frame[ids], return_inverse=True)

    def place(self, stack: Column) -> Column:
        """The number of each stack."""
        if not len(self._ids):
            return np.zeros(stack.shape, np.int64)
        at = np.minimum(np.searchsorted(self._ids, stack), len(self._ids) - 1)
        out: Column = np.where(self._ids[at] == stack, at + 1, 0)
        return out

    def frames(self, text: _Text) -> list[list[Any]]:
        """Text of each frame, and whether it belongs to a library."""
        texts = [self._stacks.text(one) for one in self._frames.tolist()]
        return [[text(one), int(is_folded(one))] for one in texts]
