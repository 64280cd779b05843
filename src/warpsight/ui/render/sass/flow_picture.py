"""The control-flow graph of a kernel as SVG: a box per basic block, in warmer colors for more samples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from warpsight.sass.listing import Listing, ListingRow
from warpsight.ui.render.sass.layered_layout import GraphLayout, Size, layered

_CHARACTER, _LINE, _HEAD, _PADDING = 6.6, 14.0, 20.0, 8.0
_MOST_LINES, _LONGEST = 6, 46
_MARGIN = 24.0
_DIM = ' class="dim"'
_COLD, _HOT = (255, 255, 255), (240, 150, 84)
_STYLE = (
    "text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#15191f}"
    ".head{font-weight:700}.dim{fill:#525d69}.block{stroke:#87919c}.loop{stroke:#005f9e;stroke-width:2}"
    ".edge{fill:none;stroke:#525d69;stroke-width:1.3}.back{stroke:#005f9e;stroke-width:1.8;stroke-linejoin:round}"
)


def svg(listing: Listing) -> str:
    """The picture; ids `block-N` match the page's rows."""
    blocks: dict[int, list[ListingRow]] = {}
    for row in listing.rows:
        blocks.setdefault(row.block, []).append(row)
    graph = listing.code.graph
    edges = [
        (number, ahead) for number in blocks for ahead in graph.blocks[number].successors if ahead in blocks
    ]
    lines = {number: _lines(rows) for number, rows in blocks.items()}
    sizes = {number: _size(lines[number], _head(rows, listing)) for number, rows in blocks.items()}
    drawn = layered(sizes, edges)
    most = max((sum(row.total for row in rows) for rows in blocks.values()), default=0)
    parts = [_edge(edge, drawn, graph.dominates(edge[1], edge[0])) for edge in edges]
    parts += [
        _box(number, rows, lines[number], listing, drawn, sizes[number], most)
        for number, rows in blocks.items()
    ]
    width, height = drawn.width + 2 * _MARGIN + 40, drawn.height + 2 * _MARGIN + 20
    legend = "blue: loops" + ("; the warmer, the more samples" if most else "")
    title = f"Control flow of {listing.code.short_name}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN:g} {-_MARGIN:g} {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title><style>{_STYLE}</style>'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#525d69"/></marker></defs>'
        f'<rect x="{-_MARGIN:g}" y="{-_MARGIN:g}" width="{width:g}" height="{height:g}" fill="#fff"/>'
        + "".join(parts)
        + f'<text class="dim" x="0" y="{drawn.height + 30:.1f}">{legend}</text></svg>\n'
    )  # fmt: skip


def _lines(rows: Sequence[ListingRow]) -> list[str]:
    """The instructions of a block shown in its box: the sampled ones, and the block's end."""
    if len(rows) <= _MOST_LINES:
        kept = list(rows)
    else:
        ranked = sorted(rows[:-1], key=lambda row: (-row.total, row.index))[: _MOST_LINES - 2]
        kept = [*sorted(ranked, key=lambda row: row.index), rows[-1]]
    shown = [row.text if len(row.text) <= _LONGEST else row.text[: _LONGEST - 1] + "…" for row in kept]
    left = len(rows) - len(kept)
    return [*shown[:-1], f"… {left} more", shown[-1]] if left else shown


def _head(rows: Sequence[ListingRow], listing: Listing) -> str:
    samples = sum(row.total for row in rows)
    share = f"  {samples / listing.samples.total:.0%}" if samples and listing.samples.total else ""
    return f"{rows[0].offset:#06x}  {len(rows)} instr.{share}"


def _size(lines: Sequence[str], head: str) -> Size:
    widest = max(map(len, [*lines, head]))
    return Size(widest * _CHARACTER + 2 * _PADDING, _HEAD + len(lines) * _LINE + _PADDING)


def _box(
    number: int,
    rows: Sequence[ListingRow],
    lines: Sequence[str],
    listing: Listing,
    drawn: GraphLayout,
    size: Size,
    most: int,
) -> str:
    center, top = drawn.places[number]
    left = center - size.width / 2
    share = sum(row.total for row in rows) / most if most else 0.0
    color = "#" + "".join(
        f"{round(cold + (hot - cold) * share):02x}" for cold, hot in zip(_COLD, _HOT, strict=True)
    )
    text = "".join(
        f'<text x="{left + _PADDING:.1f}" y="{top + _HEAD + 10 + at * _LINE:.1f}"'
        f'{_DIM if line.startswith("…") else ""}>{escape(line)}</text>'
        for at, line in enumerate(lines)
    )  # fmt: skip
    kind = "block loop" if rows[0].depth else "block"
    itself = ""
    if number in listing.code.graph.blocks[number].successors:
        right, low = left + size.width, top + size.height
        itself = f'<path class="edge back" marker-end="url(#arrow)" d="M{right - 14:.1f} {low:.1f}v10h26V{top - 10:.1f}h-26v10"/>'
    return (
        f'{itself}<g id="block-{number}"><rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{size.width:.1f}" '
        f'height="{size.height:.1f}" rx="4" fill="{color}"/>'
        f'<text class="head" x="{left + _PADDING:.1f}" y="{top + 14:.1f}">{escape(_head(rows, listing))}</text>{text}</g>'
    )


def _edge(edge: tuple[int, int], drawn: GraphLayout, back: bool) -> str:
    if edge not in drawn.routes:
        return ""
    points = drawn.routes[edge]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + _through(points)
    return f'<path class="edge{" back" if back else ""}" marker-end="url(#arrow)" d="{path}"/>'


def _through(points: Sequence[tuple[float, float]]) -> str:
    path = ""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        straight = x0 == x1 or y0 == y1
        path += (
            f"L{x1:.1f} {y1:.1f}"
            if straight
            else f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        )
    return path
