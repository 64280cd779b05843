"""Explanations of hangs on synthetic dumps: who waits for whom, who comes first, and blocks that are missing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.debug.synthetic_hang import (
    CLUSTER_WAIT,
    ENTRY,
    SHARED,
    WARP_BARRIER,
    Block,
    Hang,
    Stand,
    barrier,
    build,
    cubin,
    mbarrier,
    phase_check,
)
from warpsight.debug.core_verdict import sentence
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.summary import SummaryOptions, View
from warpsight.debug.gpucore.waiting.order import components
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.polling import Poll, poll_of
from warpsight.ui.render.dump import summary as page

FLAG = 0x7FAB_0000_1200


def polling(kernel: str) -> Poll:
    """The polling loop of a kernel of tests/golden/cubins/polls.cu."""
    code = Cubin(cubin(), "polls")
    section = code.section_of(kernel)
    assert section is not None
    flow = ControlFlow(code.instructions(section), code.architecture)
    loops = (flow.loop_around(index) for index in range(len(flow.words)))
    return next(poll for loop in loops if loop is not None and (poll := poll_of(flow, loop)) is not None)


def spinning(kernel: str, lanes: Iterable[int] = range(32), value: int = 0, address: int = FLAG) -> Stand:
    """Lanes in a kernel's polling loop, that last read a value."""
    poll = polling(kernel)
    assert poll.value is not None
    known = {poll.register: address & 0xFFFFFFFF, poll.register + 1: address >> 32, poll.value: value}
    return Stand(poll.index, tuple(lanes), registers=known)


def summary(hang: Hang, folder: Path) -> dict[str, Any]:
    path = folder / "core"
    path.write_bytes(build(hang))
    core = GpuCore.open(path)
    assert core.problems == []
    return View(core, SummaryOptions(instructions=False)).document()


#: Instructions of `flag` behind its loop that tests replace by barriers.
FIRST, SECOND = 10, 14


def one_block(warps: list[list[Stand]], code: dict[int, bytes]) -> Hang:
    return Hang("flag", (1, 1, 1), (32 * len(warps), 1, 1), [Block(0, (0, 0, 0), warps)], code=code)


def held(at: int, lanes: Iterable[int] = range(32), active: bool = True) -> Stand:
    """Lanes that a barrier at an instruction holds: the counter is behind it."""
    return Stand(at + 1, tuple(lanes), active)


def test_a_warp_that_spins_comes_before_the_many_that_wait_for_it(tmp_path: Path) -> None:
    warps = [[held(FIRST)] for _ in range(7)]
    warps.insert(3, [spinning("flag")])
    found = summary(one_block(warps, {FIRST: barrier(0)}), tmp_path)
    assert [place["lanes"] for place in found["places"]] == [32, 7 * 32]
    (root,), (waiter,) = found["roots"], found["chain"]
    assert root["why"] == "memory" and root["text"].startswith("warp 3 spins on a value in global memory")
    assert f"last read 0x0 from {FLAG:#x}" in root["text"]
    assert waiter["text"].startswith("7 warps wait for it") and waiter["text"].endswith(
        "at barrier 0 of the block"
    )
    assert waiter["waits_for"] == [{"place": 0, "certain": True}]


def test_a_chain_of_barriers_is_told_from_its_end(tmp_path: Path) -> None:
    warps = [[held(SECOND)]] * 3 + [[held(FIRST)]] * 2 + [[spinning("flag")]]
    found = summary(one_block(warps, {FIRST: barrier(1, 96), SECOND: barrier(0)}), tmp_path)
    assert [place["wait"] for place in found["places"]] == ["memory", "barrier", "barrier"]
    assert [(part["place"], [edge["place"] for edge in part["waits_for"]]) for part in found["chain"]] == [
        (1, [0]),
        (2, [0, 1]),
    ]


