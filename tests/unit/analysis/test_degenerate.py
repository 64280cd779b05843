"""Every analysis on traces that are empty, tiny, damaged or wrong: an answer or a clear one-line error, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.unit.analysis.conftest import EPOCH, NAMES, Build, copy, device, kernel, launch, messy_rows
from warpsight.analysis.account.classes import CLASSES, IDLE
from warpsight.analysis.base.registry import ANALYSES
from warpsight.analysis.base.result import Result
from warpsight.errors import WarpsightError
from warpsight.model import StoredTrace
from warpsight.model.selection import Rows
from warpsight.ui.cli.output import plain

Answers = Callable[[str, str], Result | WarpsightError]
IDLE_CLASSES = tuple(CLASSES[kind] for kind in IDLE)
SHAPE = {"grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 32}
GPU = device(0, compute_capability="9.0", multiprocessors=132, clock_khz=1_980_000)
PROCESS = {"process": 0, "pid": 1, "host": "h", "command": "c", "executable": "e", "start": 0}


def everything(origin: int = EPOCH) -> dict[str, Any]:
    """A little of every table an analysis reads."""
    rows: dict[str, Any] = messy_rows(7, origin, 60)
    for row in rows["kernel"]:
        row |= {"shape_id": 1, "stack": 1}
    host = {"thread": 100, "process": 0}
    rows |= {
        "process": [PROCESS, {**PROCESS, "process": 1, "pid": 2}],
        "thread": [{"thread": 100, "name": "MainThread", "process": 0}],
        "device": [GPU, device(1)],
        "api": [{"start": origin + 50 * i, "duration": 20, "function": f, "correlation": 900 + i, **host}
                for i, f in enumerate(("cudaMalloc", "cudaMemcpy", "cudaStreamSynchronize", "cudaFree"))],
        "sync": [{"start": origin + 90 * i, "duration": 60, "kind": k, "context": 1, "stream": 7, "process": 0, "event_sync": 5}
                 for i, k in enumerate(("stream", "stream wait event", "context", "event"))],
        "event": [{"time": origin + 80, "event": 1, "event_sync": 5, "context": 1, "stream": 13, "process": 0}],
        "marker": [{"start": origin + 500 * i, "duration": 400, "kind": "push/pop", "open": False, "name_id": 1 + i % 2,
                    "source": "nvtx", "depth": 0, **host} for i in range(6)],
        "op": [{"start": origin + 500 * i, "duration": 300, "name_id": 2, **host} for i in range(6)],
        "memory": [{"time": origin + 10 * i, "operation": ("allocate", "free")[i % 3 == 2], "address": 4096 * (i % 3),
                    "bytes": 100, "kind": "device", "device": 0, "process": 0, "stack": 1} for i in range(9)],
        "counter": [{"time": origin + 100 * i, "name": n, "value": 1000.0 + i, "unit": u, "device": 0, "source": "nvml"}
                    for i in range(20) for n, u in (("sm_clock", "MHz"), ("power", "W"), ("throttle_sync_boost", "1"))],
        "sample": [{"time": origin + 30 * i, "stack": 1 + i % 2, "state": "RS"[i % 2], "gil": i % 2 == 0, **host}
                   for i in range(50)],
        "overhead": [{"start": origin + 700, "duration": 50, "kind": "buffer flush", "process": 0}],
        "collective": [{"operation": "all-reduce", "bytes": 100, "ranks": 2, "correlation": 3, "process": 0}],
        "loss": [{"source": "ring", "cause": "the ring was full", "count": 12, "kind": "kernel", "severity": "lost",
                  "start": origin, "end": origin + 9_000}],
    }  # fmt: skip
    return rows


def only(*tables: str) -> Callable[[], dict[str, Any]]:
    return lambda: {name: rows for name, rows in everything().items() if name in tables}


def without(*tables: str) -> Callable[[], dict[str, Any]]:
    return lambda: {name: rows for name, rows in everything().items() if name not in tables}


def backwards() -> dict[str, Any]:
    """A clock that ran back in the middle: ends before begins, kernels before their launches, samples out of order."""
    rows = everything()
    for table in ("kernel", "memcpy", "memset", "launch", "api", "sync", "marker", "op", "overhead"):
        for row in rows[table][::2]:
            row["duration"] = None if row["duration"] is None else -3 - row["duration"]
    for row in rows["kernel"][::3]:
        row["start"] = None if row["start"] is None else row["start"] - 4_000_000
    for row in rows["sample"][::2]:
        row["time"] -= 5_000
    return rows


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "empty": dict,
    "only definitions": only("process", "device", "thread"),
    "one kernel": lambda: {"kernel": [kernel(EPOCH, 10)]},
    "one kernel of no time": lambda: {"kernel": [kernel(EPOCH, 0)]},
    "one kernel that never ran": lambda: {"kernel": [kernel(None, None, correlation=1)], "launch": [launch(EPOCH, 5, 1)]},
    "one launch": lambda: {"launch": [launch(EPOCH, None, 1)]},
    "one copy": lambda: {"memcpy": [copy(EPOCH, 10)]},
    "one kernel without a device": lambda: {"kernel": [{**kernel(EPOCH, 10), "device": None}]},
    "one allocation": only("memory"),
    "only samples and counters": only("sample", "counter"),
    "everything": everything,
    "at the start of time": lambda: everything(0),
    "before the start of time": lambda: everything(-3_000),
    "clock backwards": backwards,
    "far apart": lambda: {"kernel": [kernel(0, 5, correlation=1), kernel(EPOCH, 5, correlation=2)],
                          "launch": [launch(-2, 1, 1), launch(EPOCH - 5, 1, 2)]},
    "all at one moment": lambda: {"kernel": [kernel(EPOCH, 0, correlation=i, stream=i % 3) for i in range(30)],
                                  "launch": [launch(EPOCH, 0, i) for i in range(30)]},
    "ids that nothing defines": lambda: {"kernel": [kernel(EPOCH, 5, 77, shape_id=88, stack=99, correlation=1)],
                                         "launch": [launch(EPOCH - 5, 2, 1, stack=99, name_id=77)],
                                         "sample": [{"time": EPOCH - 2, "thread": 100, "stack": 99, "state": "R", "gil": True,
                                                     "process": 0}]},
    "no correlations": lambda: {"kernel": [kernel(EPOCH + 20 * i, 5) for i in range(9)], "launch": [
        {**launch(EPOCH + 20 * i, 5, 0), "correlation": None} for i in range(9)]},
    **{f"without {table}": without(table) for table in ("kernel", "launch", "device", "sample")},
    "without calls and waits": without("api", "sync", "event", "marker"),
    "without what describes": without("process", "thread", "device", "op", "overhead", "collective", "memory", "counter"),
}  # fmt: skip
WINDOWS = {
    "a part": Rows(EPOCH + 500, EPOCH + 900),
    "nothing": Rows(EPOCH + 10**12, EPOCH + 10**12 + 5),
    "backwards": Rows(EPOCH + 900, EPOCH + 500),
    "another device": Rows(devices=(55,), streams=(3,), processes=(9,)),
    "no name": Rows(name="nothing has this name"),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every case as a trace, made once."""
    from warpsight.model import TraceWriter
    from warpsight.model import open as open_trace

    folder, opened = tmp_path_factory.mktemp("degenerate"), {}
    for number, (case, make) in enumerate(CASES.items()):
        with TraceWriter(folder / f"{number}.warp") as writer:
            for name in NAMES:
                writer.name(name)
            writer.shape(**SHAPE)
            writer.stack([("main", "train.py", 3, None, "python", None)])
            writer.stack([("main", "train.py", 3, None, "python", None), "load"])
            for table, rows in make().items():
                writer.add(table, rows)
        opened[case] = open_trace(folder / f"{number}.warp")
    yield opened
    for trace in opened.values():
        trace.close()


