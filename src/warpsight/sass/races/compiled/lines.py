"""Source lines of PTX: `.file` and `.loc` directives, with the calls that were inlined."""

from __future__ import annotations

import re

from warpsight.device_code.demangle import demangle

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(
    r"\.loc (\d+) (\d+) (\d+)(?:, ?function_name ([\w$]+)(?:\+(\d+))?, ?inlined_at (\d+) (\d+) (\d+))?"
)
_NAME = re.compile(r"([\w$]+):((?:\s*\.b8 [0-9, ]+)+)")
_Place = tuple[int, int, int]


class SourceLines:
    """The lines of a module's PTX."""

    def __init__(self, text: str) -> None:
        """Read the directives of a module without comments."""
        self._files = {int(number): path for number, path in _FILE.findall(text)}
        self._names = {
            label: _text(values) for label, values in _NAME.findall(text[max(text.find(".section"), 0) :])
        }
        self._inlined: dict[_Place, tuple[str, _Place]] = {}

    def place(self, directive: str) -> _Place | None:
        """File number, line and column of a `.loc`, whose call is noted; None for other directives and unknown lines."""
        found = _LOC.match(directive)
        if found is None:
            return None
        place = int(found[1]), int(found[2]), int(found[3])
        if found[4]:
            self._inlined[place] = (
                self._names.get(found[4], ""),
                (int(found[6]), int(found[7]), int(found[8])),
            )
        else:
            self._inlined.pop(place, None)
        return place if place[1] else None

    def chain(self, place: _Place | None, function: str) -> list[tuple[str, str, int]]:
        """Function, file and line of each frame, innermost first; `function`: the one whose code it is."""
        frames: list[tuple[str, str, int]] = []
        while place is not None and place[1] and len(frames) < 64:
            name, above = self._inlined.get(place, (function, None))
            frames.append((demangle(name), self._files.get(place[0], ""), place[1]))
            place = above if above != place else None
        return frames


def _text(values: str) -> str:
    """The string that `.b8` directives spell, up to its end."""
    numbers = re.findall(r"\d+", values.replace(".b8", ""))
    return bytes(int(number) & 255 for number in numbers).split(b"\0")[0].decode("utf-8", "replace")
