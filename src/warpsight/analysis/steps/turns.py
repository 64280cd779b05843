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
        announced: The program or its framework says where turns begin; else repetition does.
        sure: A mark or a framework's own step says so.
        weak: No wait of the host marks the turns of a repetition.
        uneven: Turns differ in size by nature.
        anyhow: The turns are ranges with one name that does not say that they are turns.
    """

    source: str
    of_launch: Column
    label: list[str]
    announced: bool = True
    sure: bool = False
    weak: bool = False
    anyhow: bool = False
    uneven: bool = False
