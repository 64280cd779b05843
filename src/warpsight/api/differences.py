"""`ws.diff`: runs of two versions compared, each side one run or several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.api import choice
from warpsight.api.choice import Numbers
from warpsight.errors import UsageError
from warpsight.model.trace import StoredTrace

if TYPE_CHECKING:
    from warpsight.analysis.diff.answer import Difference
    from warpsight.analysis.diff.runs import ReducedRun

#: An open trace, or a path: a trace, a file of another tool, or a folder of them.
Side = StoredTrace | str | os.PathLike[str]


def diff(
    before: Side | Sequence[Side],
    after: Side | Sequence[Side],
    *,
    by: str | None = None,
    process: Numbers = (),
    device: Numbers = (),
    top: int | None = None,
) -> Difference:
    """Compare runs of two versions: what changed per iteration, and whether it exceeds run-to-run noise.

    A test needs at least four runs per side, better five, taken in turn; with fewer the verdict is `untested`.

    Args:
        before: runs: open traces, or paths of traces, other tools' files, or folders of them.
        after: the runs to judge, likewise.
        by: keep one table: summary, kernel, role, stack, range, operator, tree, sequence or runs.
        process: only these process ids.
        device: only these devices.
        top: most rows of a table; None and 0 mean all.

    Raises:
        UsageError: when a run is given twice, a folder holds none, or no run has what `by` asks for.
    """
    from warpsight.analysis.diff.compare import compare_runs

    if top is not None and top < 0:
        raise UsageError(f"top must be a number of rows, not {top}")
    sides = [_expanded(side) for side in (before, after)]
    for side in sides:
        _check_distinct(side)
    found = compare_runs(*([_read(one, device, process) for one in side] for side in sides))
    if by is not None and by not in found.result.tables:
        raise UsageError(f"no run has anything for by={by!r}; possible: {', '.join(found.result.tables)}")
    kept = {name: table for name, table in found.result.tables.items() if by in (None, name)}
    cut = {name: table.slice(0, top) if top else table for name, table in kept.items()}
    return replace(found, result=replace(found.result, tables=cut))


def _read(side: Side, device: Numbers, process: Numbers) -> ReducedRun:
    """Read one run; a trace opened here is closed immediately, since a run keeps everything a comparison needs."""
    from warpsight.analysis.diff import runs
    from warpsight.formats.importing import open_any

    if not isinstance(side, StoredTrace):
        with open_any(side) as opened:
            return _read(opened, device, process)
    return runs.read(side, choice.rows(side, device=device, process=process))


def _expanded(side: Side | Sequence[Side]) -> list[Side]:
    """The runs of one side; a folder of traces stands for the traces in it.

    Raises:
        UsageError: when it does not exist.
    """
    given = [side] if isinstance(side, (StoredTrace, str, os.PathLike)) else list(side)
    if not given:
        raise UsageError("a side of the comparison has no run")
    out: list[Side] = []
    for one in given:
        out += [one] if isinstance(one, StoredTrace) else _in_folder(os.fspath(one))
    return out


def _in_folder(path: str) -> list[str]:
    """The traces in a folder; a path to anything else is itself the run."""
    from warpsight.formats import registry
    from warpsight.formats.source import Source

    place = Path(path)
    if "://" in path or not place.is_dir() or _is_run(place):
        return [path]
    with Source(place) as source:
        if registry.sniff(source) is not None:
            return [path]
    found = [str(one) for one in sorted(place.iterdir()) if not one.name.startswith(".") and _is_run(one)]
    if not found:
        raise UsageError(f"{path} is a folder without traces")
    return found


def _is_run(path: Path) -> bool:
    """Whether a path is a trace, or a file of a format that can be read."""
    from warpsight.formats import registry
    from warpsight.formats.importing import is_trace
    from warpsight.formats.source import Source
    from warpsight.model.storage import manifest

    if path.is_dir():
        return (path / manifest.FILE).exists() or (path / "raw").is_dir()
    if is_trace(str(path)):
        return True
    with Source(path) as source:
        return registry.sniff(source) is not None


def _check_distinct(side: Sequence[Side]) -> None:
    """Refuse a run that is given twice, which would look like a second run with identical times."""
    seen: set[object] = set()
    for one in side:
        key = os.path.realpath(os.fspath(one)) if not isinstance(one, StoredTrace) else str(one.folder)
        if key in seen:
            raise UsageError(
                f"{one if not isinstance(one, StoredTrace) else one.path} is given twice on one side"
            )
        seen.add(key)
