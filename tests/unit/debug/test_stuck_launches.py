"""Which recorded launch a grid of a core dump is."""

from __future__ import annotations

from typing import Any

from warpsight.debug.stuck_launches import OutstandingLaunch, join

GRID, BLOCK = (4, 1, 1), (128, 1, 1)


def launch(start: int, **values: Any) -> OutstandingLaunch:
    plain = {"process": 1, "pid": 7, "thread": 70, "function": "cuLaunchKernel", "name": "_Z4spinv", "demangled": "spin()",
             "correlation": start, "grid": GRID, "block": BLOCK}  # fmt: skip
    return OutstandingLaunch(start=start, **{**plain, **values})


def test_one_launch_of_that_name_and_size_is_it() -> None:
    found = join([launch(1), launch(2, name="other", demangled="other")], 7, "_Z4spinv", GRID, BLOCK)
    assert found.launch is not None
    assert (found.launch.start, found.unique, found.by) == (1, True, "name, dimensions")


def test_a_launch_of_another_size_is_not_it() -> None:
    found = join([launch(1, grid=(9, 1, 1))], 7, "_Z4spinv", GRID, BLOCK)
    assert found.launch is None
    assert found.by == "the outstanding launches of that kernel have other dimensions"
    assert join([launch(1)], 7, "_Z4wildv", GRID, BLOCK).launch is None


def test_unknown_dimensions_are_no_contradiction() -> None:
    found = join([launch(1, grid=None, block=None)], 7, "spin()", GRID, BLOCK)
    assert found.launch is not None
    assert found.by == "name"


def test_the_dumps_thread_decides_between_launches_alike() -> None:
    found = join([launch(1, thread=70), launch(2, thread=71)], 7, "_Z4spinv", GRID, BLOCK, 71)
    assert found.launch is not None
    assert (found.launch.start, found.unique, found.by) == (2, True, "name, dimensions, thread")


def test_of_several_the_oldest_is_taken_and_said_to_be_uncertain() -> None:
    found = join([launch(1), launch(2), launch(3, pid=8)], 7, "_Z4spinv", GRID, BLOCK, 99)
    assert found.launch is not None
    assert (found.launch.start, found.candidates, found.unique) == (1, 2, False)
    assert found.by == "name, dimensions, order: the oldest of them"
