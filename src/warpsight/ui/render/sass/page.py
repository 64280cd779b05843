"""`sass list --format html`: source, SASS and PTX side by side, and the control-flow graph, as one self-contained page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from warpsight.device_code.debug_info.inline_chain import source_line
from warpsight.sass.listing import Listing, ListingRow
from warpsight.sass.why.reasons import reason
from warpsight.ui.render import pages
from warpsight.ui.render.sass import flow_picture

#: Lines of source shown around those with code, and blocks a picture is drawn for.
_AROUND = 2
_MOST_BLOCKS = 600
_MOST_PTX = 20_000


def page(listing: Listing) -> str:
    """The page of a listing; it makes no network requests."""
    from markupsafe import Markup

    code = listing.code
    drawn = len({row.block for row in listing.rows}) <= _MOST_BLOCKS
    picture = Markup(flow_picture.svg(listing)) if drawn else None
    return pages.page(
        "sass.html.j2", css=("theme.css", "sass.css"), js=("format.js", "sass.js"),
        data={"rows": [[_line_ids(row), row.ptx] for row in listing.rows]},
        title=code.short_name, code=code, listing=listing, rows=[_row(row, listing) for row in listing.rows],
        files=_files(listing), ptx=_ptx(listing), picture=picture,
        blocks=len({row.block for row in listing.rows}),
    )  # fmt: skip


def _line_ids(row: ListingRow) -> list[str]:
    return [f"{PurePath(frame.file).name}:{frame.line}" for frame in row.frames]


def _row(row: ListingRow, listing: Listing) -> dict[str, Any]:
    most = max((one.total for one in listing.rows), default=0)
    return {
        "row": row, "heat": row.total / most if most else 0.0,
        "share": row.total / listing.samples.total if listing.samples.total else 0.0,
        "reasons": ", ".join(f"{name} {count:,}" for name, count in _most(row.samples)),
        "meaning": reason(row.main_reason).text if row.main_reason else "",
        "lines": " ← ".join(str(frame) for frame in row.frames),
    }  # fmt: skip


def _most(samples: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(samples.items(), key=lambda item: (-item[1], item[0]))


def _files(listing: Listing) -> list[dict[str, Any]]:
    """Files with the lines that have code and the lines around those, and the samples of each."""
    samples: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in listing.rows:
        for frame in dict.fromkeys(row.frames):
            samples[frame.file][frame.line] += row.total
    total = listing.samples.total or 1
    found = []
    for path, lines in sorted(samples.items(), key=lambda item: (-max(item[1].values()), item[0])):
        shown = sorted({near for line in lines for near in range(max(line - _AROUND, 1), line + _AROUND + 1)})
        listed = [
            {"number": line, "text": source_line(path, line, indented=True), "share": lines.get(line, 0) / total,
             "code": line in lines, "gap": before is not None and line != before + 1}
            for before, line in zip([None, *shown], shown, strict=False)
        ]  # fmt: skip
        found.append({
            "path": path, "name": PurePath(path).name,
            "lines": [one for one in listed if one["text"] is not None or one["code"]],
            "missing": all(one["text"] is None for one in listed),
        })  # fmt: skip
    return found


def _ptx(listing: Listing) -> Sequence[dict[str, Any]]:
    """The PTX lines of this kernel: from the first to the last that produced instructions."""
    used = sorted({row.ptx for row in listing.rows if row.ptx})
    if not used:
        return []
    lines = listing.code.cubin.ptx[: used[-1]][used[0] - 1 :][:_MOST_PTX]
    known = set(used)
    return [
        {"number": number, "text": text, "code": number in known}
        for number, text in enumerate(lines, used[0])
        if text.strip()
    ]
