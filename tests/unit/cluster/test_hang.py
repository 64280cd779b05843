"""Which rank a hung job waits for: dumps in the layout of PyTorch 2.13, which wrote such ones for a job over gloo."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.integration.secret_canaries import CANARIES, Canary
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.hang import hang
from warpsight.cluster.job import load
from warpsight.cluster.verdict import judge
from warpsight.errors import TraceError
from warpsight.formats.snapshot import flight_recorder


def entry(sequence: int, operation: str = "nccl:all_reduce", size: int = 1000, group: str = "0", state: str = "completed",
          line: int = 9) -> dict[str, Any]:  # fmt: skip
    return {"frames": [{"name": "all_reduce", "filename": "torch/distributed/distributed_c10d.py", "line": 1},
                       {"name": "train", "filename": "train.py", "line": line}],
            "record_id": sequence, "pg_id": int(group), "process_group": (group, "default_pg"), "collective_seq_id": sequence,
            "p2p_seq_id": 0, "op_id": sequence, "profiling_name": operation, "time_created_ns": 10**18 + sequence * 10**6,
            "input_sizes": [[size]], "input_dtypes": ["Float"], "output_sizes": [[size]], "output_dtypes": ["Float"],
            "state": state, "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False}  # fmt: skip


def write(
    folder: Path, rank: int, entries: list[dict[str, Any]], ranks: int = 3, plain: bool = False
) -> Path:
    called = [one["collective_seq_id"] for one in entries]
    ended = [one["collective_seq_id"] for one in entries if one["retired"]]
    status = {"0": {"last_enqueued_collective": max(called, default=0), "last_started_collective": -1,
                    "last_completed_collective": max(ended, default=0)}}  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    content = {
        "version": "2.10",
        "nccl_version": "2.28",
        "pg_config": config,
        "pg_status": status,
        "entries": entries,
    }
    path = folder / f"rank_{rank}"
    path.write_bytes(json.dumps(content).encode() if plain else pickle.dumps(content, 2))
    return path


def done(count: int) -> list[dict[str, Any]]:
    return [entry(number) for number in range(1, count + 1)]


@pytest.mark.parametrize("plain", [False, True])
def test_a_rank_that_never_called_is_named_with_its_last_call(tmp_path: Path, plain: bool) -> None:
    for rank in range(3):
        last = [] if rank == 1 else [entry(5, state="started", line=17)]
        write(tmp_path, rank, done(4) + last, plain=plain)
    found = judge(load([tmp_path], LocalExecutor(1))).findings
    assert found[0].rule == "cluster/hang" and found[0].values["ranks"] == [1]
    assert "never called number 5" in found[0].text and "train (train.py:17)" in found[0].text
    assert "train (train.py:9)" in str(found[0].evidence)


def test_a_call_of_another_size_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [*done(4), entry(5, size=900 if rank == 1 else 1000, state="started")], ranks=2)
    found = hang([flight_recorder.read(path) for path in sorted(tmp_path.iterdir())])
    assert found[0].rule == "cluster/mismatch" and found[0].values["ranks"] == [1]


def test_a_device_that_never_begins_is_named(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, [*done(4), entry(5, state="scheduled" if rank == 2 else "started")])
    found = hang([flight_recorder.read(path) for path in sorted(tmp_path.iterdir())])
    assert found[0].values["ranks"] == [2] and "has not begun it" in found[0].text


def test_a_rank_that_itself_waits_elsewhere_is_not_the_first_cause(tmp_path: Path) -> None:
    """Rank 1 is missing from group 0 because it waits in group 1, which rank 2 never joined."""
    write(tmp_path, 0, [*done(4), entry(5, state="started")])
    write(tmp_path, 1, [*done(4), entry(1, group="1"), entry(2, group="1", state="started")])
    write(tmp_path, 2, [*done(4), entry(1, group="1")])
    found = hang([flight_recorder.read(path) for path in sorted(tmp_path.iterdir())])
    assert (found[0].values["group"], found[0].values["ranks"]) == ("1", [2])


def test_a_rank_without_a_dump_is_told(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path, rank, done(4))
    found = hang([flight_recorder.read(path) for path in sorted(tmp_path.iterdir())])
    assert [one.values["ranks"] for one in found if one.rule == "cluster/missing"] == [[2]]


def test_a_dump_that_refers_to_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(
        b"\x80\x02}q\x00X\x07\x00\x00\x00versionq\x01cos\nsystem\nq\x02X\x04\x00\x00\x00trueq\x03\x85q\x04Rq\x05s."
    )
    with pytest.raises(TraceError, match="nothing was executed"):
        flight_recorder.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"collective_seq_id": float("inf")}, {"time_created_ns": 1e999}, {"input_sizes": [[float("inf")]]},
        {"input_sizes": [["x"]]}, {"frames": [{"name": "f"}]},
    ],
)  # fmt: skip
def test_numbers_that_no_dump_has_are_damage(change: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, 0, [entry(1) | change], plain=True)
    with pytest.raises(TraceError, match="is not a dump of PyTorch's flight recorder"):
        flight_recorder.read(path)


@pytest.mark.parametrize("canary", CANARIES, ids=lambda one: one.kind)
def test_dumps_are_read_without_secrets(canary: Canary, tmp_path: Path) -> None:
    text = canary.text
    row = entry(1) | {"profiling_name": f"nccl:{text}", "process_group": [text, text],
                      "frames": [{"name": text, "filename": "a.py", "line": 1}]}  # fmt: skip
    path = write(tmp_path, 0, [row], plain=True)
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"pg_config": {text: {"desc": text, "ranks": "[0]"}}})
    )
    assert canary.secret not in repr(flight_recorder.read(path))


def test_what_a_pickle_refers_to_often_is_made_once(tmp_path: Path) -> None:
    """300 entries of 2,000 frames each, all the same list: some kilobytes that were 100 MB of texts."""
    frames = [{"name": f"f{i}", "filename": "x.py", "line": i} for i in range(2000)]
    sizes = [[1] * 100] * 100
    rows = [entry(number) | {"frames": frames, "input_sizes": sizes} for number in range(1, 301)]
    path = write(tmp_path, 0, rows)
    tracemalloc.start()
    found = flight_recorder.read(path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert found.entries[-1].frames[-1] == "f1999 (x.py:1999)"
    assert found.entries[-1].sizes == ((1,) * 100,) * 100


def test_a_cut_off_dump_leaves_the_other_ranks_answer(tmp_path: Path) -> None:
    for rank in range(3):
        path = write(tmp_path, rank, done(4) + ([] if rank == 1 else [entry(5, state="started")]))
    path.write_bytes(path.read_bytes()[:-40])
    found = judge(load([tmp_path], LocalExecutor(1))).findings
    assert found[0].values["ranks"] == [1]
    assert [one.values["path"] for one in found if one.rule == "cluster/unread"] == [str(path)]
