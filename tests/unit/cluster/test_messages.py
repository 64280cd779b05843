"""Sends and receives: matched by the two ranks they go between, and enough to find a clock where both directions are used."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from warpsight.analysis.base.tables import table
from warpsight.cluster.clocks.rank_clocks import synchronize
from warpsight.cluster.collectives import COLUMNS, UNFINISHED, _coalesced
from warpsight.cluster.matching import match
from warpsight.cluster.summary import About, RankSummary, encoded


def summary(rank: int, rows: list[dict[str, Any]]) -> RankSummary:
    """A rank that did these sends and receives."""
    common = {"bytes": 1 << 20, "dtype": "f32", "ranks": 3, "group": "0", "members": json.dumps([0, 1, 2])}
    rows.sort(key=lambda row: row["start"])
    listed = encoded(table(COLUMNS, [{**common, **row} for row in rows]))
    begin, end = listed["start"][0].as_py(), listed["end"][-1].as_py()
    about = About(
        f"r{rank}",
        0,
        rank,
        3,
        f"h{rank}",
        1,
        "",
        "",
        f"h{rank}",
        None,
        None,
        begin,
        end,
        0,
        "",
        None,
        (),
        ("", 0),
    )
    none = table("interval:int32 class:int16 name:string time:int64:ns count:int64", [])
    return RankSummary(
        about, listed, none, table("name:string", []), table("start:int64 duration:int64 label:string", []),
        table(UNFINISHED, []), table("interval:int32 place:string time:float64:ns", []),
    )  # fmt: skip


def pipeline(offsets: tuple[int, ...], drift: float) -> list[RankSummary]:
    """Three stages: activations go forward and gradients back, each message some microseconds on its way."""
    random = np.random.default_rng(2)
    rows: list[list[dict[str, Any]]] = [[], [], []]

    def shown(rank: int, t: float) -> int:
        return offsets[rank] + round(t * (1 + drift * rank))

    t = 1e9
    for _ in range(200):
        for source, target in ((0, 1), (1, 2), (2, 1), (1, 0)):
            t += random.uniform(50_000, 500_000)
            early = random.uniform(0, 40_000)
            end = t + random.uniform(5_000, 8_000)
            rows[source].append(
                {"operation": "send", "peer": target, "start": shown(source, t), "end": shown(source, end)}
            )
            rows[target].append({"operation": "receive", "peer": source, "start": shown(target, t - early),
                                 "end": shown(target, end)})  # fmt: skip
    return [summary(rank, listed) for rank, listed in enumerate(rows)]


def test_messages_are_matched_between_their_two_ranks() -> None:
    groups = match(pipeline((0, 0, 0), 0.0))
    assert sorted(group.members for group in groups) == [(0, 1), (1, 2)]
    for group in groups:
        assert len(group) == 400 and group.complete.all()
        assert set(map(tuple, group.operation.tolist())) == {(0, 1), (1, 0)}


def test_a_clock_is_found_from_messages_over_two_hops() -> None:
    offsets = (0, 7_000_000_000, -3_000_000_000)
    summaries = pipeline(offsets, 15e-6)
    clocks = synchronize(summaries, match(summaries))
    for rank in (1, 2):
        clock = clocks.clocks[clocks.of[rank]]
        for t in (1.01e9, 1.1e9, 1.2e9):
            error = abs(
                int(clock.corrected(np.array([offsets[rank] + round(t * (1 + 15e-6 * rank))]))[0]) - t
            )
            assert clock.bound is not None
            assert error <= clock.bound < 60_000
            assert error < 20_000


def test_messages_of_one_kernel_without_known_ranks_are_one_exchange() -> None:
    row = {
        "operation": "send",
        "bytes": 8,
        "peer": None,
        "rank": None,
        "call": None,
        "sequence": None,
        "group": "g",
    }
    joined = _coalesced([row, {**row, "operation": "receive"}])
    assert (joined["operation"], joined["bytes"], joined["group"]) == ("send-receive", 16, "g")


def test_messages_of_one_kernel_to_several_ranks_are_one_all_to_all_of_what_was_sent() -> None:
    row = {"operation": "send", "bytes": 8, "rank": 0, "call": None, "sequence": 3, "group": "g"}
    parts = [{**row, "peer": peer, "operation": what} for peer in (0, 1, 2) for what in ("send", "receive")]
    joined = _coalesced(parts)
    assert (joined["operation"], joined["bytes"], joined["sequence"]) == ("all-to-all", 24, None)
