"""Ranges are paired as the program nested them, across segments and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.capture.recordings import Recording
from warpsight.capture.rows.markers import LOST, WAITING, pair_nested, payload
from warpsight.capture.segments.segment import DTYPES

PUSH, POP, START, END, INSTANT = 1, 2, 3, 4, 5


def write(recording: Recording, *segments: list[tuple[Any, ...]]) -> None:
    """Segments of (thread, time, phase, name, id) rows."""
    arena = recording.process(1)
    for rows in segments:
        with recording.file(arena) as out:
            for thread in dict.fromkeys(row[0] for row in rows):
                mine = [row for row in rows if row[0] == thread]
                _, time, phase, name, number = zip(*mine, strict=True)
                out.write(
                    "Marker",
                    {"time": time, "phase": phase, "name": name, "id": number, "source": 1},
                    thread=thread,
                )


QUERY = 'SELECT name, start, duration, depth, "open", thread FROM marker ORDER BY start'


def test_nested_ranges_over_segments_and_threads(recording: Recording) -> None:
    write(
        recording,
        [(1, 10, PUSH, 12, 0), (1, 11, PUSH, 13, 1), (2, 12, PUSH, 14, 0)],
        [(1, 20, POP, 0, 1), (2, 21, POP, 0, 0), (1, 22, PUSH, 14, 1)],
        [(1, 30, POP, 0, 1), (1, 31, POP, 0, 0)],
    )
    with recording.finish() as trace:
        assert trace.sql(QUERY).fetchall() == [
            ("forward", 10, 21, 0, False, 1),
            ("backward", 11, 9, 1, False, 1),
            ("loader", 12, 9, 0, False, 2),
            ("loader", 22, 8, 1, False, 1),
        ]


def test_ranges_left_open_are_open_and_ends_without_begin_are_noted(recording: Recording) -> None:
    write(recording, [(1, 5, POP, 0, 0), (1, 10, PUSH, 12, 0), (1, 11, START, 13, 7), (1, 12, END, 0, 99)])
    with recording.finish() as trace:
        assert trace.sql(QUERY).fetchall() == [
            ("forward", 10, None, 0, True, 1),
            ("backward", 11, None, None, True, 1),
        ]
        assert [(row["count"], row["severity"]) for row in trace.loss.to_pylist()] == [(2, "note")]


def test_started_ranges_are_matched_by_id_on_any_thread(recording: Recording) -> None:
    write(
        recording,
        [(1, 10, START, 12, 7), (1, 11, START, 13, 8)],
        [(2, 20, END, 0, 7), (1, 21, END, 0, 8), (1, 30, START, 12, 7)],
        [(1, 40, END, 0, 7), (1, 50, INSTANT, 14, 0)],
    )
    with recording.finish() as trace:
        assert trace.sql("SELECT name, start, duration, kind FROM marker ORDER BY start").fetchall() == [
            ("forward", 10, 10, "start/end"),
            ("backward", 11, 10, "start/end"),
            ("forward", 30, 10, "start/end"),
            ("loader", 50, None, "instant"),
        ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=60))
def test_pairing_equals_a_machine_even_when_rows_are_lost(events: list[tuple[int, bool, bool]]) -> None:
    depth: dict[int, int] = {}
    waiting: dict[tuple[int, int], int] = {}
    expected: dict[int, int] = {}
    strays = 0
    written: list[tuple[int, int, int]] = []
    for thread, push, lost in events:
        if not push and not depth.get(thread):
            continue
        level = depth.get(thread, 0) - (not push)
        depth[thread] = level + push
        if lost:
            continue
        written.append((thread, PUSH if push else POP, level))
        if push:
            if (thread, level) in waiting:
                expected[waiting[thread, level]] = LOST
            waiting[thread, level] = len(written) - 1
            expected[len(written) - 1] = WAITING
        elif (thread, level) in waiting:
            expected[waiting.pop((thread, level))] = len(written) - 1
        else:
            strays += 1
    rows = np.zeros(len(written), DTYPES[28])
    rows["phase"] = [phase for _, phase, _ in written]
    rows["id"] = [level for _, _, level in written]
    threads = np.array([thread for thread, _, _ in written], np.int32)
    begin, end, found_strays = pair_nested(rows, threads, np.arange(len(written)))
    assert dict(zip(begin.tolist(), end.tolist(), strict=True)) == expected
    assert found_strays == strays


def test_payloads_are_numbers_of_their_type() -> None:
    rows = np.zeros(8, DTYPES[28])
    rows["payload_type"] = range(8)
    rows["payload"] = [
        5,
        2**40,
        np.uint64(2**64 - 2),
        np.float64(2.5).view(np.uint64),
        7,
        2**32 - 3,
        int(np.float32(0.5).view(np.uint32)),
        5,
    ]
    found = payload(rows)
    assert found.null is not None
    assert found.null.tolist() == [True] + [False] * 6 + [True]
    assert found.values[1:7].tolist() == [2.0**40, -2.0, 2.5, 7.0, -3.0, 0.5]
