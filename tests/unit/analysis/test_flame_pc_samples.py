"""Flame graphs of samples of warps: shared among the host stacks that launched the kernel, none lost, none invented."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.unit.analysis.conftest import EPOCH, Build, kernel
from tests.unit.analysis.test_flame import FRAMES, STACKS, paths
from warpsight.analysis.flame.graph import NO_STACK, Shape, flame
from warpsight.errors import UsageError
from warpsight.model.selection import Rows

SECOND = 1_000_000_000


def sample(window: int, samples: int, name_id: int = 1, **more: Any) -> dict[str, Any]:
    """A row of table pc_sample, of the window that begins at second `window`."""
    return {"start": EPOCH + window * SECOND, "duration": SECOND // 2, "name_id": name_id, "checksum": 1, "pc": 16,
            "reason": "wait", "samples": samples, "not_issued": 0, "context": 1, "device": 0, "process": 0, **more}  # fmt: skip


def of_stacks(counted: Counter[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """Samples by host stack: without kernel, instruction and reason."""
    found: Counter[tuple[str, ...]] = Counter()
    for way, count in counted.items():
        found[way[:-3]] += count
    return dict(found)


def test_samples_are_shared_by_the_time_of_the_launches_in_their_window(build: Build) -> None:
    ran = [
        kernel(EPOCH + 1000, 3_000_000, stack=2),
        kernel(EPOCH + 10_000_000, 1_000_000, stack=4),
        kernel(EPOCH + 10 * SECOND, 5_000_000, stack=5),
    ]
    trace = build(stacks=STACKS, kernel=ran, pc_sample=[sample(0, 101), sample(10, 7)])
    graph = flame(trace, shape=Shape("pc-samples"))
    expected = {tuple(FRAMES[2]): 76, tuple(FRAMES[4]): 25, tuple(FRAMES[5]): 7}
    assert of_stacks(paths(graph)) == expected
    assert graph.accounts[0].measured == graph.accounts[0].shown == 108


def test_a_launch_whose_share_is_below_half_a_sample_is_left_out(build: Build) -> None:
    ran = [kernel(EPOCH + 1000, 3_000_000, stack=2), kernel(EPOCH + 10_000_000, 1_000, stack=4)]
    trace = build(stacks=STACKS, kernel=ran, pc_sample=[sample(0, 3)])
    assert of_stacks(paths(flame(trace, shape=Shape("pc-samples")))) == {tuple(FRAMES[2]): 3}


def test_samples_that_come_after_their_kernel_go_to_all_of_its_launches(build: Build) -> None:
    trace = build(stacks=STACKS, kernel=[kernel(EPOCH, 1000, stack=2)], pc_sample=[sample(50, 9)])
    assert of_stacks(paths(flame(trace, shape=Shape("pc-samples")))) == {tuple(FRAMES[2]): 9}


def test_samples_of_a_kernel_that_nobody_launched_have_no_stack(build: Build) -> None:
    trace = build(stacks=STACKS, kernel=[kernel(EPOCH, 1000, stack=2)], pc_sample=[sample(0, 4, name_id=2)])
    assert of_stacks(paths(flame(trace, shape=Shape("pc-samples")))) == {(NO_STACK,): 4}


def test_many_small_shares_add_up(build: Build) -> None:
    ran = [kernel(EPOCH + i * 1000, 900, stack=(2, 4, 5)[i % 3]) for i in range(30)]
    rows = [sample(0, 1 + i % 3, pc=16 * i, reason=("wait", "selected")[i % 2]) for i in range(200)]
    trace = build(stacks=STACKS, kernel=ran, pc_sample=rows)
    graph = flame(trace, shape=Shape("pc-samples"))
    assert graph.total[0, 0] == sum(row["samples"] for row in rows)
    assert (graph.own >= 0).all()


def test_streams_cannot_be_chosen(build: Build) -> None:
    trace = build(kernel=[kernel(EPOCH, 1000)], pc_sample=[sample(0, 4)])
    with pytest.raises(UsageError, match="have no stream"):
        flame(trace, Rows(streams=(7,)), Shape("pc-samples"))