def test_a_barrier_that_counts_a_warp_which_has_exited_is_the_cause(tmp_path: Path) -> None:
    warps: list[list[Stand]] = [[held(FIRST)], [held(FIRST)], [], [held(SECOND)], [held(SECOND, range(31))]]
    found = summary(one_block(warps, {FIRST: barrier(1, 96), SECOND: barrier(0)}), tmp_path)
    (root,), (waiter,) = found["roots"], found["chain"]
    assert root["why"] == "count"
    assert root["text"].startswith("warps 0 and 1 wait")
    assert root["text"].endswith(
        "for barrier 1 of 96 threads, which no thread is left to complete: 64 of 96 threads wait there, "
        "33 of the block's 160 threads have exited, the others wait for these"
    )
    assert waiter["text"].startswith("warps 3 and 4 wait for them")


def test_a_barrier_for_more_threads_than_the_block_has_is_the_cause(tmp_path: Path) -> None:
    found = summary(one_block([[held(FIRST)], [held(FIRST)]], {FIRST: barrier(2, 128)}), tmp_path)
    (root,) = found["roots"]
    assert root["text"].endswith("no thread is left to complete: it counts 128 threads, and the block has 64")


def test_threads_that_only_arrived_are_not_said_to_be_missing(tmp_path: Path) -> None:
    code = {FIRST: barrier(1, 128), SECOND: barrier(0), 12: barrier(1, 128, arrive=True)}
    warps = [[held(FIRST)], [held(FIRST)], [held(SECOND)], [held(SECOND)]]
    (root, *_) = summary(one_block(warps, code), tmp_path)["roots"]
    assert root["why"] == "count" and "others may have arrived without waiting" in root["text"]


def test_two_barriers_that_need_each_others_warps_wait_for_each_other(tmp_path: Path) -> None:
    code = {FIRST: barrier(1, 128), SECOND: barrier(2, 128)}
    found = summary(one_block([[held(FIRST)]] * 3 + [[held(SECOND)]], code), tmp_path)
    assert [root["why"] for root in found["roots"]] == ["mutual", "mutual"] and found["chain"] == []
    assert found["roots"][1]["text"].endswith("(1) and (2) wait for each other")


def test_warps_of_another_block_hold_nobody(tmp_path: Path) -> None:
    blocks = [Block(0, (0, 0, 0), [[held(FIRST)], [spinning("flag")]]), Block(1, (1, 0, 0), [[held(FIRST)]])]
    found = summary(Hang("flag", (2, 1, 1), (64, 1, 1), blocks, code={FIRST: barrier(0)}), tmp_path)
    # Block 1 has one warp left, which is at the barrier: it waits for nobody.
    assert found["roots"][0]["why"] == "memory"
    assert found["chain"][0]["waits_for"] == [{"place": 0, "certain": True}]


def test_lanes_of_a_warp_that_have_not_come_to_its_barrier_hold_the_others(tmp_path: Path) -> None:
    stands = [spinning("flag", range(16)), Stand(FIRST, range(16, 32), active=False)]
    found = summary(one_block([stands, [held(SECOND)]], {FIRST: WARP_BARRIER, SECOND: barrier(0)}), tmp_path)
    assert [(place["wait"], place["lanes"]) for place in found["places"]] == [
        ("memory", 16), ("warp", 16), ("barrier", 32)
    ]  # fmt: skip
    assert [edge["place"] for edge in found["chain"][1]["waits_for"]] == [0, 1]


def test_a_block_that_spins_holds_the_cluster_and_no_other(tmp_path: Path) -> None:
    waits = [[Stand(FIRST)]]
    blocks = [Block(n, (n, 0, 0), [[spinning("flag")]] if n == 3 else waits) for n in range(4)]
    hang = Hang("flag", (4, 1, 1), (32, 1, 1), blocks, cluster=(2, 1, 1), code={FIRST: CLUSTER_WAIT})
    (root,), (waiter,) = (summary(hang, tmp_path)[key] for key in ("roots", "chain"))
    assert root["text"].startswith("warp 0 of block (3,0,0) spins")
    assert waiter["text"].startswith("warp 0 of 3 of 4 blocks waits for it")


