"""Numbers as people read them: three to four digits and a unit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import IO

_WITH_UNIT = re.compile(r"(\d) ((?:[nµm]?s|h|min|%|[KMGTP]iB|[kMGT]?B/s|[kMGTP]?FLOP(?:\/[sB])?|B|MHz|W)\b)")
#: Folders of a path that ends in a file and its line; one folder that was shortened already is not a match.
_FOLDERS = re.compile(r"(?<![^\s(])(?!…/[^/\s()]*:\d)[^\s()]*/(?=[^/\s()]+:\d)")
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(ns: float) -> str:
    """Format a duration: 1.23 ms, 45.6 µs, 890 ns, 12.3 s, 2 h 05 min."""
    size = abs(ns)
    if size >= 3_600e9:
        return f"{int(ns // 3_600e9)} h {int(ns % 3_600e9 // 60e9):02d} min"
    for limit, scale, unit in ((1e9, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs")):
        if size >= limit * 0.9995:
            return f"{_digits(ns / scale)} {unit}"
    return f"{ns:.0f} ns" if size >= 10 or ns == int(ns) else f"{ns:.1f} ns"


def size(count: float) -> str:
    """Format a size: 512 B, 1.50 KiB, 3.25 GiB."""
    unit = 0
    while abs(count) >= 1023.5 and unit < len(_BYTES) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{_digits(count)} {_BYTES[unit]}"


def rate(per_second: float) -> str:
    """Format bytes per second in decimal units, as data sheets do: 38.8 GB/s."""
    for scale, unit in ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if abs(per_second) >= scale:
            return f"{_digits(per_second / scale)} {unit}"
    return f"{per_second:.0f} B/s"


def operations(count: float) -> str:
    """Format floating-point operations in decimal units: 12.3 TFLOP."""
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= scale * 0.9995:
            return f"{_digits(count / scale)} {prefix}FLOP"
    return f"{count:.0f} FLOP"


def count(value: float, stream: IO[str]) -> str:
    """A number formatted for a stream: digits grouped in threes on a terminal, plain in a pipe or file."""
    return cell(value, grouped=stream.isatty())


def cell(value: object, unit: str = "", *, grouped: bool = True) -> str:
    """A table cell, empty for None; `grouped` puts the digits of a number without a unit into groups of three."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if unit == "ns":
            return duration(value)
        if unit == "B":
            return size(value)
        if unit == "B/s":
            return rate(value)
        if unit in ("FLOP", "FLOP/s"):
            return operations(value) + unit.removeprefix("FLOP")
        if unit == "FLOP/B":
            return _digits(value)
        if unit == "%":
            return f"{value:.1f}%"
        comma = "," if grouped else ""
        return f"{value:{comma}}" if isinstance(value, int) else f"{value:{comma}.6g}"
    return str(value)


def unbroken(text: str) -> str:
    """The string with a non-breaking space between each number and its unit."""
    return _WITH_UNIT.sub("\\1\u00a0\\2", text)


def _digits(value: float) -> str:
    """Three significant digits, never an exponent."""
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def near(text: str, root: str = "") -> str:
    """Shorten paths below the working directory (or `root`) to relative ones, which terminals link."""
    try:
        return text.replace(f"({root or os.getcwd()}/", "(")
    except FileNotFoundError:  # the working directory was removed
        return text


def shorten_paths(text: str, width: int) -> str:
    """Text of at most `width` characters: paths lose folders from the left but keep file and line; then the end is cut."""
    while len(text) > width and (found := max(_FOLDERS.findall(text), key=len, default="")):
        text = text.replace(found, "…/", 1)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def shorten(text: str, width: int) -> str:
    """A string cut in the middle to `width` characters: both ends of a kernel's name identify it."""
    if len(text) <= width:
        return text
    if width < 5:
        return text[: max(width, 0)]
    head = (width - 1) * 3 // 5
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def shorten_apart(texts: Sequence[str], width: int) -> list[str]:
    """Each string in at most `width` characters; strings that would look alike are cut so that their difference shows."""
    shown = {text: shorten(text, width) for text in texts}
    while width >= 12:
        alike: dict[str, list[str]] = {}
        for text, short in shown.items():
            alike.setdefault(short, []).append(text)
        if len(alike) == len(shown):
            break
        tried = dict(shown)
        for group in alike.values():
            if len(group) > 1:
                place = _common(group)
                tried.update((text, _around(text, place, width)) for text in group)
        if len(set(tried.values())) <= len(alike):
            break  # the rest cannot be told apart
        shown = tried
    return [shown[text] for text in texts]


def _common(texts: Iterable[str]) -> int:
    """The length of the strings' common prefix."""
    least, most = min(texts), max(texts)
    return next(
        (i for i, pair in enumerate(zip(least, most, strict=False)) if pair[0] != pair[1]), len(least)
    )


def _around(text: str, place: int, width: int) -> str:
    """The start of a string and the part around a position."""
    head = (width - 2) * 2 // 5
    begin = max(place - 3, head)
    rest = text[begin : begin + width - head - 1]
    more = begin + len(rest) < len(text)
    return f"{text[:head]}…{rest[:-1]}…" if more else f"{text[:head]}…{rest}"


def capitalized(text: str, name: str | None = None) -> str:
    """The string with a capital letter, unless it begins with `name` or with what looks like a kernel or a function."""
    first = text.split(" ", 1)[0].rstrip(",:;.")
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() and first != name else text
