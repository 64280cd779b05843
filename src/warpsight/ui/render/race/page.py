"""The verdict of `race check` as one self-contained HTML page, in the design of the report."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.race.check import DetectorResult, Provoked, RaceVerdict
from warpsight.race.moments import WarpMoments
from warpsight.race.suspects import EVENTS, Access, Suspect
from warpsight.ui.render import pages
from warpsight.ui.render.race import plans as race

_AROUND = 2
#: Layout of the time line in its own units.
_WIDTH, _LEFT, _ROW, _TOP = 1000, 168, 74, 34
_SORTS = {"load": "load", "store": "store", "atomic": "atomic", "copy": "asynchronous copy",
          "synchronization": "synchronization", "other": "other"}  # fmt: skip


def page(found: RaceVerdict, program: Sequence[str]) -> str:
    """The page of a verdict."""
    count = len(found.suspects)
    races = f"{count} race{'s' * (count != 1)}"
    verdict = races if count else "A race that no detector names" if found.racy else "No race"
    return pages.page(
        "race.html.j2", css=("theme.css", "report.css", "hang.css", "race.css"), js=("format.js",), data={},
        title=f"{verdict}: {' '.join(program)}", verdict=verdict, program=" ".join(program), racy=found.racy,
        suspects=[
            _suspect(suspect, rows, found.arms) for suspect, rows in zip(found.suspects, found.moments, strict=True)
        ],
        arms=[_arm(arm) for arm in found.arms], provoked=_provoked(found.provoked), disagreements=found.disagreements,
    )  # fmt: skip


def _arm(arm: DetectorResult) -> dict[str, Any]:
    return {"name": arm.name, "said": race.findings_text(arm), "notes": arm.notes}


def _provoked(provoked: Provoked | None) -> dict[str, Any] | None:
    if provoked is None:
        return None
    sides = [("with delays", provoked.failures, provoked.runs),
             ("without", provoked.control_failures, provoked.control_runs)]  # fmt: skip
    return {"verdict": provoked.verdict, "summary": provoked.summary, "sides": [
        {"name": name, "failures": failures, "runs": runs, "share": failures / runs if runs else 0.0}
        for name, failures, runs in sides]}  # fmt: skip


def _suspect(suspect: Suspect, rows: Sequence[WarpMoments], arms: Sequence[DetectorResult]) -> dict[str, Any]:
    accesses = [access for access in (suspect.first, suspect.second) if access is not None]
    return {
        "kernel": suspect.kernel, "space": suspect.space, "reason": suspect.reason, "repair": suspect.repair,
        "found_by": [
            {"name": arm.name, "found": arm.name in suspect.found_by, "looked": arm.findings is not None} for arm in arms
        ],
        "accesses": [_access(access) for access in accesses], "picture": _picture(rows),
        "recorded": EVENTS in suspect.found_by,
        "lines": ", ".join(dict.fromkeys(access.line.rpartition(":")[2] for access in accesses if access.line)),
    }  # fmt: skip


def _access(access: Access) -> dict[str, Any]:
    return {"operation": access.operation, "who": access.who, "sass": access.sass, "line": access.line,
            "chain": [{"function": frame.function or "?", "place": f"{frame.file}:{frame.line}"} for frame in access.frames],
            "source": list(_source(access.frames[0])) if access.frames else []}  # fmt: skip


def _source(frame: Frame) -> Iterator[dict[str, Any]]:
    """The line and those around it; empty if the file is not on this machine."""
    if frame.text is None:
        return
    whole = Path(frame.file).read_text(encoding="utf-8", errors="replace").splitlines()
    for number in range(max(frame.line - _AROUND, 1), min(frame.line + _AROUND, len(whole)) + 1):
        yield {"number": number, "text": whole[number - 1].expandtabs(4), "hit": number == frame.line}


def _picture(warps: Sequence[WarpMoments]) -> dict[str, Any] | None:
    """A row of instructions per warp, all in time order, with the times above."""
    times = sorted({moment.ns for row in warps for moment in row.moments})
    if not times:
        return None
    step = (_WIDTH - _LEFT - 20) / max(len(times), 2)
    place = {ns: round(_LEFT + (number + 0.5) * step, 1) for number, ns in enumerate(times)}
    rows = [
        {"name": row.name, "y": _TOP + number * _ROW + _ROW / 2, "marks": [
            {"x": place[moment.ns], "sort": moment.sort, "racing": moment.racing,
             "line": moment.line.rpartition(":")[2] or "?",
             "what": f"{moment.what} at {moment.line or 'an unknown line'}, {moment.ns / 1e3:.1f} µs"}
            for moment in row.moments]}
        for number, row in enumerate(warps)
    ]  # fmt: skip
    racing = [(place[moment.ns], _TOP + number * _ROW + _ROW / 2)
              for number, row in enumerate(warps) for moment in row.moments if moment.racing]  # fmt: skip
    every = max(1, round(60 / step))
    ticks = [{"x": place[ns], "text": f"{ns / 1e3:.1f}"} for ns in times[::every]]
    used = {moment.sort for row in warps for moment in row.moments}
    return {
        "rows": rows, "ticks": ticks, "width": _WIDTH, "left": _LEFT, "height": _TOP + _ROW * len(rows),
        "pair": list(itertools.chain(*racing)) if len(racing) == 2 else None,
        "legend": [(sort, name) for sort, name in _SORTS.items() if sort in used],
    }  # fmt: skip
