"""Sequences of kernels by operator, against looking at every operator and every launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.account.rows import marker, operator
from tests.unit.analysis.conftest import Build, kernel, launch
from warpsight.analysis.steps import sequences

NAMES = ("a", "b", "nn.Module: Net_0", "nn.Module: Net_1", "op")
Row = dict[str, Any]


def recounted(
    ranges: list[Row], ops: list[Row], launches: list[Row], kernels: list[Row]
) -> set[tuple[Any, ...]]:
    """By operator and kernels: how often, device time, host time of the launches; the outermost of equal ones."""
    by_call = {
        row["correlation"]: [k for k in kernels if k["correlation"] == row["correlation"]] for row in launches
    }
    seen: set[tuple[tuple[int, ...], ...]] = set()
    out = set()
    for table in (ranges, ops):
        groups: dict[tuple[str, tuple[int, ...]], list[tuple[int, list[tuple[Row, Row]]]]] = {}
        for row in sorted(table, key=lambda one: (one["start"], -one["duration"])):
            inside = [
                (call, one)
                for call in sorted(launches, key=lambda one: one["start"])
                if (call["process"], call["thread"]) == (row["process"], row["thread"])
                and row["start"] <= call["start"] < row["start"] + row["duration"]
                for one in sorted(by_call[call["correlation"]], key=lambda one: one["start"])
            ]
            if 1 < len(inside) <= sequences.LONGEST:
                name = NAMES[row["name_id"] - 1].removesuffix("_0").removesuffix("_1")
                key = name, tuple(one["name_id"] for _, one in inside)
                groups.setdefault(key, []).append((row["start"], inside))
        for (name, ids), found in groups.items():
            instances = sorted(tuple(id(one) for _, one in inside) for _, inside in found)
            if tuple(instances) in seen:
                continue
            seen.add(tuple(instances))
            pairs = [pair for _, inside in found for pair in inside]
            total = sum(one["duration"] for _, one in pairs)
            host = sum(call["duration"] // len(by_call[call["correlation"]]) for call, _ in pairs)
            out.add(
                (
                    name,
                    len(ids),
                    len(found),
                    total,
                    total / len(found),
                    host,
                    " → ".join(NAMES[i - 1] for i in ids),
                )
            )
    return out


@pytest.mark.parametrize("seed", range(10))
def test_sequences_are_those_of_looking_at_every_launch(build: Build, monkeypatch: Any, seed: int) -> None:
    monkeypatch.setattr(sequences, "LONGEST", 4)
    rng = np.random.default_rng(seed)
    where = [{"thread": int(rng.integers(100, 102)), "process": int(rng.integers(2))} for _ in range(30)]
    times = (rng.permutation(300)[:30] * 2 + 1).tolist()  # no launch begins when a range does
    launches = [
        launch(t, int(rng.integers(1, 9)), i + 1, **of)
        for i, (t, of) in enumerate(zip(times, where, strict=True))
    ]
    kernels = []
    for row in launches:
        for _ in range(int(rng.choice((1, 1, 1, 2)))):  # a graph launches several
            kernels.append(kernel(1_000 + len(kernels) * 10, int(rng.integers(1, 9)), int(rng.integers(1, 3)),
                                  correlation=row["correlation"], process=row["process"]))  # fmt: skip

    def ranges(make: Any, ids: tuple[int, ...], count: int) -> list[Row]:
        begin = rng.permutation(250)[:count] * 2
        return [make(int(b), int(rng.integers(5, 60)) * 2, int(rng.choice(ids)), thread=int(rng.integers(100, 102)),
                     process=int(rng.integers(2))) for b in begin]  # fmt: skip

    markers, ops = ranges(marker, (3, 4), 12), ranges(operator, (5,), 12)
    trace = build(names=NAMES, launch=launches, kernel=kernels, marker=markers, op=ops)
    found = sequences.sequences(trace).tables["sequences"].to_pylist()
    assert {tuple(row.values()) for row in found} == recounted(markers, ops, launches, kernels)
    assert [row["total"] for row in found] == sorted((row["total"] for row in found), reverse=True)


def test_a_trace_without_ranges_says_so(build: Build) -> None:
    result = sequences.sequences(build(kernel=[kernel(0, 5, correlation=1)], launch=[launch(0, 1, 1)]))
    assert [one.text for one in result.findings][-1] == (
        "the trace has no operators and no ranges whose kernels could be compared"
    )
    assert not len(result.tables["sequences"])