@pytest.fixture(scope="module")
def answers(traces: dict[str, StoredTrace]) -> Answers:
    """What an analysis answers a case; each is asked once."""

    @cache
    def answer(case: str, name: str) -> Result | WarpsightError:
        return answered(traces[case], name, Rows())

    return answer


def answered(trace: StoredTrace, name: str, rows: Rows) -> Result | WarpsightError:
    try:
        return ANALYSES[name].run(trace, rows)
    except WarpsightError as error:
        return error


def check(answer: Result | WarpsightError) -> None:
    """An error of one line, or a result that JSON can hold and whose findings are sentences."""
    if isinstance(answer, WarpsightError):
        assert str(answer)
        assert "\n" not in str(answer)
        return
    import msgspec

    json.loads(msgspec.json.encode(answer.to_json(), enc_hook=plain))
    for finding in answer.findings:
        assert finding.severity in ("note", "warning", "error", "loss")
        assert finding.text


@pytest.mark.parametrize("name", list(ANALYSES))
@pytest.mark.parametrize("case", list(CASES))
def test_every_analysis_answers_every_trace(answers: Answers, name: str, case: str) -> None:
    check(answers(case, name))


@pytest.mark.parametrize("name", list(ANALYSES))
@pytest.mark.parametrize("window", list(WINDOWS))
def test_every_analysis_answers_for_any_rows(traces: dict[str, StoredTrace], name: str, window: str) -> None:
    check(answered(traces["everything"], name, WINDOWS[window]))


