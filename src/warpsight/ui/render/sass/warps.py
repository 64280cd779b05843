"""The summary of warps as text: one row each for completed, running and missing warps, with as many ids as fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from warpsight.ui.render import numbers

#: CUTracer's labels.
_ROWS = (
    ("Completed (EXIT):", "completed"),
    ("In-progress:", "in_progress"),
    ("Missing (never seen):", "missing"),
)
#: Lines of ids that a row has, unless all are wanted.
LINES = 3
_INDENT = 6


def write(summary: Mapping[str, Any], stream: IO[str], everything: bool = False) -> None:
    """Print the summary; ids beyond a few lines are counted unless `everything` is requested."""
    width = shutil.get_terminal_size().columns
    ids = summary["warp_id_range"]
    parts = [summary[key] for _, key in _ROWS]
    label = max(len(name) for name, _ in _ROWS)
    counts = [numbers.count(part["count"], stream) for part in parts]
    digits = max(len("WARPS"), *map(len, counts))
    lines = [
        "Warp Summary",
        f"  Total warps observed: {numbers.count(summary['total_observed'], stream)}",
        f"  Warp ID range: {f'{ids[0]}-{ids[1]}' if ids else '(none)'}",
        "",
        f"  {'':{label}}  {'WARPS':>{digits}}   SHARE  RANGES OF IDS",
    ]
    for (name, _), part, count in zip(_ROWS, parts, counts, strict=True):
        number = numbers.count(len(part["ranges"]), stream) if part["ranges"] else "(none)"
        lines.append(f"  {name:{label}}  {count:>{digits}}  {part['percentage']:5.1f}%  {number}")
        lines += _wrapped(part["ranges"], max(width, 40) - _INDENT, None if everything else LINES)
    stream.write("\n".join(lines) + "\n")


def _wrapped(ranges: Sequence[Sequence[int]], width: int, most: int | None) -> Iterator[str]:
    """Ranges in lines; beyond `most` lines, the last one says how many ranges are left out."""
    line, lines = "", 0
    for place, (first, last) in enumerate(ranges):
        word = (str(first) if first == last else f"{first}-{last}") + ("," if place < len(ranges) - 1 else "")
        left = f"and {len(ranges) - place:,} more (--all)"
        if most is not None and lines == most - 1 and place < len(ranges) - 1:
            # reserve space in the last line for the number left out from here on
            if len(f"{line} {word} {left}") > width:
                yield f"{'':{_INDENT}}{line} {left}".rstrip()
                return
        elif line and len(f"{line} {word}") > width:
            yield f"{'':{_INDENT}}{line}"
            line, lines = "", lines + 1
        line = f"{line} {word}".lstrip()
    if line:
        yield f"{'':{_INDENT}}{line}"
