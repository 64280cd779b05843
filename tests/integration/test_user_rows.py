"""What a program says about itself is in every table, summary and export."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, record

PROGRAM = """
import time, threading
import warpsight as ws
begin = time.monotonic_ns()
def speak():
    for number in range(5):
        ws.emit("load batch", start=begin, duration=2_000_000, kind="io", number=number)
        ws.counter("queue length", number, "items")
other = threading.Thread(target=speak)
other.start(); other.join()
ws.mark("converged", loss=0.5)
ws.memory.allocate(0x1000, 4096, allocator="arena", tag="weights", category="parameter")
ws.memory.free(0x1000, allocator="arena")
"""


@pytest.fixture(scope="module")
def said(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("said") / "a.warp"
    found = record(library, path, [sys.executable, "-c", PROGRAM], "--sample", "off", "--counters", "off")
    assert found.code == 0, found.err
    return found


def verb(said: Recorded, name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "warpsight.cli", name, str(said.path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(Path("unused")))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_events_marks_and_counters_are_rows_with_their_attributes(said: Recorded) -> None:
    rows = said.sql("SELECT name, kind, duration, count(*) FROM user_event GROUP BY ALL ORDER BY name")
    assert rows == [("converged", "mark", 0, 1), ("load batch", "io", 2_000_000, 5)]
    assert said.sql("SELECT attributes FROM user_event WHERE kind = 'mark'") == [('{"loss": 0.5}',)]
    assert said.sql("SELECT value, unit, source FROM counter ORDER BY value") == [
        (float(n), "items", "user") for n in range(5)
    ]


def test_reported_allocations_keep_allocator_tag_and_category(said: Recorded) -> None:
    rows = said.sql("SELECT operation, bytes, kind, allocator, tag, category FROM memory ORDER BY time")
    assert rows[0] == ("allocate", 4096, "reported", "arena", "weights", "parameter")
    assert rows[1][0] == "free"


def test_summaries_have_them(said: Recorded) -> None:
    events = json.loads(verb(said, "stats", "events", "--json"))
    group = events["tables"]["events"]["rows"]
    assert {(row["name"], row["kind"], row["count"], row["total"]) for row in group} == {
        ("load batch", "io", 5, 10_000_000),
        ("converged", "mark", 1, 0),
    }
    assert "queue length" in verb(said, "stats", "counters")
    assert "arena" in verb(said, "stats", "memory")


def test_the_chrome_export_has_them(said: Recorded, tmp_path: Path) -> None:
    verb(said, "export", "--to", "chrome", "-o", str(tmp_path / "a.json"))
    data = (tmp_path / "a.json").read_bytes()
    events = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]
    named = [event for event in events if event["name"] == "load batch"]
    assert [event["dur"] for event in named] == [2000] * 5
    assert len([event for event in events if event["name"] == "converged"]) == 1
    assert sum("queue length" in event["name"] for event in events if event["ph"] == "C") == 5


def test_the_perfetto_export_has_them(said: Recorded, tmp_path: Path) -> None:
    verb(said, "export", "--to", "perfetto", "-o", str(tmp_path / "a.pftrace"))
    data = (tmp_path / "a.pftrace").read_bytes()
    for text in (b"load batch", b"converged", b"queue length", b"items"):
        assert text in data