def phases(warps: int, word: bytes, more: list[list[Stand]]) -> Hang:
    """Warps that wait for phase 0 of the mbarrier at the beginning of shared memory."""
    waiting = [[Stand(FIRST + 1, registers={4: SHARED, 5: 0})]] * warps
    blocks = [Block(0, (0, 0, 0), [*waiting, *more], word)]
    return Hang("flag", (1, 1, 1), (32 * (warps + len(more)), 1, 1), blocks, code={FIRST: phase_check(4, 5)})


def test_an_mbarrier_that_counts_too_many_is_the_cause_when_everybody_waits(tmp_path: Path) -> None:
    (root,) = summary(phases(3, mbarrier(128, 32), []), tmp_path)["roots"]
    assert root["why"] == "mbarrier"
    assert root["text"].endswith(
        "for phase 0 of the mbarrier at shared 0x400, of which 32 of 128 arrivals are missing, "
        "and every thread of the block waits"
    )


def test_an_mbarrier_may_wait_for_a_warp_that_spins(tmp_path: Path) -> None:
    found = summary(phases(3, mbarrier(4, 1), [[spinning("flag")]]), tmp_path)
    (waiter,) = found["chain"]
    assert found["roots"][0]["why"] == "memory"
    assert (
        waiter["text"].startswith("warps 0 to 2 may wait for it")
        and "1 of 4 arrivals is missing" in waiter["text"]
    )
    assert waiter["waits_for"] == [{"place": 0, "certain": False}]


def test_an_mbarrier_that_lacks_only_bytes_waits_for_copies(tmp_path: Path) -> None:
    (root,) = summary(phases(2, mbarrier(1, 0, copies=3072), []), tmp_path)["roots"]
    assert root["why"] == "copies" and "3,072 bytes of asynchronous copies are missing" in root["text"]


def test_an_mbarrier_whose_phase_is_complete_holds_nobody(tmp_path: Path) -> None:
    (root,) = summary(phases(2, mbarrier(2, 2, parity=1), []), tmp_path)["roots"]
    assert root["why"] == "passing" and "about to go on" in root["text"]


def grid(kernel: str, blocks: int, resident: Iterable[tuple[int, int]], value: int, **more: Any) -> Hang:
    """A one-dimensional grid of one warp each, spinning; `resident`: multiprocessor and number of those on the device."""
    warps = [[spinning(kernel, value=value)]]
    return Hang(
        kernel, (blocks, 1, 1), (32, 1, 1), [Block(sm, (n, 0, 0), warps) for sm, n in resident], **more
    )


def test_blocks_that_do_not_fit_are_said_to_be_waited_for(tmp_path: Path) -> None:
    found = summary(grid("counter", 600, [(n % 132, n) for n in range(264)], 264), tmp_path)
    (missing,) = found["missing_blocks"]
    assert missing["text"] == (
        "264 of 600 blocks are on the device, and each of them polls memory. The other 336 cannot start before one of these "
        "ends, and these wait for a count that includes them: it is at 264 of 600. A cooperative launch "
        "(cudaLaunchCooperativeKernel) refuses a grid that does not fit."
    )
    assert (missing["ended"], missing["not_started"], missing["free_multiprocessors"]) == (0, 336, 0)
    assert found["explanation"][0] == missing["text"]
    assert "264 of 600 blocks are on the device" in sentence(found)
    lines = list(page.lines(found))
    assert lines.index(f"  {missing['text']}") < next(
        n for n, line in enumerate(lines) if line.startswith("  (1)")
    )


