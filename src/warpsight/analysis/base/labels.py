"""Numbering of labels: (kind, string) pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class NumberedLabels:
    """Distinct (kind, string) pairs, numbered in order of first appearance."""

    numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def __call__(self, kind: str, text: str) -> int:
        """The number of a pair."""
        return self.numbers.setdefault((kind, text), len(self.numbers))

    def all(self, kind: str, texts: Iterable[str]) -> NDArray[np.int32]:
        """The numbers of several strings of one kind."""
        return np.array([self(kind, text) for text in texts], np.int32)
