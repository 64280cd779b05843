"""Which operation wrote a differing value: a replay operation by operation that inspects each one's changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from warpsight.replay import execution, script
from warpsight.replay.outcome import Files, MemoryDifference, Version, Write, title
from warpsight.replay.results import Wrote
from warpsight.replay.script import WrittenScript

#: Bytes that are downloaded at most, to find the writers.
_BUDGET = 64 << 30
_RUNS = 2


def attributed(
    files: Files, versions: Sequence[Version], written: WrittenScript, folder: Path, timeout: float | None
) -> list[Version]:
    """The versions with the operation behind each difference; unchanged without differences or with too much to inspect."""
    if not any(v.recorded or v.runs_differ or v.original for v in versions):
        return list(versions)
    steps = len(written.operations)
    if steps == 1:
        wrote = [Wrote(run, 0, p, 0, int(files.written.pieces[p]["size"]), str(run)) for run in range(_RUNS)
                 for p in range(len(files.written.pieces))]  # fmt: skip
    elif steps * _RUNS * int(written.pieces["size"].sum()) > _BUDGET:
        return list(versions)
    else:
        separate = folder / "steps"
        separate.mkdir()
        script.change(written, script.STEPWISE, _RUNS)
        wrote = execution.run(written, separate, timeout=timeout).wrote
    return [
        replace(
            v,
            recorded=tuple(_last(files, d, wrote) for d in v.recorded),
            original=tuple(_last(files, d, wrote) for d in v.original),
            runs_differ=tuple(_varying(files, d, wrote) for d in v.runs_differ),
        )
        for v in versions
    ]


def writes(
    files: Files, written: WrittenScript, folder: Path, timeout: float | None
) -> tuple[Write, ...] | None:
    """Which operation changes which memory, from a replay operation by operation; None if there is too much to inspect."""
    if len(written.operations) * int(written.pieces["size"].sum()) > _BUDGET:
        return None
    separate = folder / "writes"
    separate.mkdir()
    script.change(written, script.STEPWISE, 1)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for one in execution.run(written, separate, timeout=timeout).wrote:
        operation, owner = int(written.operations[one.step]), int(written.owners[one.piece])
        if operation < 0:
            continue
        offset = int(written.pieces["address"][one.piece]) - files.manifest.allocations[owner].address
        begin, end = found.get((operation, owner), (offset + one.start, offset + one.end))
        found[operation, owner] = min(begin, offset + one.start), max(end, offset + one.end)
    return tuple(
        Write(operation, title(files.manifest, files.manifest.operations[operation]), owner, *extent)
        for (operation, owner), extent in sorted(found.items())
    )


def _last(files: Files, difference: MemoryDifference, wrote: Sequence[Wrote]) -> MemoryDifference:
    """Add the last operation that wrote around the first differing element."""
    piece, offset = _place(files, difference)
    around = [w.step for w in wrote if w.run == 0 and w.piece == piece and w.start <= offset < w.end]
    return _with_kernel(files, difference, max(around)) if around else difference


def _varying(files: Files, difference: MemoryDifference, wrote: Sequence[Wrote]) -> MemoryDifference:
    """With the first operation after which the memory of two runs differs, if it did here too; else the last writer."""
    after: dict[tuple[int, int], dict[int, str]] = {}
    for one in wrote:
        after.setdefault((one.step, one.piece), {})[one.run] = one.hash
    varying = [step for (step, _), runs in after.items() if len(runs) < _RUNS or len(set(runs.values())) > 1]
    return _with_kernel(files, difference, min(varying)) if varying else _last(files, difference, wrote)


def _place(files: Files, difference: MemoryDifference) -> tuple[int, int]:
    pieces = files.written.pieces
    piece = int(pieces["address"].searchsorted(difference.address, "right")) - 1
    return piece, difference.address - int(pieces[piece]["address"])


def _with_kernel(files: Files, difference: MemoryDifference, step: int) -> MemoryDifference:
    operation = int(files.written.operations[step])
    if operation < 0:
        return difference
    return replace(
        difference, operation=operation, kernel=title(files.manifest, files.manifest.operations[operation])
    )
