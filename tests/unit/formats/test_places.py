"""Devices, contexts and streams of what is exported."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import warpsight
from warpsight.model import StoredTrace, TraceWriter


class _InAnyOrder:
    """A result of DuckDB: rows that no ORDER BY arranged come as they like, here backwards at every second time."""

    def __init__(self, result: Any, backwards: bool) -> None:
        self.result, self.backwards = result, backwards

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    def fetchall(self) -> list[Any]:
        rows: list[Any] = self.result.fetchall()
        return rows[::-1] if self.backwards else rows


def test_all_queries_of_an_export_give_a_context_number_of_two_devices_to_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TraceWriter(tmp_path / "trace") as writer:
        writer.add(
            "process", [{"process": 0, "pid": 1, "command": "x", "executable": "x", "host": "h", "start": 0}]
        )
        writer.add("context", [{"process": 0, "context": 1, "device": device, "null_stream": 7, "api": "cuda"}
                               for device in (3, 11)])  # fmt: skip
        writer.add(
            "sync", [{"start": 10, "duration": 5, "kind": "stream", "context": 1, "stream": 7, "process": 0}]
        )
    ask, turns = StoredTrace.sql, itertools.count()

    def sql(trace: StoredTrace, text: str, *rest: Any) -> Any:
        return _InAnyOrder(
            ask(trace, text, *rest),
            "device IS NOT NULL" in text and "ORDER BY" not in text and next(turns) % 2 == 1,
        )

    monkeypatch.setattr(StoredTrace, "sql", sql)
    with warpsight.open(tmp_path / "trace") as trace:
        trace.export("chrome", tmp_path / "out")
    events = json.loads((tmp_path / "out").read_text(encoding="utf-8"))["traceEvents"]
    assert len([one for one in events if one["ph"] == "X"]) == 1
