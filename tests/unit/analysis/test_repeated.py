"""The main loop that nothing announces: from the order of launches and the host's waits between them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import US, call, marker, operator, sync
from tests.unit.analysis.conftest import Build, copy, kernel, launch
from warpsight.analysis.steps import repeated
from warpsight.analysis.steps.turns import Turns
from warpsight.model import StoredTrace
from warpsight.model import work as device_work
from warpsight.model.work import Work

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "void k<1>(int)", "void k<2>(int)")


class Told:
    """A program written in letters: each launches the kernel of that name, `|` waits for the device, `!` records an event.

    `h` and `d` in capitals copy to the device and on it, `+` allocates, `-` frees.
    """

    def __init__(self, build: Build, text: str, **more: Any) -> None:
        launches, kernels, waits, calls, copies = [], [], [], [], []
        host, device = US, US
        for place, letter in enumerate(text):
            if letter == "|":
                end = max(device, host) + 5 * US
                waits.append(sync(host, end - host, "context", correlation=5_000 + place))
                host = end + 3 * US
            elif letter in "!+-":
                function = {"!": "cudaEventRecord", "+": "cudaMalloc", "-": "cudaFree"}[letter]
                calls.append(call(host, US, function, correlation=9_000 + place))
                host += 2 * US
            else:
                launches.append(launch(host, 4 * US, place))
                device = max(device, host + 6 * US)
                if letter in "HD":
                    copies.append(copy(device, 20 * US, kind=f"{letter}toD", correlation=place))
                else:
                    kernels.append(kernel(device, 20 * US, NAMES.index(letter) + 1, correlation=place))
                device += 20 * US
                host += 5 * US
        self.trace: StoredTrace = build(
            names=NAMES, launch=launches, kernel=kernels, memcpy=copies, sync=waits, api=calls, **more
        )
        self.work: Work = device_work.load(self.trace)
        self.launched = np.argsort(self.work.start, kind="stable")
        self.when = np.array([row["start"] for row in launches])

    def best(self) -> Turns | None:
        return repeated.best(self.trace, 0, self.work, self.launched, self.when)

    def uneven(self) -> Turns | None:
        return repeated.uneven(self.trace, 0, self.work, self.launched, self.when)

    def parts(self, turns: Turns | None, text: str) -> list[str]:
        """The letters of each turn."""
        letters = [one for one in text if one not in "|!+-"]
        assert turns is not None and len(turns.of_launch) == len(letters)
        return ["".join(x for x, of in zip(letters, turns.of_launch.tolist(), strict=True) if of == n)
                for n in range(-1, len(turns.label))]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "parts", "weak"),
    [
        ("gh" + "abc|" * 6 + "h", ["ghh", *["abc"] * 6], False),
        ("gh" + "abcb" * 6 + "h", ["ghh", *["abcb"] * 6], True),  # nothing waits
        (
            "abab|" * 6,
            ["", *["abab"] * 6],
            False,
        ),  # names repeat sooner: the waits alone say where a turn begins
        ("aa|" * 8, ["", *["aa"] * 8], False),
        ("a" * 12, ["", *["a"] * 12], True),
    ],
)
def test_turns_are_what_repeats_with_the_waits_between(
    build: Build, text: str, parts: list[str], weak: bool
) -> None:
    told = Told(build, text)
    turns = told.best()
    assert turns is not None and turns.weak == weak and not turns.announced and set(turns.label) == {""}
    found = told.parts(turns, text)
    assert sorted(map(len, found[1:])) == sorted(map(len, parts[1:]))
    size = len(parts[1])
    assert turns.source == (
        f"repetition of {size} kernels and copies" if size > 1 else "repetition of one kernel or copy"
    )
    assert all(sorted(one) == sorted(other) for one, other in zip(found[1:-1], parts[1:-1], strict=True))


@pytest.mark.parametrize("text", ["abcdefgh", "ab", "", "abc" * 2, "abcab|cb|a"])
def test_without_a_repetition_there_is_no_loop(build: Build, text: str) -> None:
    assert Told(build, text or "a").best() is None


@pytest.mark.parametrize("turns", [2, 3, 4])
def test_a_loop_has_three_turns_at_least(build: Build, turns: int) -> None:
    found = Told(build, "abcdef|" * turns).best()
    assert (found is not None) == (turns >= 3)
    assert found is None or len(found.label) == turns


def test_waits_from_before_the_first_launch_are_not_in_the_sequence(build: Build) -> None:
    text = "||||" + "abc|" * 6
    assert Told(build, text).parts(Told(build, text).best(), text)[1:] == ["abc"] * 6


@pytest.mark.parametrize(
    ("text", "sizes"), [("aaa|" * 6, [3] * 6), ("aaaa|a|aaaaaaa|aaa" + "a" * 9, [1] * 24)]
)
def test_in_a_loop_of_one_work_only_waits_at_equal_distances_are_its_turns(
    build: Build, text: str, sizes: list[int]
) -> None:
    told = Told(build, text)
    assert [len(one) for one in told.parts(told.best(), text)[1:]] == sizes


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 30))
@settings(derandomize=True, max_examples=80)
def test_waits_are_even_where_four_of_five_have_as_many_launches_between_them(
    gaps: list[int], count: int
) -> None:
    when = np.arange(0, 10 * count, 10)
    waits = np.cumsum([5, *(10 * gap for gap in gaps)])
    before = sorted({sum(int(one) <= wait for one in when) for wait in waits.tolist()})
    between = [b - a for a, b in itertools.pairwise(before)]
    middle = float(np.median(between)) if between else 0.0
    expected = bool(between) and 5 * sum(one == middle for one in between) >= 4 * len(between)
    assert repeated._evenly(when, waits) == expected


PIECES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=9)


@given(PIECES)
@settings(derandomize=True, max_examples=150)
def test_pieces_are_of_one_kind_that_have_the_same_names_first_and_last(pieces: list[list[int]]) -> None:
    names = np.array([7 * name - 5 for piece in pieces for name in piece])
    edges = np.cumsum([0, *map(len, pieces)])
    kind, several = repeated._kinds(names, edges)
    keys = [(piece[0], piece[-1], frozenset(piece)) for piece in pieces]
    assert all((kind[i] == kind[j]) == (keys[i] == keys[j]) for i in range(len(keys)) for j in range(i))
    assert several.tolist() == [len(set(piece)) > 1 for piece in pieces]


@pytest.mark.parametrize("seed", range(5))
def test_turns_of_uneven_size_are_divided_by_waits(build: Build, seed: int) -> None:
    rng = random.Random(seed)
    turns = ["abc" * rng.choice((1, 2, 3, 5)) + "d" for _ in range(12)]
    sizes = [len(turn) for turn in turns]
    far = sum(abs(size - np.median(sizes)) >= 0.3 * np.median(sizes) for size in sizes)
    text = "ef|" + "|".join(turns) + "|gh"
    told = Told(build, text)
    found = told.uneven()
    if far < 3:
        assert found is None
        return
    assert (
        found is not None
        and found.uneven
        and found.source == "repetition between waits"
        and not found.announced
    )
    assert told.parts(found, text) == ["efgh", *turns]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abd|ababd|abd|abababd|abd|ababababd|", True),
        ("abd|ababd|abd|abababd|", False),  # four turns
        ("abd|ababd|abd|abababd|abd|", True),
        ("abd|" * 8, False),  # alike
        ("a|aa|a|aaa|a|aaaa|", False),  # one name
        ("abd|ababd|abd|abababd|abd|ababababd|" + "e" * 71, False),  # less than three tenths of all
        ("abd|ababd|" + "e" * 12 + "|abd|abababd|abd|ababababd|", False),  # less than four fifths of what is between
        ("abd|ababd|e|abd|abababd|abd|ababababd|", True),
    ],
)  # fmt: skip
def test_when_uneven_turns_are_a_loop(build: Build, text: str, found: bool) -> None:
    assert (Told(build, text).uneven() is not None) == found


def test_a_call_that_returns_when_its_work_ends_divides_turns_as_a_wait_does(build: Build) -> None:
    text = "abd|ababd|abd|abababd|abd|ababababd|"
    whole = Told(build, text)
    wanted = whole.parts(whole.uneven(), text)
    rows: dict[str, list[dict[str, Any]]] = {"launch": [], "kernel": []}
    time = 1_000
    for place, letter in enumerate(letter for letter in text if letter != "|"):
        last = letter == "d"
        rows["kernel"].append(kernel(time + 6, 20_000, NAMES.index(letter) + 1, correlation=place))
        rows["launch"].append(launch(time, 20_006 - 1_000 if last else 4, place))
        time += 30_000
    trace = build(names=NAMES, **rows)
    work = device_work.load(trace)
    when = np.array([row["start"] for row in rows["launch"]])
    assert whole.parts(repeated.uneven(trace, 0, work, np.arange(len(work)), when), text) == wanted
    for row in rows["launch"]:
        row["duration"] = min(row["duration"], 20_006 - 1_001)
    trace = build(names=NAMES, **rows)
    assert repeated.uneven(trace, 0, device_work.load(trace), np.arange(len(work)), when) is None


def test_waits_of_the_host_are_those_recorded_else_the_calls_that_wait(build: Build) -> None:
    rows = [
        sync(30, 5, "context"),
        sync(10, -3, "stream"),
        sync(20, 4, "stream wait event"),
        sync(15, 2, "event", process=1),
    ]
    calls = [call(7, 2, "cudaDeviceSynchronize"), call(3, 1, "cudaStreamSynchronize"), call(5, 1, "cudaMalloc"),
             call(4, 1, "cudaDeviceSynchronize", process=1)]  # fmt: skip

    def found(trace: StoredTrace, process: int = 0) -> list[tuple[int, int]]:
        begin, end = repeated.waits(trace, process)
        return list(zip(begin.tolist(), end.tolist(), strict=True))

    both = build(sync=rows, api=calls, kernel=[kernel(0, 1)])
    assert found(both) == [(10, 10), (30, 35)] and found(both, 1) == [(15, 17)]
    assert found(build(api=calls)) == [(3, 4), (7, 9)]
    assert found(build(sync=rows[2:3], api=calls)) == [(3, 4), (7, 9)]
    assert found(build()) == []


def test_events_and_calls_that_block_mark_a_turn(build: Build) -> None:
    calls = [call(10, 1, "cudaEventRecord"), call(11, 1, "cudaStreamQuery"), call(12, 1, "cudaEventQuery"),
             call(13, 1, "cudaGetDevice"), call(14, 1, "cudaDeviceSynchronize", process=1), call(15, 1, "cudaFree")]  # fmt: skip
    trace = build(api=calls, launch=[launch(16, 1, 1)])
    assert sorted(repeated._marks(trace, 0).tolist()) == [10, 11, 12, 15]
    assert len(repeated._marks(build(), 0)) == 0


def test_instances_of_one_template_are_alike(build: Build) -> None:
    trace = build(names=NAMES)
    found = repeated._alike(trace, np.array([9, 10, 1, 2, 9, 0]))
    assert found[0] == found[1] == found[4] and len({*found.tolist()}) == 4


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [("ef", "gh", True), ("", "gh", False), ("ef", "", False), ("ef|", "gh", False), ("ef", "|gh", False)],
)
def test_turns_with_other_work_right_before_and_after_are_the_layers_of_one_pass(
    build: Build, before: str, after: str, found: bool
) -> None:
    text = before + "abcd" * 6 + after
    told = Told(build, text, op=[operator(1, 5, 1)])
    turns = told.best()
    assert turns is not None and turns.weak
    assert repeated.layers_of_one_pass(told.trace, 0, turns, told.work, told.launched, told.when) == found


@pytest.mark.parametrize(
    ("layer", "count", "found"),
    [
        ("abcd", 6, True),
        ("abc", 6, False),
        ("abcd", 128, True),
        ("abcd", 129, False),
        ("abcd!", 6, False),
        ("abDcd", 6, True),
        ("abHcd", 6, False),
        ("abc+d", 6, True),
        ("abc-d", 6, False),
    ],
)
def test_layers_have_four_kernels_and_no_marks_and_a_model_has_128_at_most(
    build: Build, layer: str, count: int, found: bool
) -> None:
    text = "ef" + layer * count + "gh"
    told = Told(build, text, op=[operator(1, 5, 1)])
    turns = told.best()
    assert turns is not None and len(turns.label) == count
    assert repeated.layers_of_one_pass(told.trace, 0, turns, told.work, told.launched, told.when) == found


def test_without_a_framework_turns_are_no_layers(build: Build) -> None:
    told = Told(build, "ef" + "abcd" * 6 + "gh")
    turns = told.best()
    assert turns is not None
    assert not repeated.layers_of_one_pass(told.trace, 0, turns, told.work, told.launched, told.when)


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([(0, 300)], True),  # all six turns in one run of the module
        ([(0, 75), (75, 75), (150, 75)], True),  # two in each
        (
            [(0, 35), (50, 35), (100, 35), (150, 35), (200, 35), (250, 35)],
            False,
        ),  # one in each: the module is the turn
        ([(0, 149)], False),  # half of them
        ([(0, 151)], True),
        ([], False),
    ],
)
def test_turns_of_which_most_are_in_the_same_runs_of_a_module_are_its_layers(
    build: Build, runs: list[tuple[int, int]], found: bool
) -> None:
    turns = Turns("", np.repeat(np.arange(-1, 6), 2), [""] * 6, announced=False)
    when = np.array([-40, -20, *(n * 50 + step for n in range(6) for step in (0, 20))]) + 1_000
    rows = [marker(begin + 1_000, length, 1) for begin, length in runs]
    trace = build(
        names=("nn.Module: Block_0", "other"),
        marker=[*rows, marker(900, 900, 2), marker(900, 900, 1, process=1)],
    )
    assert repeated.parts_of_a_module(trace, 0, turns, when) == found
    assert not repeated.parts_of_a_module(build(), 0, turns, when)
