"""Two iterations aligned by kernel order: what was added, removed or replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from warpsight.analysis.diff.roles import role


@dataclass(frozen=True)
class _AlignedStretch:
    """One stretch of the alignment: what happened, the places on both sides, and their device time (ns)."""

    change: str
    before: tuple[int, int]
    after: tuple[int, int]
    time_before: int
    time_after: int


@dataclass(frozen=True)
class Iteration:
    """The kernels of a typical iteration in order, and the duration of each (ns)."""

    names: Sequence[str]
    times: Sequence[int]

    def turned_to(self, other: Iteration) -> Iteration:
        """The same iteration, rotated so that it begins where the other one does.

        Iterations found by repetition may begin at different kernels of the loop. The longest stretch that both have in common,
        by role, tells where.
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


def stretches(
    before: Iteration, after: Iteration, by_role: bool, renamed: Mapping[str, str]
) -> list[_AlignedStretch]:
    """Where two iterations differ, by kernel or by role.

    Kernels that `renamed` gives one name stand for each other: they keep their place in the alignment and count as replaced.
    """
    keys = [
        [role(name) if by_role else renamed.get(name, name) for name in side.names]
        for side in (before, after)
    ]
    aligned = align(*keys)
    found = [
        _AlignedStretch(change, (a, b), (c, d), sum(before.times[a:b]), sum(after.times[c:d]))
        for change, a, b, c, d in aligned
        if change != "equal"
    ]
    return found if by_role else [*found, *_replaced(before, after, aligned)]


def _replaced(
    before: Iteration, after: Iteration, aligned: list[tuple[str, int, int, int, int]]
) -> Iterator[_AlignedStretch]:
    """Kernels that were replaced by a different one in the same position."""
    for change, a, b, c, _ in aligned:
        if change == "equal":
            for one, two in zip(range(a, b), range(c, c + b - a), strict=True):
                if before.names[one] != after.names[two]:
                    yield _AlignedStretch(
                        "replaced", (one, one + 1), (two, two + 1), before.times[one], after.times[two]
                    )
