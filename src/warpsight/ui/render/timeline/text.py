"""The timeline as lines of text: a row per device and stream, a character per bin, readable from 40 to 200 columns."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from warpsight.analysis.stats.overview import Lane, Picture

#: From nothing to busy all the time.
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*%#"
#: Kind of work → style of rich, distinguishable without color vision and on dark and light terminals.
STYLES = {"kernel": "bright_blue", "communication": "magenta", "copy": "yellow", "set": "green"}
_SHARE = 7
_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


@dataclass(frozen=True)
class _LaneCell:
    """One character of a lane (as many as it is tall, from the top) and the kind of work it represents, "" for none."""

    text: str
    kind: str


@dataclass(frozen=True)
class _DrawnWindow:
    """A drawn window: `label` is the width of the labels; `lanes` are rows of cells, all of equal length.

    `busy` is each lane's share of the window that is covered.
    """

    begin: int
    end: int
    label: int
    axis: str
    labels: tuple[str, ...]
    lanes: tuple[tuple[_LaneCell, ...], ...]
    busy: tuple[float, ...]

    @property
    def columns(self) -> int:
        """Bins of the window."""
        return len(self.axis)


def _label_width(width: int, longest: int) -> int:
    """Columns of labels: the longest label, at most three tenths of the width, so that 40 columns show a picture."""
    return min(max(min(width * 3 // 10, longest), 10), 32)


def frame(
    picture: Picture, begin: int, end: int, width: int, *, ascii_only: bool = False, tall: int = 1
) -> _DrawnWindow:
    """Draw a window of a picture on `width` columns: label, cells of `tall` lines, busy share."""
    label = _label_width(
        width, max((len(lane.label) + 2 * (lane.stream is not None) for lane in picture.lanes), default=0)
    )
    columns = max(width - label - _SHARE - 2, 8)
    busy, name = picture.bins(begin, max(end, begin + 1), columns)
    glyphs = ASCII if ascii_only else BLOCKS
    lanes = tuple(
        tuple(
            _LaneCell(
                _stacked(glyphs, min(-int(-share * 8 * tall // 1), 8 * tall), tall),
                _kind(picture, which) if share > 0 else "",
            )
            for share, which in zip(shares, names, strict=True)
        )
        for shares, names in zip(busy.tolist(), name.tolist(), strict=True)
    )
    return _DrawnWindow(
        begin, end, label, axis(begin - picture.origin, end - picture.origin, columns),
        tuple(_lane_label(lane, label) for lane in picture.lanes), lanes, tuple(float(b) for b in busy.mean(axis=1)),
    )  # fmt: skip


def _stacked(glyphs: str, level: int, tall: int) -> str:
    """A bar of some eighths of a line, spread over as many lines as it is tall, from the top."""
    return "".join(glyphs[min(max(level - 8 * line, 0), 8)] for line in reversed(range(tall)))


def _kind(picture: Picture, name: int) -> str:
    from warpsight.model.work import KINDS

    return KINDS[picture.kinds[name]]


def _lane_label(lane: Lane, width: int) -> str:
    """A lane's label on `width` columns: the number first, then as much of the name as fits."""
    label = terminal.printable(lane.label)
    if lane.stream is None:
        return label if len(label) <= width else label[: width - 1] + "…"
    text = f"  {label}"
    if len(text) <= width:
        return text
    short = f"  s{lane.stream}"
    if lane.process is not None and " · process " in lane.label:
        short += f" p{lane.process}"
    return short[:width]


def axis(begin: int, end: int, columns: int) -> str:
    """Times under the bins in the form that options accept: as many as fit, at round numbers, since the trace's start."""
    span = max(end - begin, 1)
    step = _round_step(span / max(columns // 14, 1))
    text = _ticks(begin, end, columns, step)
    while text.count("s") < 2 and step > 1:  # one time is not a scale
        step = _round_step(step / 4)
        finer = _ticks(begin, end, columns, step)
        text = finer if finer.count("s") > text.count("s") else text
    return text


def _ticks(begin: int, end: int, columns: int, step: int) -> str:
    scale, unit = next((s, u) for s, u in _UNITS if (end >= s and step * 10_000 >= s) or s == 1)
    digits = 0
    while step * 10**digits % scale and digits < 9:
        digits += 1
    out = [" "] * columns
    at = -(-begin // step) * step
    while at <= end:
        text = f"{at / scale:.{digits}f}{unit}"
        place = (at - begin) * columns // max(end - begin, 1)
        around = out[max(place - 1, 0) : place + len(text) + 1]
        if place + len(text) <= columns and all(c == " " for c in around):
            out[place : place + len(text)] = text
        at += step
    return "".join(out)


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5 times a power of ten that is at least this large."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def plain(picture: Picture, begin: int, end: int, width: int, *, ascii_only: bool = False) -> str:
    """The whole timeline as text, with a legend."""
    if not picture.lanes:
        return "no device work\n"
    drawn = frame(picture, begin, end, width, ascii_only=ascii_only)
    out = [f"{'':{drawn.label}} {drawn.axis}"]
    for label, cells, share in zip(drawn.labels, drawn.lanes, drawn.busy, strict=True):
        out.append(f"{label:{drawn.label}} {''.join(c.text for c in cells)} {share:{_SHARE - 1}.1%}".rstrip())
    if picture.merged:
        out += textwrap.wrap(
            f"{picture.merged} streams that did least are drawn in their device's row only", width
        )
    bin_width = numbers.duration((end - begin) / max(drawn.columns, 1))
    legend = f"one character is {bin_width}; its height is the share of it that was busy"
    out += textwrap.wrap(legend, width)
    return "\n".join(line.rstrip() for line in out) + "\n"
