"""Two iterations aligned by the order of their kernels: what was added, removed and replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from warpsight.analysis.diff.roles import role


@dataclass(frozen=True)
class Stretch:
    """One stretch of the alignment: what happened, the places on both sides, and their device time (ns)."""

    change: str
    before: tuple[int, int]
    after: tuple[int, int]
    time_before: int
    time_after: int


@dataclass(frozen=True)
class Iteration:
    """The kernels of a typical iteration in order, and how long each took (ns)."""

    names: Sequence[str]
    times: Sequence[int]

    def turned_to(self, other: Iteration) -> Iteration:
        """The same iteration, begun where the other begins.

        Turns found by repetition may begin at another kernel of the loop; the longest stretch that both have in common, by role,
        says where.
        """
        one, two = ([role(name) for name in side.names] for side in (other, self))
        if not one or not two:
            return self
        double = two + two
        found = SequenceMatcher(None, one, double, autojunk=False).find_longest_match(
            0, len(one), 0, len(double)
        )
        turn = (found.b - found.a) % len(two)
        return Iteration([*self.names[turn:], *self.names[:turn]], [*self.times[turn:], *self.times[:turn]])


def align(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Stretches (equal, replaced, removed, added) that turn one sequence into the other."""
    words = {"equal": "equal", "replace": "replaced", "delete": "removed", "insert": "added"}
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [(words[tag], a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes()]


def stretches(before: Iteration, after: Iteration, by_role: bool) -> list[Stretch]:
    """Where two iterations differ, by kernel or by role."""
    names = [[role(name) for name in side.names] if by_role else side.names for side in (before, after)]
    return [
        Stretch(change, (a, b), (c, d), sum(before.times[a:b]), sum(after.times[c:d]))
        for change, a, b, c, d in align(*names)
        if change != "equal"
    ]
