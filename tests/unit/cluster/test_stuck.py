"""Jobs that stand still, from recordings alone: kernels that never end have no record, their collectives are only asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.verdict import JobVerdict, judge
from warpsight.model import TraceWriter

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MS = 1_000_000
BUCKETS = (8_192, 16_384, 4_096)


def write(
    path: Path, rank: int, asked: list[int], ended: int, seen: int, place: str = "", left: str = "unknown"
) -> None:
    """A rank that asked for all-reduces of some sizes, 1 ms apart; the kernels of the first `ended` were recorded.

    It is seen up to `seen` ns after it began, from its last request on in `place`.
    """
    with TraceWriter(path) as writer:
        writer.add("process", [{"process": 0, "pid": 100 + rank, "host": "a", "rank": rank, "world_size": 2,
                                "command": "python train.py", "executable": "python", "start": 0, "exit": left}])  # fmt: skip
        writer.add("clock", [{"monotonic": moment, "realtime": 10**18 + moment} for moment in (0, seen)])
        name = writer.name(ALL_REDUCE)
        stack = writer.stack(["main (train.py:1)", f"reduce{rank} (train.py:{20 + rank})"])
        rows: dict[str, list[dict[str, Any]]] = {"kernel": [], "launch": [], "collective": [], "sample": []}
        for number, size in enumerate(asked):
            start, correlation = number * MS, number + 1
            rows["launch"].append({"start": start, "duration": 2_000, "function": "cudaLaunchKernel", "thread": 100 + rank,
                                   "correlation": correlation, "process": 0, "captured": False, "stack": stack})  # fmt: skip
            rows["collective"].append({"start": start, "operation": "all-reduce", "bytes": size, "dtype": "f32", "ranks": 2,
                                       "group": "0x5", "correlation": correlation, "process": 0, "sequence": number,
                                       "rank": rank, "channels": 24, "id": correlation})  # fmt: skip
            if number < ended:
                rows["kernel"].append({"start": start + 10_000, "duration": 50_000, "name_id": name, "device": rank, "context": 1,
                                       "stream": 7, "correlation": correlation, "process": 0, "graph_level": False})  # fmt: skip
        last = writer.stack(["main (train.py:1)", f"{place} (train.py:9)"]) if place else stack
        rows["sample"] = [{"time": moment, "thread": 100 + rank, "process": 0, "stack": last, "state": "R", "gil": True}
                          for moment in range(len(asked) * MS, seen, 10 * MS)]  # fmt: skip
        for table, listed in rows.items():
            writer.add(table, listed)


def verdict(folder: Path, ranks: list[dict[str, Any]]) -> JobVerdict:
    for rank, options in enumerate(ranks):
        write(folder / f"rank={rank:05d}", rank, **options)
    return judge(load([folder], LocalExecutor(1)))


def sizes(count: int) -> list[int]:
    return [BUCKETS[number % 3] for number in range(count)]


def test_a_rank_that_never_asked_is_named_with_what_it_did(tmp_path: Path) -> None:
    first = verdict(tmp_path, [{"asked": sizes(40), "ended": 30, "seen": 8_000 * MS},
                               {"asked": sizes(30), "ended": 30, "seen": 8_000 * MS, "place": "read_shard"}],
                    ).findings[0]  # fmt: skip
    assert (first.rule, first.values["ranks"], first.values["waiting"], first.values["number"]) == (
        "cluster/hang",
        [1],
        [0],
        30,
    )
    assert "never came to the all-reduce number 31" in first.text and "read_shard (train.py:9)" in first.text


@pytest.mark.parametrize("lost", [(0, 0), (7, 0), (3, 9)])
def test_a_call_of_another_size_is_named_though_records_of_kernels_before_it_are_lost(
    tmp_path: Path, lost: tuple[int, int]
) -> None:
    """A process that is killed leaves the records of its last kernels behind."""
    ranks = [{"asked": sizes(36), "ended": 30 - lost[0], "seen": 8_000 * MS},
             {"asked": [*sizes(30), 77, *sizes(5)], "ended": 30 - lost[1], "seen": 8_000 * MS}]  # fmt: skip
    first = verdict(tmp_path, ranks).findings[0]
    assert (first.rule, first.values["ranks"], first.values["number"]) == ("cluster/mismatch", [1], 30)
    assert "did an all-reduce of 77 B, rank 0 an all-reduce of 8,192 B" in first.text
    assert first.evidence[1] == "rank 1: an all-reduce of 77 B, at reduce1 (train.py:21)"


def test_where_all_asked_alike_no_rank_is_blamed(tmp_path: Path) -> None:
    ranks = [{"asked": sizes(36), "ended": 30, "seen": 8_000 * MS} for _ in range(2)]
    first = verdict(tmp_path, ranks).findings[0]
    assert (first.rule, first.values["ranks"], first.values["waiting"]) == ("cluster/hang", [], [0, 1])
    assert "does not end on ranks 0, 1" in first.text and "though all called it alike" in first.text


def test_a_rank_whose_process_ended_is_said_to_have(tmp_path: Path) -> None:
    first = verdict(tmp_path, [{"asked": sizes(40), "ended": 30, "seen": 8_000 * MS},
                               {"asked": sizes(30), "ended": 30, "seen": 40 * MS}]).findings[0]  # fmt: skip
    assert first.values["ranks"] == [1] and first.text.endswith("its process had ended")


def test_a_job_that_was_stopped_in_the_middle_does_not_hang(tmp_path: Path) -> None:
    """Each rank is some operations ahead of its device then."""
    ranks = [{"asked": sizes(count), "ended": 30, "seen": 38 * MS} for count in (38, 36)]
    assert all(one.severity != "error" for one in verdict(tmp_path, ranks).findings)


def test_a_rank_that_failed_shortly_before_the_others_were_ended_is_said_to_have(tmp_path: Path) -> None:
    first = verdict(tmp_path, [{"asked": sizes(40), "ended": 30, "seen": 1_000 * MS, "left": "signal 15"},
                               {"asked": sizes(30), "ended": 30, "seen": 900 * MS, "left": "exit 1"}]).findings[0]  # fmt: skip
    assert first.values["ranks"] == [1] and first.text.endswith("its process had ended (exit code 1)")


def test_a_rank_that_was_seen_nearly_as_long_as_the_others_is_not_said_to_have_ended(tmp_path: Path) -> None:
    first = verdict(tmp_path, [{"asked": sizes(40), "ended": 30, "seen": 8_000 * MS},
                               {"asked": sizes(30), "ended": 30, "seen": 7_500 * MS}]).findings[0]  # fmt: skip
    assert first.values["ranks"] == [1] and "had ended" not in first.text
