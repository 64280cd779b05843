"""What flags, fences and their scopes order, between warps of a block and between blocks."""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.formats.events.kinds import BY_NAME
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import TracedLaunch
from warpsight.sass.races.accesses import BLOCK, DEVICE, SYSTEM, scope_of
from warpsight.sass.races.order import Strong, VectorClocks

FLAG = 7


def ordered(steps: list[tuple[int, str, int]], *, blocks: int) -> bool:
    """Whether warp 0's `data` access happens before warp 1's, after (warp, what, scope) in this order; two warps in all.

    What: `data`, `set`, `read` or `swap` the flag; a `fence` is in the code before the warp's next event.
    """
    own: list[tuple[int, str, int]] = []
    fences: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for warp, what, scope in steps:
        if what == "fence":
            waiting[warp] = scope
            continue
        if warp in waiting:
            fences[len(own)] = waiting.pop(warp)
        own.append((warp, what, scope))
    count = len(own)
    warps = np.array([warp for warp, _, _ in own])
    zeros = np.zeros(count, np.int64)
    events = Events(
        ring=zeros, sequence=np.arange(count), launch=zeros, block=warps if blocks == 2 else zeros,
        warp=zeros if blocks == 2 else warps, kind=np.full(count, BY_NAME["global"].number), flags=zeros, size=zeros,
        lanes=np.ones(count, np.int64), pc=zeros, sm=zeros, time=zeros, encodings=zeros, offset=zeros,
        words=np.zeros(1, np.uint64),
    )  # fmt: skip
    launch = TracedLaunch(0, 0, "k", (blocks, 1, 1), (32 if blocks == 2 else 64, 1, 1), (1, 1, 1), {})
    clocks = VectorClocks(launch, events)
    strong = {
        at: [Strong(FLAG, scope, what != "set", what != "read")]
        for at, (_, what, scope) in enumerate(own)
        if what != "data"
    }
    clocks.follow(strong, lambda event: fences.get(event, 0))
    first = next(at for at, (warp, what, _) in enumerate(own) if (warp, what) == (0, "data"))
    second = max(at for at, (warp, what, _) in enumerate(own) if (warp, what) == (1, "data"))
    return bool(clocks.before(np.array([first]), np.array([second]))[0])


def hand_over(release: int, flag: int, acquire: int, *, blocks: int, how: str = "read") -> bool:
    """Data, fence, flag by warp 0; flag, fence, data by warp 1; a scope of 0 leaves the fence out."""
    steps = [(0, "data", 0), (0, "fence", release), (0, "set", flag)]
    steps += [(1, how, flag), (1, "fence", acquire), (1, "data", 0)]
    return ordered([step for step in steps if step[1] != "fence" or step[2]], blocks=blocks)


def test_two_blocks_need_a_fence_of_the_device_on_both_sides() -> None:
    assert hand_over(DEVICE, DEVICE, DEVICE, blocks=2)
    assert hand_over(DEVICE, SYSTEM, DEVICE, blocks=2)
    assert not hand_over(0, DEVICE, DEVICE, blocks=2)
    assert not hand_over(DEVICE, DEVICE, 0, blocks=2)
    assert not hand_over(BLOCK, DEVICE, DEVICE, blocks=2)
    assert not hand_over(DEVICE, DEVICE, BLOCK, blocks=2)
    assert not hand_over(DEVICE, BLOCK, DEVICE, blocks=2)


def test_within_a_block_the_side_that_sets_the_flag_needs_a_fence() -> None:
    assert hand_over(BLOCK, BLOCK, BLOCK, blocks=1)
    assert hand_over(BLOCK, DEVICE, 0, blocks=1)
    assert hand_over(BLOCK, BLOCK, 0, blocks=1, how="swap")
    assert not hand_over(0, BLOCK, BLOCK, blocks=1)


def test_who_only_reads_a_flag_hands_nothing_on() -> None:
    steps = [(0, "data", 0), (0, "fence", DEVICE), (0, "read", DEVICE), (1, "read", DEVICE)]
    assert not ordered([*steps, (1, "fence", DEVICE), (1, "data", 0)], blocks=2)


def test_what_is_done_behind_the_fence_is_not_handed_on() -> None:
    steps = [(0, "fence", DEVICE), (0, "data", 0), (0, "set", DEVICE), (1, "read", DEVICE)]
    assert not ordered([*steps, (1, "fence", DEVICE), (1, "data", 0)], blocks=2)


def test_a_read_that_was_recorded_just_before_the_write_that_it_saw_counts() -> None:
    steps = [(0, "data", 0), (1, "read", DEVICE), (0, "fence", DEVICE), (0, "set", DEVICE)]
    assert ordered([*steps, (1, "fence", DEVICE), (1, "data", 0)], blocks=2)


@pytest.mark.parametrize(
    ("sass", "scope"),
    [
        ("LDG.E.STRONG.SYS R0, desc[UR4][R2.64]", SYSTEM),  # of a volatile
        ("ST.E.STRONG.SYS desc[UR4][R2.64], R0", SYSTEM),
        ("LDG.E.STRONG.SM R2, desc[UR4][R2.64]", BLOCK),
        ("ATOMG.E.EXCH.STRONG.GPU PT, R0, desc[UR4][R2.64], RZ", DEVICE),
        ("MEMBAR.SC.CTA", BLOCK),
        ("MEMBAR.ALL.GPU", DEVICE),
        ("LDG.E R0, desc[UR4][R2.64]", 0),
    ],
)
def test_scopes_are_those_of_the_machine_code(sass: str, scope: int) -> None:
    assert scope_of(sass, False, False) == scope
