"""Flame graphs as pictures: SVG as text, PNG drawn with Pillow; no browser is needed."""

from __future__ import annotations

from html import escape
from typing import IO, TYPE_CHECKING

from warpsight.errors import WarpsightError
from warpsight.ui.render import numbers, palette
from warpsight.ui.render.flame.layout import boxes

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

    from warpsight.analysis.flame.graph import FlameGraph

#: Pixels.
_ROW, _MARGIN, _HEADER, _FONT = 18, 12, 46, 11
#: Width of a picture, and PNG pixels per SVG pixel.
_WIDTH, _SCALE = 1200, 2
#: Width of a character of the SVG's font, which is monospaced; frames narrower than three of them have no text.
_CHARACTER = 6.62
_LEAST = 0.4
_FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def amount(value: float, unit: str) -> str:
    """Format a weight for people: 1.23 ms, 4.5 GiB, 12,345."""
    return numbers.cell(int(value), unit)


def title_of(graph: FlameGraph) -> tuple[str, str]:
    """Heading and subtitle: the weight, and that the total is conserved."""
    what = {"time": "GPU time", "launches": "Kernel launches", "bytes": "Bytes copied and set",
            "idle": "GPU idle time", "allocated": "Bytes allocated",
            "samples": "Samples of host threads", "pc-samples": "Samples of warps"}[graph.weight]  # fmt: skip
    if graph.differential:
        before, after = (amount(a.shown, graph.unit) for a in graph.accounts)
        return f"{what}, before and after", f"{before} → {after}; red grew, blue shrank; width is after"
    account = graph.accounts[0]
    parts = [f"{amount(account.shown, graph.unit)} of {amount(account.measured, graph.unit)} measured"]
    if account.without_stack and graph.weight != "allocated":
        parts.append(f"{amount(account.without_stack, graph.unit)} without a host stack")
    if account.without_time:
        parts.append(f"{account.without_time:,} kernels never finished and have no time")
    return what, " · ".join(parts)


def fill(graph: FlameGraph, node: int) -> str:
    """Color of a node."""
    if graph.differential:
        return palette.change_color(*(int(t) for t in graph.total[node]))
    return palette.kind_color(graph.kinds[graph.label[node]])


def tip(graph: FlameGraph, node: int) -> str:
    """A node's name and weight on one line."""
    text = graph.labels[graph.label[node]]
    shown = [amount(int(t), graph.unit) for t in graph.total[node]]
    whole = int(graph.total[0, -1]) or 1
    return f"{text}: {' → '.join(shown)} ({int(graph.total[node, -1]) / whole:.2%})"


def svg(graph: FlameGraph) -> str:
    """A standalone SVG without scripts; each frame has a title that viewers show under the pointer."""
    drawn = boxes(graph, _WIDTH - 2 * _MARGIN, _LEAST)
    height = _HEADER + _ROW * (max((b.row for b in drawn), default=0) + 1) + _MARGIN
    heading, told = title_of(graph)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'role="img" aria-label="{escape(heading)}" font-family="{_FAMILY}" font-size="{_FONT}" fill="{palette.INK}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="19" font-size="15" font-weight="600" font-family="system-ui, sans-serif">'
        f"{escape(heading)}</text>",
        f'<text x="{_MARGIN}" y="36" fill="#4a5560" font-family="system-ui, sans-serif">{escape(told)}</text>',
    ]
    if not drawn:
        out.append(f'<text x="{_MARGIN}" y="{_HEADER + 13}">nothing with this weight</text>')
    for box in drawn:
        left, top = _MARGIN + box.left, _HEADER + box.row * _ROW
        text = numbers.shorten(graph.labels[graph.label[box.node]], max(int((box.width - 6) / _CHARACTER), 0))
        label = f'<text x="{left + 3:.1f}" y="{top + 12.5}">{escape(text)}</text>' if len(text) > 2 else ""
        out.append(
            f"<g><title>{escape(tip(graph, box.node))}</title>"
            f'<rect x="{left:.2f}" y="{top}" width="{max(box.width - 0.5, 0.3):.2f}" height="{_ROW - 1}" rx="1.5" '
            f'fill="{fill(graph, box.node)}"/>{label}</g>'
        )
    return "\n".join([*out, "</svg>\n"])


def png(graph: FlameGraph, file: IO[bytes]) -> None:
    """Draw the same picture as PNG, at two pixels per SVG pixel.

    Raises:
        WarpsightError: when Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise WarpsightError(
            'PNG needs Pillow, which is not installed: pip install "warpsight[png]" (SVG and HTML need nothing)'
        ) from None
    drawn = boxes(graph, (_WIDTH - 2 * _MARGIN) * _SCALE, _LEAST * _SCALE)
    height = _HEADER + _ROW * (max((b.row for b in drawn), default=0) + 1) + _MARGIN
    image = Image.new("RGB", (_WIDTH * _SCALE, height * _SCALE), "#ffffff")
    draw = ImageDraw.Draw(image)
    heading, told = title_of(graph)
    draw.text((_MARGIN * _SCALE, 6 * _SCALE), heading, palette.INK, font=_font(15 * _SCALE))
    draw.text((_MARGIN * _SCALE, 26 * _SCALE), told, "#4a5560", font=_font(_FONT * _SCALE))
    font = _font(_FONT * _SCALE)
    for box in drawn:
        left, top = _MARGIN * _SCALE + box.left, (_HEADER + box.row * _ROW) * _SCALE
        right = left + max(box.width - 0.5 * _SCALE, 1)
        draw.rectangle((left, top, right, top + (_ROW - 1) * _SCALE - 1), fill(graph, box.node))
        text = _fitted(graph.labels[graph.label[box.node]], box.width - 6 * _SCALE, draw, font)
        if text:
            draw.text((left + 3 * _SCALE, top + 2 * _SCALE), text, palette.INK, font=font)
    image.save(file, "PNG", optimize=True)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _fitted(
    text: str, room: float, draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont
) -> str:
    """The string, shortened to fit; empty if fewer than three characters would fit."""
    length = draw.textlength(text, font=font) if room > 0 else 0
    while room > 0 and length > room and len(text) > 2:
        text = numbers.shorten(text, max(min(int(len(text) * room / length), len(text) - 1), 2))
        length = draw.textlength(text, font=font)
    return text if room > 0 and len(text) > 2 else ""
