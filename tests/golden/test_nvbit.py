"""Traces with NVBit of `tests/gpu/nvbit_truth.cu`, recorded on an H100, against what the program says itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.golden import nvbit_truth
from warpsight.race.points import matching
from warpsight.sass.event_memory import accesses
from warpsight.sass.event_trace import EventTrace

HERE = Path(__file__).parent / "nvbit"


def test_every_execution_is_told_once() -> None:
    assert nvbit_truth.executions(EventTrace(HERE / "calls.events.zst")) == nvbit_truth.COUNTED


def test_registers_hold_what_the_program_stored() -> None:
    said = json.loads((HERE / "truth.json").read_text())
    trace = EventTrace(HERE / "truth.events.zst")
    assert nvbit_truth.stored(trace, said["out"]) == {i: {value} for i, value in enumerate(said["values"])}
    assert trace.notes == []


def test_generic_addresses_are_of_the_memory_that_they_point_into() -> None:
    trace = EventTrace(HERE / "truth.events.zst")
    found = {(row.space, row.operation): row.lanes for row in accesses(trace) if row.kernel.startswith("generic(")}
    assert found["shared", "store"] >= 48
    assert found["global", "store"] == 48 + 16  # the last store, and the generic one of 16 lanes


def test_functions_that_a_kernel_calls_are_recorded_with_their_lines() -> None:
    trace = EventTrace(HERE / "calls.events.zst")
    launch = nvbit_truth.launch_of(trace, "calls")
    events = trace.of_launch(launch.number)
    events = events.take(events.is_execution)
    places = trace.places(launch, events.pc)
    inside = [place for place in places if "mixed" in place.function]
    returns = [place for place in inside if trace.sass(place).startswith("RET")]
    assert len(returns) == 2
    assert trace.chain(inside[0])[0].file.endswith("nvbit_truth.cu")


def test_points_of_delay_plans_are_found_by_their_text() -> None:
    trace = EventTrace(HERE / "calls.events.zst")
    found = matching(trace, ["MEMBAR", "^@!?P0 STG"])
    assert sorted((point.opcode.split(".")[0], point.kind) for point in found) == [
        ("MEMBAR", "instruction"), ("STG", "instruction"),
    ]  # fmt: skip
    assert len(matching(trace, ["*"])) == sum(len(said["instructions"]) for said in trace.file.operands)
    assert np.all([point.source[0].endswith(tuple("0123456789")) for point in found])
