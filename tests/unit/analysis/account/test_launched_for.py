"""Threads that launch for another one have the names of that one's time."""

from __future__ import annotations

import pytest

from tests.unit.analysis.account.rows import THREAD, frame, marker, sample
from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.account import account
from warpsight.analysis.account.classes import HOST
from warpsight.analysis.account.naming import UNNAMED

OTHER = THREAD + 1


def turns(build, threads, **tables):
    """Names and times of host time where these threads launch one after the other, each 1,000 ns after the last kernel's end."""
    calls = [launch(n * 2_000, 10, n, thread=thread) for n, thread in enumerate(threads)]
    work = [kernel(n * 2_000 + 20, 980, correlation=n) for n in range(len(threads))]
    found = account(build(launch=calls, kernel=work, **tables))
    assert sum(one.time for one in found.host) == found.time(HOST)
    return [(one.name, one.time) for one in found.host]


def test_what_autograd_launches_is_named_by_the_range_in_which_the_main_thread_waits(build):
    threads = [THREAD] * 6 + [OTHER] * 6
    rows = [marker(-100, 11_000, 1), marker(10_900, 13_000, 2)]
    named = dict(turns(build, threads, names=("forward", "backward"), marker=rows))
    assert named == {"backward": 6 * 1_000, "forward": 5 * 1_000}


def test_threads_that_launch_at_the_same_time_launch_for_themselves(build):
    threads = [THREAD, OTHER] * 6
    named = dict(turns(build, threads, names=("forward",), marker=[marker(-100, 30_000, 1)]))
    assert named == {"forward": 5 * 1_000, UNNAMED: 6 * 1_000}


@pytest.mark.parametrize("own", [1_000, 13_000])
def test_a_thread_with_ranges_around_most_of_its_time_has_names_of_its_own(build, own):
    threads = [THREAD] * 6 + [OTHER] * 6
    rows = [marker(-100, 30_000, 1), marker(10_900, own, 2, thread=OTHER)]
    named = dict(turns(build, threads, names=("step", "serve"), marker=rows))
    assert named["serve" if own > 6_000 else "step"] >= 6 * 1_000


@pytest.mark.parametrize(("changes", "name"), [(3, "forward"), (4, UNNAMED)])
def test_taking_over_at_half_of_the_launches_is_still_in_turns(build, changes, name):
    """Six launches of the other thread: they take over from each other three or four times."""
    threads = [THREAD] * 4 + [OTHER] * 3 + [THREAD] * 4 + [OTHER] * 3 + [THREAD] * 4 * (changes - 3)
    named = dict(turns(build, threads, names=("forward",), marker=[marker(-100, 40_000, 1)]))
    assert named.get(name, 0) >= 6 * 1_000 and (UNNAMED in named) == (name == UNNAMED)


@pytest.mark.parametrize(("own", "names"), [(3_000, {"forward", "serve", UNNAMED}), (2_999, {"forward"})])
def test_a_thread_with_ranges_around_half_of_its_time_has_names_of_its_own(build, own, names):
    """Three of its six stretches before a launch, or a nanosecond less: then all are in what it is launched for."""
    threads = [THREAD] * 6 + [OTHER] * 6
    begins = [11_000 + 2_000 * n for n in range(3)]
    rows = [marker(-100, 30_000, 1), *(marker(begin, 1_000, 2, thread=OTHER) for begin in begins[:2]),
            marker(begins[2], own - 2_000, 2, thread=OTHER)]  # fmt: skip
    assert set(dict(turns(build, threads, names=("forward", "serve"), marker=rows))) == names


@pytest.mark.parametrize(("more", "known"), [(700, False), (0, True)])
def test_beside_two_threads_with_ranges_nobody_knows_for_which_another_launches(build, more, known):
    """A range without a length is none."""
    threads = [THREAD] * 6 + [OTHER] * 6 + [THREAD + 2] * 3
    rows = [marker(-100, 40_000, 1), marker(22_900, more and 8_000, 2, thread=THREAD + 2)]
    named = dict(turns(build, threads, names=("forward", "serve"), marker=rows))
    assert (named.get("forward", 0) >= 11 * 1_000) == known and (UNNAMED in named) == (not known)


def test_threads_of_another_process_with_the_same_numbers_do_not_count(build):
    """In the other process both threads launch at the same time."""
    threads = [THREAD] * 6 + [OTHER] * 6
    calls = [launch(n * 2_000, 10, n, thread=thread) for n, thread in enumerate(threads)]
    work = [kernel(n * 2_000 + 20, 980, correlation=n) for n in range(12)]
    calls += [launch(n * 2_000, 10, n, thread=[THREAD, OTHER][n % 2], process=1) for n in range(12)]
    work += [kernel(n * 2_000 + 20, 980, correlation=n, process=1, device=1) for n in range(12)]
    rows = [marker(-100, 30_000, 1), {**marker(-100, 30_000, 2), "process": 1}]
    found = account(build(launch=calls, kernel=work, names=("forward", "other"), marker=rows))
    assert {one.name: one.time for one in found.host} == {"forward": 11_000, "other": 5_000, UNNAMED: 6_000}


def sampled(build, *running):
    """Names of the host time of a thread that runs no Python, beside threads that do."""
    stacks = ((frame("train", "train.py", 5),), (frame("start_thread", "libc.so.6", 1),))
    rows = [sample(time, 1, thread=thread) for thread in running for time in range(100, 12_000, 200)]
    rows += [sample(time, 2, thread=OTHER) for time in range(100, 12_000, 900)]
    return [
        name
        for name, _ in turns(build, [OTHER] * 6, stacks=stacks, sample=sorted(rows, key=lambda r: r["time"]))
    ]


def test_a_thread_that_runs_no_python_launches_for_the_only_one_that_does(build):
    assert sampled(build, THREAD) == ["train"]


def test_of_two_that_do_nobody_knows_which(build):
    assert "train" not in sampled(build, THREAD, THREAD + 2)


def test_python_of_another_process_launches_nothing_here(build):
    stacks = ((frame("train", "train.py", 5),), (frame("start_thread", "libc.so.6", 1),))
    rows = [sample(time, stack, thread=thread, process=process) for time in range(100, 12_000, 200)
            for stack, thread, process in ((1, THREAD, 1), (2, OTHER, 0))]  # fmt: skip
    assert [name for name, _ in turns(build, [OTHER] * 6, stacks=stacks, sample=rows)] != ["train"]


def test_a_range_around_all_work_is_shown_with_the_annotations_in_it(build):
    rows = [
        marker(-100, 24_000, 1),
        marker(-50, 11_000, 2),
        marker(10_960, 12_000, 3),
        marker(11_000, 4_000, 4),
    ]
    calls = [launch(n * 2_000, 10, n) for n in range(12)]
    work = [kernel(n * 2_000 + 20, 980, correlation=n) for n in range(12)]
    names = ("train", "forward", "backward", "norm")
    (found,) = account(build(launch=calls, kernel=work, names=names, marker=rows)).host
    assert (found.name, found.parts) == ("train", (("backward", 6_000), ("forward", 5_000)))
