"""Numbers strings and stacks in the order in which a file's events first use them."""

from __future__ import annotations

import numpy as np

from warpsight.formats.varint import encode_one
from warpsight_plugins.sbt.collecting import Collected, RawFrame
from warpsight_plugins.sbt.distinct import first_uses
from warpsight_plugins.sbt.events import SbtEvents


class StringTable:
    """The string table of a file that is being written."""

    def __init__(self, given: list[str] | None) -> None:
        """`given` is a table to keep; missing strings are appended."""
        self._numbers: dict[str, int] = {}
        self._given = given or []
        for number, text in enumerate(self._given):
            self._numbers.setdefault(text, number)
        self._texts = list(self._given)

    @property
    def listed(self) -> list[bytes]:
        """All strings by number."""
        return [text.encode("utf-8", "surrogateescape") for text in self._texts]

    def _number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return number

    def numbered(self, found: Collected) -> SbtEvents:
        """The events with strings and stacks by number."""
        names, first = first_uses(found.events.name)
        uses: list[tuple[int, int, int]] = [
            (at, 0, i) for i, at in zip(names.tolist(), first.tolist(), strict=True)
        ]
        if len(found.events.stack_rows):
            stacks, at = first_uses(found.events.stack)
            places = found.events.stack_rows[at].tolist()
            uses += [(place, 1, i) for i, place in zip(stacks.tolist(), places, strict=True)]
        name_of = np.zeros(len(found.texts.places) + 1, np.uint64)
        texts = list(found.texts.places)
        blobs = [b""] * len(found.stacks)
        for _, is_stack, i in sorted(uses):
            if is_stack:
                blobs[i] = self._blob(found.stacks[i])
            else:
                name_of[i] = self._number(texts[i])
        found.events.name = name_of[found.events.name.astype(np.int64)]
        found.events.blobs = blobs
        return found.events

    def _blob(self, frames: tuple[RawFrame, ...]) -> bytes:
        out = [encode_one(len(frames))]
        for address, function, file, line in frames:
            numbers = (address, self._number(function), self._number(file), line)
            out += [encode_one(number) for number in numbers]
        return b"".join(out)
