"""Turns that hold an inner loop of any length are the iterations, not the turns of the inner loop."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.analysis.written_loops import announced, launches, mark
from warpsight.analysis.steps import announced as steps_announced
from warpsight.model.work import COMMUNICATION, COPY, KERNEL


def all_at_once(writer, rows):
    """Kernels as (moment, name), each launched then and 100 µs long."""
    both = [
        {"process": 0, "correlation": place + 1, "name_id": writer.name(name)}
        for place, (_, name) in enumerate(rows)
    ]
    times = [time for time, _ in rows]
    writer.add("launch", [{**one, "start": time, "duration": 4_000, "function": "f", "thread": 7, "captured": False}
                          for one, time in zip(both, times, strict=True)])  # fmt: skip
    writer.add("kernel", [{**one, "start": time + 9_000, "duration": 100_000, "context": 1, "stream": 7, "device": 0,
                           "graph_level": False} for one, time in zip(both, times, strict=True)])  # fmt: skip


def turns(seed, number, pause):
    """Turns that nothing marks: work of their own with pauses (ns), and an inner loop of 6 to 20 turns of 3 kernels."""
    draw = random.Random(seed)
    own = [f"own{place}" for place in range(draw.randint(6, 15))]
    rows, time = [], 1_000_000
    for _ in range(number):
        for name in own + ["x", "y", "z"] * draw.randint(6, 20):
            rows.append((time, name))
            time += 120_000 + (pause if name.startswith("own") else 0)
    return lambda writer: all_at_once(writer, rows)


def test_the_loop_around_an_inner_one_is_the_loop_where_it_has_most_of_the_time(tmp_path):
    """A part of the turns may agree by chance, but those of the inner loop are never the iterations."""
    found = [announced(tmp_path / f"{seed}.warp", turns(seed, 16 + seed, 3_000_000)) for seed in range(10)]
    told = [number for one in found for _, number in one]
    assert max(told) <= 30
    right = [one == [("repetition around an inner loop", 16 + seed)] for seed, one in enumerate(found)]
    assert sum(right) >= 6


def test_where_the_time_is_in_the_inner_loop_its_turns_are_the_iterations(tmp_path):
    ((source, number),) = announced(tmp_path / "t.warp", turns(2, 18, 0))
    assert source == "repetition of 3 kernels and copies" and number > 150


def test_pauses_make_no_loop_around(tmp_path):
    """A server waits for requests now and then: its long turns do what the others do."""

    def build(writer):
        time = 1_000_000
        for turn in range(60):
            launches(writer, time, 10 * time, ["a", "b", "c", "d"], 1 + 10 * turn)
            time += 20_000_000 if turn % 7 == 3 else 200_000

    assert announced(tmp_path / "t.warp", build) == [("repetition of 4 kernels and copies", 60)]


def test_odd_turns_that_have_nothing_in_common_are_no_loop_around(tmp_path):
    draw = random.Random(4)
    rows, time = [], 1_000_000
    for turn in range(60):
        more = [f"r{draw.randint(0, 10**6)}" for _ in range(20)] if turn % 6 == 5 else []
        for name in ["a", "b", "c", "d", *more]:
            rows.append((time, name))
            time += 700_000 if more else 120_000
    assert announced(tmp_path / "t.warp", lambda writer: all_at_once(writer, rows)) == []


def answered(tokens, besides, answers=8, outer="answer"):
    """Ranges around token ranges of two kernels each, and as many other kernels after the last of them."""

    def build(writer):
        rows, time = [], 1_000_000
        for _ in range(answers):
            begin = time
            for _ in range(tokens):
                mark(writer, "decode_token", time, 240_000)
                rows += [(time, "attention"), (time + 120_000, "mlp")]
                time += 240_000
            for place in range(besides):
                rows.append((time, f"prefill{place}"))
                time += 120_000
            mark(writer, outer, begin, time - begin)
        all_at_once(writer, rows)

    return build


def test_ranges_that_hold_less_than_what_the_ranges_around_them_do_besides_are_no_iterations(tmp_path):
    found = announced(tmp_path / "t.warp", answered(tokens=4, besides=6))
    assert found == [("range 'answer'", 8)]


def test_ranges_named_as_iterations_are_where_most_of_the_time_is_theirs_or_few_ranges_are_around(tmp_path):
    most = announced(tmp_path / "most.warp", answered(tokens=9, besides=6))
    assert most == [("range 'decode_token'", 72)]
    few = announced(tmp_path / "few.warp", answered(tokens=4, besides=6, answers=4))
    assert few == [("range 'decode_token'", 16)]
    named = announced(tmp_path / "named.warp", answered(tokens=9, besides=6, outer="epoch"))
    assert named == [("range 'epoch'", 8)]


@pytest.mark.parametrize(
    ("kinds", "before"),
    [
        (
            [KERNEL, COMMUNICATION, COPY, KERNEL],
            [0, 1, 1, 5, 13],
        ),  # a collective counts for nothing beside other work
        ([COMMUNICATION] * 4, [0, 1, 3, 7, 15]),
    ],
)
def test_collectives_count_as_time_where_there_is_nothing_else(monkeypatch, kinds, before):
    length = np.array([1, 2, 4, 8])
    work = SimpleNamespace(kind=np.array(kinds), start=np.arange(4) * 10, end=np.arange(4) * 10 + length)
    for size in (65_536, 3):
        monkeypatch.setattr(
            steps_announced,
            "blocks",
            lambda rows, size=size: [slice(a, a + size) for a in range(0, rows, size)],
        )
        assert steps_announced._time_before(work, np.arange(4)).tolist() == before
