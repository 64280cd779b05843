"""Requests that several threads of a server take, while other threads launch their work."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.analysis.written_loops import announced
from warpsight.analysis.steps import loops
from warpsight.analysis.steps.announced import shared
from warpsight.analysis.steps.loops import names_a_turn


def server(
    writer, seed, requests, name="Stage::processRequest", workers=(31, 32, 33), every=1, launching=False
):
    """Requests that begin at random and overlap; each runs between one and five layers and one `merge`.

    With `every`, only each so many-th range is that of a request that runs anything.
    """
    draw = random.Random(seed)
    time, device, number = 1_000_000, 0, 1
    for request in range(requests):
        time += draw.choice((5_000, 400_000, 700_000))
        worker = draw.choice(workers)
        writer.add("marker", [{"start": time, "duration": 1_500_000, "kind": "push/pop", "open": False, "source": "nvtx",
                               "name_id": writer.name(name), "thread": worker, "process": 0}])  # fmt: skip
        for name_of in ["layer"] * draw.randint(1, 5) + ["merge"] if request % every == 0 else []:
            begin = time + 200_000 + 1_000 * number
            device = max(device, begin + 5_000)
            both = {"process": 0, "correlation": number, "name_id": writer.name(name_of)}
            writer.add("launch", [{**both, "start": begin, "duration": 900, "function": "f", "captured": False,
                                   "thread": worker if launching else draw.choice((7, 8))}])  # fmt: skip
            writer.add("kernel", [{**both, "start": device, "duration": 60_000, "context": 1, "stream": 7, "device": 0,
                                   "graph_level": False}])  # fmt: skip
            device, number = device + 61_000, number + 1


@pytest.mark.parametrize("seed", range(8))
def test_requests_are_counted_however_they_overlap(tmp_path, seed):
    number = 9 + 7 * seed
    found = announced(tmp_path / "t.warp", lambda writer: server(writer, seed, number))
    assert found == [("range 'Stage::processRequest' of several threads", number)]


@pytest.mark.parametrize(
    "changed",
    [
        {"requests": 7},
        {"name": "Stage::concatenate"},  # says nothing of turns
        {"workers": (31,)},
        {"every": 2},  # no kernel runs as often
        {"launching": True},  # replicas of one step, perhaps
    ],
)
def test_other_ranges_of_several_threads_count_nothing(tmp_path, changed):
    found = announced(
        tmp_path / "t.warp",
        lambda writer: server(writer, 3, **{"requests": 30, "name": "serveRequest", **changed}),
    )
    assert all("several threads" not in source for source, _ in found)


@pytest.mark.parametrize(
    ("text", "turn"),
    [("processRequest", True), ("trainStep", True), ("rebatch", False), ("Subsample", False)],
)
def test_words_inside_of_a_name_count_where_a_capital_begins_them(text, turn):
    assert names_a_turn(text) == turn


@pytest.mark.parametrize(
    ("one", "other", "chosen"),
    [
        ((20, 0, 100), (20, 50, 120), 0),
        ((20, 50, 120), (20, 0, 100), 1),
        ((21, 50, 90), (20, 0, 100), 0),
        ((20, 0, 100), (21, 50, 90), 1),
    ],
)
def test_the_most_turns_count_and_of_as_many_those_that_take_longest(monkeypatch, one, other, chosen):
    def loop(name, number, begin, end):
        begins = np.linspace(begin, end - 1, number).astype(np.int64)
        ends = np.append(begins[1:], end)
        return loops.Loop(loops.REPEATED, name, 0, -1, begins, ends, [""] * number, True), frozenset({31, 32})

    found = [loop("one", *one), loop("other", *other)]
    monkeypatch.setattr(loops, "shared", lambda trace: found)
    rows = np.arange(20)
    work = SimpleNamespace(kind=np.zeros(20), name_id=np.ones(20), start=rows, end=rows + 1)
    turns = shared(None, 0, work, rows, np.arange(20) * 5, np.array([7]))
    assert turns.source == ("one", "other")[chosen]
    assert len(turns.label) == (one, other)[chosen][0]
