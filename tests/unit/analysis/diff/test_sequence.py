"""Iterations aligned by the order of their kernels."""

from __future__ import annotations

from warpsight.analysis.diff.sequence import Iteration, align, stretches

BEFORE = Iteration(["load", "gemm_a", "softmax", "gemm_b", "adam"], [1, 10, 5, 20, 3])


def found(after: Iteration, by_role: bool = False, renamed: dict[str, str] | None = None):
    return [
        (one.change, one.before, one.after, one.time_before, one.time_after)
        for one in stretches(BEFORE, after, by_role, renamed or {})
    ]


def test_the_same_order_has_no_differences():
    assert found(BEFORE) == [] and found(BEFORE, by_role=True) == []


def test_what_was_added_removed_and_replaced_has_its_places_and_times():
    after = Iteration(
        ["load", "gemm_a", "dropout", "softmax", "gelu", "adam", "clip"], [1, 10, 4, 5, 7, 3, 2]
    )
    assert found(after) == [
        ("added", (2, 2), (2, 3), 0, 4),
        ("replaced", (3, 4), (4, 5), 20, 7),
        ("added", (5, 5), (6, 7), 0, 2),
    ]
    assert align("abc", "ac") == [("equal", 0, 1, 0, 1), ("removed", 1, 2, 1, 1), ("equal", 2, 3, 1, 2)]


def test_a_kernel_with_another_name_keeps_its_place():
    after = Iteration(["load", "gemm_a", "softmax_v2", "gemm_b", "adam"], [1, 10, 4, 20, 3])
    same = {"softmax": "softmax → softmax_v2", "softmax_v2": "softmax → softmax_v2"}
    assert found(after, renamed=same) == [("replaced", (2, 3), (2, 3), 5, 4)]
    assert found(after, by_role=True) == []


def test_turns_are_rotated_to_begin_alike():
    turned = Iteration([*BEFORE.names[3:], *BEFORE.names[:3]], [*BEFORE.times[3:], *BEFORE.times[:3]])
    assert turned.turned_to(BEFORE) == BEFORE
    assert BEFORE.turned_to(Iteration([], [])) is BEFORE