def test_where_a_multiprocessor_has_room_the_last_block_has_ended(tmp_path: Path) -> None:
    found = summary(grid("counter", 6, [(n, n) for n in range(5)], 5), tmp_path)
    (missing,) = found["missing_blocks"]
    assert (missing["ended"], missing["not_started"], missing["free_multiprocessors"]) == (1, 0, 127)
    assert missing["text"] == (
        "5 of 6 blocks are on the device, and each of them polls memory. Block (5,0,0) has ended (127 multiprocessors have "
        "room for more), without being counted: the count that the others poll is at 5 of 6."
    )


def test_a_block_that_ended_makes_room_for_one_that_had_not_started(tmp_path: Path) -> None:
    found = summary(
        grid("counter", 12, [(n % 4, n) for n in (0, 1, 3, 4, 5, 6, 7)] + [(2, 8)], 8, sms=4), tmp_path
    )
    (missing,) = found["missing_blocks"]
    assert (missing["ended"], missing["not_started"]) == (1, 3)
    assert "Block (2,0,0) has ended; 3 more cannot start before one of these ends" in missing["text"]


def test_a_poll_that_nothing_says_to_be_a_barrier_is_left_open(tmp_path: Path) -> None:
    found = summary(grid("flag", 9, [(n, n) for n in range(4)], 0, sms=4), tmp_path)
    (missing,) = found["missing_blocks"]
    assert missing["not_started"] == 5 and missing["grid_barrier"] is None
    assert missing["text"].endswith(
        "If what these poll for comes from a block that has not started, it never comes."
    )


def test_a_count_is_none_when_it_is_no_count_of_blocks(tmp_path: Path) -> None:
    found = summary(grid("counter", 600, [(n % 132, n) for n in range(264)], 7), tmp_path)
    (missing,) = found["missing_blocks"]
    assert missing["count"] is None and missing["grid_barrier"] == "by its code"
    assert "these seem to wait for a count that includes them" in missing["text"]


def test_of_clusters_it_is_only_known_that_blocks_are_missing(tmp_path: Path) -> None:
    found = summary(
        grid("counter", 600, [(n % 132, n) for n in range(264)], 264, cluster=(2, 1, 1)), tmp_path
    )
    (missing,) = found["missing_blocks"]
    assert missing["not_started"] is None and "the dump does not say which" in missing["text"]


@pytest.mark.parametrize("computing", [0, 263])
def test_a_grid_with_a_block_that_does_something_else_is_not_said_to_wait(
    computing: int, tmp_path: Path
) -> None:
    hang = grid("counter", 600, [(n % 132, n) for n in range(264)], 264)
    blocks = [
        Block(one.sm, one.index, [[Stand(0)]]) if n == computing else one for n, one in enumerate(hang.blocks)
    ]
    found = summary(Hang("counter", hang.grid, hang.block, blocks), tmp_path)
    assert found["missing_blocks"] == []
    assert found["roots"][0]["why"] == "runs"


def test_warps_that_poll_different_addresses_are_said_to(tmp_path: Path) -> None:
    blocks = [Block(n, (n, 0, 0), [[spinning("flag", [0], 1, FLAG + 128 * (1 - n))]]) for n in range(2)]
    found = summary(Hang("flag", (2, 1, 1), (1, 1, 1), blocks), tmp_path)
    (root,) = found["roots"]
    read = f"they read 2 addresses: {FLAG + 128:#x} (block (0,0,0)), {FLAG:#x} (block (1,0,0)); the first lane last read 0x1"
    assert root["text"].endswith(read)


def test_components_come_behind_those_their_edges_lead_to() -> None:
    parts = components(6, [(0, 1), (1, 2), (2, 1), (3, 0), (4, 4)])
    assert sorted(parts) == [(0,), (1, 2), (3,), (4,), (5,)]
    assert parts.index((1, 2)) < parts.index((0,)) < parts.index((3,))


def test_entry_is_where_the_code_was_placed(tmp_path: Path) -> None:
    found = summary(one_block([[Stand(0)]], {}), tmp_path)
    assert found["places"][0]["pcs"] == [{"pc": hex(ENTRY), "lanes": 32}]
