"""Frames and kernels that exist on one side only, matched one pair at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.diff.calltree import _ALIKE, _Matching
from warpsight.analysis.diff.roles import role

KERNELS = ("void gemm_a(int)", "ampere_sgemm_128", "softmax_fwd", "softmax_bwd", "copy_kernel")
#: A frame: its kind, where the first work of each of its nodes begins, and the kernels that the first of them launches.
FRAMES = st.tuples(
    st.sampled_from(("python", "native")),
    st.lists(st.integers(0, 5), min_size=1, max_size=2),
    st.lists(st.sampled_from(range(5)), max_size=4),
)
Frame = tuple[str, list[int], list[int]]


class _Tree:
    def __init__(self, parent: list[int], label: list[int]) -> None:
        self.parent, self.label = np.array(parent, np.int64), np.array(label, np.int64)

    def __len__(self) -> int:
        return len(self.parent)


def built(frames: list[Frame]) -> tuple[_Matching, list[list[int]]]:
    """A root with one child per frame, each with its kernels below; the groups are the frames."""
    labels: list[tuple[str, str]] = [("root", "all"), *(("kernel", name) for name in KERNELS)]
    parent, label, position = [-1], [0], [0.0]
    groups = []
    for number, (kind, at, kernels) in enumerate(frames):
        labels.append((kind, f"frame {number}"))
        group = list(range(len(parent), len(parent) + len(at)))
        groups.append(group)
        parent += [0] * len(at) + [group[0]] * len(kernels)
        label += [len(labels) - 1] * len(at) + [1 + kernel for kernel in kernels]
        position += [*map(float, at), *[0.0] * len(kernels)]
    there = np.ones((len(parent), 2), bool)
    return _Matching(cast(Any, _Tree(parent, label)), labels, there, np.array(position)), groups


def overlap(one: list[str], two: list[str]) -> float:
    most = max(len(one), len(two))
    return sum((Counter(one) & Counter(two)).values()) / most if most else 0.0


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(FRAMES, max_size=4), st.lists(FRAMES, max_size=4))
def test_frames_match_by_what_they_launch_the_most_alike_and_the_nearest_first(
    before: list[Frame], after: list[Frame]
) -> None:
    matching, groups = built([*before, *after])
    gone, new = groups[: len(before)], groups[len(before) :]
    found = matching._by_launches(gone, new)
    scored = []
    one, two = (sorted(range(len(side)), key=lambda n: min(side[n][1])) for side in (before, after))
    for a in one:
        for b in two:
            names = [
                [KERNELS[kernel] for kernel in side[place][2]] for side, place in ((before, a), (after, b))
            ]
            alike = max(overlap(*names), overlap(*([role(name) for name in own] for own in names)))
            if before[a][0] == after[b][0] and alike >= _ALIKE:
                scored.append((-alike, abs(min(before[a][1]) - min(after[b][1])), len(scored), a, b))
    expected: list[tuple[int, int]] = []
    for *_, a, b in sorted(scored):
        if all(a != first and b != second for first, second in expected):
            expected.append((a, b))
    assert found == [(gone[a], new[b]) for a, b in expected]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(range(5)), max_size=5), st.lists(st.sampled_from(range(5)), max_size=5))
def test_kernels_match_by_role_in_order(before: list[int], after: list[int]) -> None:
    """As many as can be matched without crossing, and each of its own role."""
    labels = [("root", "all"), *(("kernel", name) for name in KERNELS)]
    every = [*before, *after]
    tree = _Tree([-1] + [0] * len(every), [0, *(1 + kernel for kernel in every)])
    position = np.array([0, *range(len(before)), *range(len(after))], float)
    matching = _Matching(cast(Any, tree), labels, np.ones((len(every) + 1, 2), bool), position)
    gone = [[1 + n] for n in range(len(before))]
    new = [[1 + len(before) + n] for n in range(len(after))]
    found = matching._by_role(gone[::-1], new[::-1])
    places = [(a[0] - 1, b[0] - 1 - len(before)) for a, b in found]
    assert places == sorted(places) and all(
        len(set(column)) == len(places) for column in zip(*places, strict=True)
    )
    roles = [[role(KERNELS[kernel]) for kernel in side] for side in (before, after)]
    assert all(roles[0][a] == roles[1][b] for a, b in places)
    assert bool(places) == bool(set(roles[0]) & set(roles[1]))