@pytest.mark.parametrize("case", list(CASES))
def test_times_add_up_however_wrong_the_clock(answers: Answers, case: str) -> None:
    def rows(name: str, table: str) -> list[dict[str, Any]]:
        answer = answers(case, name)
        assert isinstance(answer, Result)
        return answer.tables[table].to_pylist()

    devices = {row["device"]: row for row in rows("utilization", "devices")}
    for row in devices.values():
        assert row["busy"] + row["idle"] == row["window"]
        assert 0 <= row["utilization"] <= 1
    for number, row in devices.items():
        assert (
            sum(r["time"] for r in rows("concurrency", "concurrency") if r["device"] == number)
            == row["window"]
        )
    for row in rows("account", "devices"):
        assert min(row[name] for name in CLASSES) >= 0
        assert sum(row[name] for name in CLASSES) == row["span"]
        assert row["compute"] + row["communication"] + row["copy"] == devices[row["device"]]["busy"]
    assert sum(r["time"] for r in rows("account", "account")) == sum(
        r["span"] for r in rows("account", "devices")
    )
    for gap in rows("gaps", "gaps"):
        parts = [gap[name] for name in IDLE_CLASSES]
        assert min(parts) >= 0
        assert sum(parts) == gap["duration"] > 0
    for row in rows("states", "streams"):
        assert sum(row[s] for s in ("running", "waiting", "queued", "complete", "idle")) == row["window"]


def test_rows_that_end_before_they_begin_are_a_finding(build: Build) -> None:
    trace = build(kernel=[kernel(EPOCH + 100, -40), kernel(EPOCH + 200, 50)])
    result = ANALYSES["utilization"].run(trace, Rows())
    assert [f.values for f in result.findings] == [{"rows": 1}]
    assert [r["busy"] for r in result.tables["devices"].to_pylist()] == [50]


def test_an_empty_answer_says_that_it_is_empty(answers: Answers) -> None:
    for name in ("utilization", "concurrency", "breakdown", "overlap", "gaps", "states", "copies", "communication", "occupancy",
                 "clocks", "launch-latency", "queue-depth", "launch-bound", "launch-overhead"):  # fmt: skip
        answer = answers("empty", name)
        assert isinstance(answer, Result)
        assert answer.findings, name
