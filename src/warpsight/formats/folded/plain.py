"""Folded stacks, as flamegraph.pl and most viewers read them: `frame;frame;frame weight`, outermost frame first."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from warpsight.formats.reading import weighted
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.selection import Selection
from warpsight.formats.writing import device_stacks
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target
    from warpsight.model import StoredTrace

COVERAGE = Coverage(
    kept=("each stack with its weight, laid end to end; a leaf `[GPU_Kernel]NAME` as a `kernel` row",),
    lost=(
        "fractions of weights (rounded, with a note); frame annotations (`_[k]`, `_[j]`) stay in the name",
    ),
    tested=("lines of our own, after flamegraph.pl's format",),
)
WRITTEN = Coverage(
    kept=("ns of kernels, copies and fills by host stack, their own or their launch's",),
    lost=("times, streams, processes, ranges, own events, counters; `flame --to folded` has more levels",),
    tested=("reading it back",),
)
_WEIGHT = re.compile(rb"(\d{1,18})(?:\.(\d+))?")


def sniff(source: Source) -> bool:
    """Whether nearly all of the first lines are stacks with a weight, and some have several frames."""
    lines = [line for line in source.head.splitlines()[:50] if line.strip()]
    if len(source.head) >= 65_536:
        lines = lines[:-1]  # truncated; a single-line document cannot be
    if not lines or b"\0" in source.head:
        return False
    found = [_split(line) for line in lines]
    several = sum(1 for match in found if match and b";" in match[0])
    return sum(match is not None for match in found) * 10 >= len(lines) * 9 and several * 2 >= len(lines)


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: when no line has a stack and a weight.
    """
    stacks: dict[bytes, int] = {}
    skipped, rounded, first_bad = 0, 0, 0
    with source.open() as file:
        for number, line in enumerate(file, 1):
            found = _split(line)
            if found is None:
                if line.strip():
                    skipped, first_bad = skipped + 1, first_bad or number
                continue
            stack, whole, part = found
            rounded += bool(part.strip(b"0"))
            stacks[stack] = stacks.get(stack, 0) + whole + (part[:1] >= b"5")
    if not stacks:
        raise source.error("no line has a stack and a weight", line=first_bad or 1)
    if skipped:
        target.lost(
            skipped, f"lines without a weight were skipped, the first is line {first_bad:,}", "sample"
        )
    if rounded:
        target.note(f"{rounded:,} weights had fractions and were rounded")
    weighted.place(
        target, ((_frames(stack), weight) for stack, weight in stacks.items()), "the file's own unit"
    )


def _split(line: bytes) -> tuple[bytes, int, bytes] | None:
    """Stack, weight and decimals of the weight in a line; None if the line has no weight."""
    parts = line.rsplit(None, 1)
    match = _WEIGHT.fullmatch(parts[1]) if len(parts) == 2 and not line[:1].isspace() else None
    return None if match is None else (parts[0], int(match[1]), match[2] or b"")


def _frames(stack: bytes) -> tuple[Frame, ...]:
    parts = stack.decode("utf-8", "replace").split(";")
    return tuple((part.strip() or "?", None, None, None, "native", None) for part in parts)


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write host stacks with the device work they launched, in ns; returns counts of lines and unplaced kernels."""
    stacks: dict[str, int] = {}
    for stack, leaf, weight in device_time(trace, selection):
        stacks[f"{stack};{leaf}" if stack else leaf] = (
            stacks.get(f"{stack};{leaf}" if stack else leaf, 0) + weight
        )
    for stack, _, weight in _weighted_events(trace, selection):
        stacks[stack] = stacks.get(stack, 0) + weight
    for line, weight in sorted(stacks.items()):
        file.write(f"{line} {weight}\n".encode())
    return {"lines": len(stacks), "unplaced": device_stacks.unplaced(trace)}


def device_time(trace: StoredTrace, selection: Selection) -> list[tuple[str, str, int]]:
    """Folded host stack, leaf and ns of all kernels, copies and sets; the stack is their own or their launch's."""
    parts = []
    for table, leaf in (
        ("kernel", "coalesce(demangled, '?')"),
        ("memcpy", "kind"),
        ("memset", "memory_kind"),
    ):
        if selection.wants(table):
            label = {"kernel": "Kernel", "memcpy": "Memcpy", "memset": "Memset"}[table]
            parts.append(
                f"SELECT process, correlation, stack, '[GPU_{label}]' || {leaf} AS leaf, "
                f"greatest(duration, 0) AS duration FROM {table} "
                f"WHERE {selection.where(table)} AND duration IS NOT NULL"
            )
    if not parts:
        return []
    rows = trace.sql(f"{device_stacks.placed(parts)} SELECT stack, leaf, sum(duration)::BIGINT FROM placed "
                     "GROUP BY ALL ORDER BY ALL")  # fmt: skip
    return _folded(trace, rows.fetchall())


def _weighted_events(trace: StoredTrace, selection: Selection) -> list[tuple[str, str, int]]:
    """The stacks of a file that had weights and no times."""
    if not selection.wants("user_event"):
        return []
    rows = trace.sql(
        f"SELECT coalesce(stack, 0), name, sum(duration)::BIGINT FROM user_event WHERE kind = '{weighted.KIND}' "
        f"AND {selection.where('user_event')} GROUP BY ALL ORDER BY ALL"
    )
    return _folded(trace, rows.fetchall())


def _folded(trace: StoredTrace, rows: list[tuple[int, str, int]]) -> list[tuple[str, str, int]]:
    known = device_stacks.StackFrames(trace)
    texts: dict[int, str] = {}
    out = []
    for stack, leaf, weight in rows:
        if stack not in texts:
            chain = reversed(known.innermost_first(stack))
            texts[stack] = ";".join(function.replace(";", ":") for function, *_ in chain)
        out.append((texts[stack], leaf.replace(";", ":"), weight))
    return out
