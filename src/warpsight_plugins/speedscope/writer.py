"""Traces for speedscope: per stream the device work in time order, each with its host stack; per thread its samples."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import msgspec

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.writing.device_stacks import StackFrames, placed, unplaced

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=("device work per stream in time order with its host stack, samples per thread, in ns",),
    lost=("overlap within a stream; ranges, own events, counters",),
    tested=("reading it back",),
)
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_IDLE = "(idle)"


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write sampled profiles in ns; returns counts of profiles, samples and kernels without a time."""
    frames = _Frames(trace)
    profiles: list[dict[str, Any]] = []
    for name, rows in (*_streams(trace, selection), *_threads(trace, selection)):
        profiles.append(_profile(name, rows, frames))
    document = {
        "$schema": _SCHEMA,
        "exporter": "warpsight",
        "name": str(trace.path),
        "activeProfileIndex": 0,
        "shared": {"frames": frames.listed},
        "profiles": profiles,
    }
    file.write(msgspec.json.encode(document) + b"\n")
    return {
        "profiles": len(profiles),
        "samples": sum(len(profile["samples"]) for profile in profiles),
        "unplaced": unplaced(trace),
    }


class _Frames:
    """Numbers of frames and of stacks."""

    def __init__(self, trace: StoredTrace) -> None:
        self.listed: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, str | None, int | None], int] = {}
        self._known = StackFrames(trace)
        self._stacks: dict[int, list[int]] = {}

    def number(self, name: str, file: str | None = None, line: int | None = None) -> int:
        key = (name, file, line)
        if key not in self._numbers:
            self._numbers[key] = len(self.listed)
            frame_object: dict[str, Any] = {"name": name}
            frame_object |= {k: v for k, v in (("file", file), ("line", line)) if v is not None}
            self.listed.append(frame_object)
        return self._numbers[key]

    def stack(self, stack: int) -> list[int]:
        if stack not in self._stacks:
            chain = reversed(self._known.innermost_first(stack))
            self._stacks[stack] = [
                self.number(function, file or None, line or None) for function, file, line, _ in chain
            ]
        return self._stacks[stack]


def _profile(name: str, rows: list[tuple[int, int, int, str | None]], frames: _Frames) -> dict[str, Any]:
    """A profile of rows (start, end, stack, leaf); time between them becomes its own sample, and overlap is cut."""
    begin = rows[0][0]
    at = begin
    samples: list[list[int]] = []
    weights: list[int] = []
    for start, end, stack, leaf in rows:
        if start > at:
            samples.append([frames.number(_IDLE)])
            weights.append(start - at)
        if end > max(start, at):
            found = frames.stack(stack)
            samples.append([*found, frames.number(leaf)] if leaf is not None else found)
            weights.append(end - max(start, at))
        at = max(at, end)
    return {"type": "sampled", "name": name, "unit": "nanoseconds", "startValue": begin, "endValue": at,
            "samples": samples, "weights": weights}  # fmt: skip


def _streams(
    trace: StoredTrace, selection: Selection
) -> list[tuple[str, list[tuple[int, int, int, str | None]]]]:
    parts = []
    for table, leaf in (
        ("kernel", "coalesce(demangled, '?')"),
        ("memcpy", "'Memcpy ' || kind"),
        ("memset", "'Memset'"),
    ):
        if selection.wants(table):
            parts.append(
                f"SELECT process, context, stream, device, start, "
                f"start + greatest(coalesce(duration, 0), 0) AS e, correlation, stack, "
                f"{leaf} AS leaf FROM {table} WHERE {selection.where(table)}"
            )
    if not parts:
        return []
    rows = trace.sql(f"""{placed(parts)}
        SELECT process, context, stream, device, start, e, stack, leaf FROM placed
        ORDER BY process, context, stream, start""").fetchall()
    found: dict[str, list[tuple[int, int, int, str | None]]] = {}
    for process, context, stream, device, start, end, stack, leaf in rows:
        where = "" if device is None else f"GPU {device}, "
        found.setdefault(f"{where}process {process}, context {context}, stream {stream}", []).append(
            (start, end, stack, leaf)
        )
    return list(found.items())


def _threads(
    trace: StoredTrace, selection: Selection
) -> list[tuple[str, list[tuple[int, int, int, str | None]]]]:
    """Samples of host threads: each lasts until the thread's next one, at most four usual periods."""
    if not selection.wants("sample"):
        return []
    rows = trace.sql(f"""
        WITH s AS (SELECT process, thread, time, coalesce(stack, 0) AS stack,
            lead(time) OVER (PARTITION BY process, thread ORDER BY time) - time AS gap
          FROM sample WHERE {selection.instants()})
        SELECT process, thread, time, time + least(coalesce(gap, m), 4 * m)::BIGINT, stack
        FROM s JOIN (SELECT process, thread, coalesce(median(gap), 1)::BIGINT AS m FROM s GROUP BY ALL) USING (process, thread)
        ORDER BY process, thread, time""").fetchall()
    found: dict[str, list[tuple[int, int, int, str | None]]] = {}
    for process, thread, start, end, stack in rows:
        found.setdefault(f"process {process}, thread {thread}", []).append((start, end, stack, None))
    return list(found.items())
