"""States of streams at every nanosecond, against a definition written out as one function per moment."""

import pytest

from tests.unit.analysis.conftest import EPOCH, kernel, launch, messy_rows
from warpsight.analysis.stats.states import STATES, state_history, states


def at(rows, key, t):
    """The state of a stream (process, device, context, stream) at one moment, by the definition."""
    calls = {(c["process"], c["correlation"]): c["start"] for c in rows["launch"]}
    own = [k for k in rows["kernel"] if k["start"] is not None
           and (k["process"], k["device"], k["context"], k["stream"]) == key]  # fmt: skip
    own.sort(key=lambda k: k["start"])
    others = [r for t in ("memcpy", "memset") for r in rows.get(t, ())
              if (r["process"], r["device"], r["context"], r["stream"]) == key]  # fmt: skip
    if any(r["start"] <= t < r["start"] + r["duration"] for r in [*own, *others]):
        return "running"
    queued = [k for k in own if calls[k["process"], k["correlation"]] <= t < k["start"]]
    waits = [
        s
        for s in rows.get("sync", ())
        if (s["process"], s["context"], s["stream"]) == (key[0], key[2], key[3])
    ]
    for k in queued:
        mine = calls[k["process"], k["correlation"]]
        place = own.index(k)
        before = calls[own[place - 1]["process"], own[place - 1]["correlation"]] if place else -(1 << 62)
        if any(s["kind"] == "stream wait event" and before <= s["start"] <= mine for s in waits):
            return "waiting"
    if queued:
        return "queued"
    if any(s["kind"] == "stream" and s["start"] <= t < s["start"] + s["duration"] for s in waits):
        return "complete"
    return "idle"


@pytest.mark.parametrize("seed", [3, 4])
def test_every_moment_is_in_the_state_of_the_definition(build, seed):
    rows = messy_rows(seed, count=40)
    rows["memcpy"], rows["memset"] = [], []
    rows["sync"] = [
        {"start": EPOCH + 150 * i, "duration": 90, "kind": ("stream", "stream wait event")[i % 2], "context": 1,
         "stream": (7, 13)[i % 4 // 2], "process": i % 2 if i % 3 else 0} for i in range(36)
    ]  # fmt: skip
    trace = build(**rows)
    timed = [k for k in rows["kernel"] if k["start"] is not None]
    begin, end = min(k["start"] for k in timed), max(k["start"] + k["duration"] for k in timed)
    table = states(trace).tables["streams"].to_pylist()
    history = state_history(trace).tables["history"].to_pylist()
    assert len(table) == 8
    for row in table:
        key = tuple(row[k] for k in ("process", "device", "context", "stream"))
        assert sum(row[s] for s in STATES) == row["window"] == end - begin
        expected = [at(rows, key, t) for t in range(begin, end, 7)]
        own = [h for h in history if tuple(h[k] for k in ("process", "device", "context", "stream")) == key]
        assert sum(h["duration"] for h in own) == end - begin
        assert {s: sum(h["duration"] for h in own if h["state"] == s) for s in STATES} == {
            s: row[s] for s in STATES
        }
        found = [
            next(h["state"] for h in own if h["begin"] <= t < h["begin"] + h["duration"])
            for t in range(begin, end, 7)
        ]
        assert found == expected


def test_a_life_of_one_stream(build):
    """Launched at 2, runs 10 to 20; the host waits from 5 to 30; launched at 40 behind an event, runs 60 to 70."""
    sync = {"context": 1, "stream": 7, "process": 0}
    trace = build(
        kernel=[kernel(0, 1, correlation=0), kernel(10, 10, correlation=1), kernel(60, 10, correlation=2)],
        launch=[launch(-5, 1, 0), launch(2, 1, 1), launch(40, 1, 2)],
        sync=[{"start": 5, "duration": 25, "kind": "stream", **sync},
              {"start": 35, "duration": 1, "kind": "stream wait event", **sync}],
    )  # fmt: skip
    (row,) = states(trace).tables["streams"].to_pylist()
    assert {s: row[s] for s in STATES} == {
        "running": 21,
        "waiting": 20,
        "queued": 8,
        "complete": 10,
        "idle": 11,
    }


def test_without_calls_queues_are_not_known_and_that_is_said(build):
    result = states(build(kernel=[kernel(0, 10), kernel(20, 10)]))
    (row,) = result.tables["streams"].to_pylist()
    assert {s: row[s] for s in STATES} == {
        "running": 20,
        "waiting": 0,
        "queued": 0,
        "complete": 0,
        "idle": 10,
    }
    assert [f.text for f in result.findings] == [
        "the trace has no host calls: queued time cannot be separated from idle time"
    ]
