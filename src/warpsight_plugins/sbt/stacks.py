"""Stacks of SBT events: blobs of numbers in the file, rows of `stack` and `frame` in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsight.formats import varint
from warpsight.formats.varint import Column
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.target import Target
    from warpsight_plugins.sbt.placing import SbtTexts


def frames(blob: bytes) -> list[tuple[int, int, int, int]]:
    """Address, number of the function's and of the file's name, and line of every frame of a stack."""
    count, at = varint.decode_one(blob, 0)
    numbers = []
    for _ in range(4 * count):
        value, at = varint.decode_one(blob, at)
        numbers.append(value)
    return [
        (a, f & 0xFFFF_FFFF, p & 0xFFFF_FFFF, line)
        for a, f, p, line in zip(*[iter(numbers)] * 4, strict=True)
    ]


class StackIds:
    """Ids of stacks by their bytes."""

    def __init__(self, target: Target, texts: SbtTexts) -> None:
        """`texts` returns the string with a given number."""
        self._target = target
        self._texts = texts
        self._ids: dict[bytes, int] = {}

    def ids(self, blobs: list[bytes]) -> Column:
        """The ids of some stacks; SBT lists frames innermost first."""
        for blob in blobs:
            if blob not in self._ids:
                found = [self._frame(*frame) for frame in reversed(frames(blob))]
                self._ids[blob] = self._target.stack(found) or 0
        return np.array([self._ids[blob] for blob in blobs], np.int32)

    def _frame(self, address: int, function: int, file: int, line: int) -> Frame:
        where = self._texts[file] or None
        number = line if 0 < line < 1 << 31 else None
        return (self._texts[function], where, number, address, "native", None)
