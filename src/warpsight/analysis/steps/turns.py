"""Iterations of a loop from the launches' point of view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Turns:
    """For each launch, in time order, the number of its turn.

    Attributes:
        source: How the loop was found, in words.
        of_launch: Number of the turn, -1 for launches in none.
        label: Text of each turn, or "".
        announced: Whether the program or its framework says where turns begin; otherwise repetition does.
        sure: Whether a mark or a framework's own step says so.
        weak: Whether no wait of the host marks the turns of a repetition.
        uneven: Whether turns differ in size by nature.
        anyhow: Whether the turns are ranges whose common name does not suggest a loop.
    """

    source: str
    of_launch: Column
    label: list[str]
    announced: bool = True
    sure: bool = False
    weak: bool = False
    anyhow: bool = False
    uneven: bool = False
