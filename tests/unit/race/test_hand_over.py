"""What a hand-over by a flag lacks, in words."""

from __future__ import annotations

import pytest

from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.race.hand_over import Flag
from warpsight.race.suspects import Access
from warpsight.sass.races.accesses import BLOCK, DEVICE

STORE = Access("store", (Frame("k", "k.cu", 5),))
LOAD = Access("load", (Frame("k", "k.cu", 9),))


def repair(
    *, apart: bool, scopes: tuple[int, int], fences: tuple[int, int], others: tuple[bool, bool]
) -> str:
    return Flag("k.cu:6", "k.cu:8", scopes, fences, others, apart).repair(STORE, LOAD)


@pytest.mark.parametrize(
    ("apart", "scopes", "fences", "lacking"),
    [
        (True, (DEVICE, DEVICE), (0, DEVICE), "__threadfence() between the store at k.cu:5 and k.cu:6, which sets the flag"),
        (True, (DEVICE, DEVICE), (BLOCK, DEVICE), "__threadfence() between the store at k.cu:5 and k.cu:6, which sets the flag"),
        (True, (DEVICE, DEVICE), (DEVICE, 0),
         "__threadfence() between k.cu:8, which reads the flag or takes the lock, and the load at k.cu:9"),
        (True, (BLOCK, DEVICE), (DEVICE, DEVICE), "device scope instead of block scope for the atomic at k.cu:6"),
        (False, (BLOCK, BLOCK), (0, BLOCK),
         "__threadfence_block() between the store at k.cu:5 and k.cu:6, which sets the flag"),
        (False, (BLOCK, BLOCK), (BLOCK, BLOCK), "the flag of k.cu:6 and k.cu:8 is set before the store at k.cu:5 is done: "
         "set it after all writes"),
    ],
)  # fmt: skip
def test_the_fence_or_scope_that_is_missing_is_named(
    apart: bool, scopes: tuple[int, int], fences: tuple[int, int], lacking: str
) -> None:
    assert repair(apart=apart, scopes=scopes, fences=fences, others=(False, False)) == lacking


def test_a_warp_that_hands_over_for_others_needs_a_barrier() -> None:
    said = repair(apart=True, scopes=(DEVICE, DEVICE), fences=(0, 0), others=(True, False))
    assert (
        said
        == "__syncthreads() between the store at k.cu:5 and k.cu:6, where another warp of the block hands over"
    )
    python = Access("store", (Frame("k", "k.py", 5),))
    flag = Flag("k.py:6", "k.py:4", (DEVICE, DEVICE), (0, 0), (True, False), True)
    assert "tl.debug_barrier()" in flag.repair(python, python)
