"""Which two accesses of a launch are ordered: scopes of atomics, and threads of a warp."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from warpsight.sass.races import detect
from warpsight.sass.races.accesses import BLOCK, CLUSTER, DEVICE, NO_SCOPE

ONE, OTHER = np.array([0]), np.array([1])


@pytest.mark.parametrize(
    ("scopes", "same_block", "shared", "together"),
    [
        ((DEVICE, DEVICE), False, False, True),
        ((BLOCK, BLOCK), True, False, True),
        ((BLOCK, BLOCK), False, False, False),  # each may keep its sum in its own multiprocessor
        ((BLOCK, DEVICE), False, False, False),
        ((CLUSTER, DEVICE), False, False, True),
        ((BLOCK, BLOCK), False, True, True),  # a block's shared memory, from its cluster
        ((NO_SCOPE, DEVICE), True, False, False),
    ],
)
def test_atomics_of_two_blocks_need_a_scope_wider_than_a_block(
    scopes: tuple[int, int], same_block: bool, shared: bool, together: bool
) -> None:
    own = cast(Any, SimpleNamespace(scope=np.array(scopes), shared=np.array([shared, shared])))
    assert detect._strong_together(own, ONE, OTHER, np.array([same_block])).tolist() == [together]


@pytest.mark.parametrize(
    ("threads", "blocks", "ordered"),
    [((0, 31), (0, 0), True), ((0, 32), (0, 0), False), ((63, 32), (0, 0), True), ((0, 31), (0, 1), False)],
)
def test_a_warps_own_barriers_order_its_32_threads_only(
    monkeypatch: pytest.MonkeyPatch, threads: tuple[int, int], blocks: tuple[int, int], ordered: bool
) -> None:
    """The first access was before a warp barrier, the second behind one."""
    monkeypatch.setattr(detect, "epochs", lambda *_: (np.zeros(2, int), np.array([0, 1])))
    monkeypatch.setattr(detect, "_ordered_by_clocks", lambda *given: np.zeros(len(given[4]), bool))
    none = np.zeros(2, bool)
    own = SimpleNamespace(thread=np.array(threads), block=np.array(blocks), event=np.array([3, 9]), product=none,
                          scope=np.zeros(2, int), shared=none)  # fmt: skip
    given = cast(Any, None)
    assert detect._ordered(given, given, given, cast(Any, own), ONE, OTHER, []).tolist() == [ordered]
