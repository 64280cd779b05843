"""What ranks send to each other: bytes by the algorithm that moved them, and links that are slow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cluster.test_messages import summary
from warpsight.cluster.exchange import matrix, slow_links, traffic
from warpsight.cluster.job import Job
from warpsight.cluster.waiting import Waiting

SIZE, RANKS = 1 << 20, 3


def pairs(rows: list[list[dict[str, Any]]]) -> dict[tuple[int, int], dict[str, Any]]:
    found = traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(rows)))))
    return {(row["source"], row["destination"]): row for row in found.to_pylist()}


def together(operation: str, algorithm: str | None, count: int = 10) -> list[list[dict[str, Any]]]:
    """Each rank's rows of a collective that all do at once."""
    return [[{"start": n * 1000, "end": n * 1000 + 500, "operation": operation, "algorithm": algorithm, "sequence": n}
             for n in range(count)] for _ in range(RANKS)]  # fmt: skip


def test_a_ring_passes_its_parts_to_the_next_rank() -> None:
    found = pairs(together("all-reduce", "ring"))
    assert set(found) == {(0, 1), (1, 2), (2, 0)}
    assert found[0, 1]["bytes"] == pytest.approx(10 * SIZE * 2 * 2 / 3, abs=1)
    assert (found[0, 1]["count"], found[0, 1]["latency"]) == (10, 500)
    assert pairs(together("all-gather", "ring"))[2, 0]["bytes"] == pytest.approx(10 * SIZE * 2 / 3, abs=1)


def test_a_tree_goes_up_and_down() -> None:
    found = pairs(together("all-reduce", "tree"))
    assert {pair: row["bytes"] for pair, row in found.items()} == dict.fromkeys(
        [(0, 1), (1, 0), (1, 2), (2, 1)], 10 * SIZE
    )


def test_all_to_all_goes_to_every_other_rank() -> None:
    found = pairs(together("all-to-all", None))
    assert len(found) == 6 and found[2, 1]["bytes"] == pytest.approx(10 * SIZE / 3, abs=1)


def test_what_a_switch_reduces_has_no_pairs() -> None:
    assert pairs(together("all-reduce", "nvls")) == {}


def messages(*slow: tuple[int, int]) -> list[list[dict[str, Any]]]:
    """Each rank sends to each other one, in turn."""
    rows: list[list[dict[str, Any]]] = [[] for _ in range(RANKS)]
    at = 0
    for _ in range(20):
        for source in range(RANKS):
            for target in range(RANKS):
                if source != target:
                    lasted = 80_000 if (source, target) in slow else 20_000
                    for rank, operation, peer in ((source, "send", target), (target, "receive", source)):
                        rows[rank].append(
                            {"start": at, "end": at + lasted, "operation": operation, "peer": peer}
                        )
                    at += 100_000
    return rows


def test_messages_go_where_they_are_sent_and_a_slow_link_is_named() -> None:
    found = traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(messages((2, 0)))))))
    ranks, cells = matrix(found, "bytes")
    assert ranks == [0, 1, 2] and cells.tolist() == [
        [0, 20 * SIZE, 20 * SIZE],
        [20 * SIZE, 0, 20 * SIZE],
        [20 * SIZE, 20 * SIZE, 0],
    ]
    (slow,) = slow_links(found)
    assert (slow.values["source"], slow.values["destination"]) == (2, 0)
    assert slow.values["bandwidth"] == pytest.approx(SIZE / 80e-6, rel=0.01)


def test_a_link_that_is_slow_both_ways_is_one_fault() -> None:
    rows = messages((2, 0), (0, 2))
    found = slow_links(traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(rows))))))
    (both,) = found
    assert {both.values["source"], both.values["destination"]} == {0, 2}
    assert both.saves_ns == pytest.approx(2 * 20 * 60_000, rel=0.01)
    assert both.text.count("GB/s") == 3


def test_links_between_hosts_are_compared_with_each_other() -> None:
    """Ranks 0 and 1 share a host; the network to rank 2 is slower than what joins the two, for all of them alike."""
    network = [(0, 2), (2, 0), (1, 2), (2, 1)]
    rows = messages(*network)
    found = traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(rows)))))
    assert slow_links(found, {0: "a", 1: "a", 2: "b"}) == []
    for row in rows:
        for message in row:
            if {message["peer"], rows.index(row)} == {1, 2}:
                message["end"] += 240_000
    found = traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(rows)))))
    (slow,) = slow_links(found, {0: "a", 1: "a", 2: "b"})
    assert {slow.values["source"], slow.values["destination"]} == {1, 2}


def test_even_links_are_not_slow() -> None:
    found = traffic(Waiting(Job(tuple(summary(rank, own) for rank, own in enumerate(messages())))))
    assert slow_links(found) == []
