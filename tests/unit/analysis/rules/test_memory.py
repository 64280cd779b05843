"""Findings about memory: each begins at the number that its rule states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import leaks
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows

#: Begin, end, bytes and address of an allocation; None: never freed.
Allocation = tuple[int, int | None, int]
Make = Callable[[int, int], list[Allocation]]


def written(path: Path, allocations: list[Allocation], **more: Any) -> Program:
    """Forty launches on a device, and allocations by the first of two stacks."""
    program = Program(path)
    for _ in range(40):
        program.launch("gemm", 100 * US)
        program.host = program.device
    stack = program.stack("grow")
    for number, (begin, end, size) in enumerate(allocations, 1):
        moved = {"address": number << 20, "kind": "device", "device": 0, "allocator": "CUDA runtime"}
        program.add(
            "memory", time=begin, operation="allocate", bytes=size << 10, stack=stack, **moved, **more
        )
        if end is not None:
            program.add("memory", time=end, operation="free", **moved, **more)
    return program


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., list[Finding]]:
    """The findings of the memory rules for allocations that depend on the time in which the host issued its work."""

    def judge(make: Make, device: dict[str, Any] | None = None) -> list[Finding]:
        with written(tmp_path / "window.warp", []).open() as trace:
            begin, end = Facts(trace, Rows()).host_window
        with written(tmp_path / "t.warp", make(begin, end)).open(**(device or {})) as trace:
            return list(leaks.check(Facts(trace, Rows())))

    return judge


def kept(begin: int, end: int, count: int = 8) -> list[Allocation]:
    """Allocations at even distances, the first at the start of the window."""
    return [(begin + (end - begin) * i // count, None, 100) for i in range(count)]


LEAKS: dict[str, tuple[Make, bool]] = {
    "eight, from the first moment on": (kept, True),
    "seven": (lambda begin, end: kept(begin, end)[1:], False),
    "one of eight before the window": (lambda b, e: [(b - 1, None, 100), *kept(b, e)[1:]], False),
    "one of eight when it is over": (lambda b, e: [*kept(b, e)[:-1], (e, None, 100)], False),
    "one of eight at the last moment": (lambda b, e: [*kept(b, e)[:-1], (e - 1, None, 100)], True),
    "one freed when the window is over": (lambda b, e: [(b, e, 100), *kept(b, e)[1:]], True),
    "one freed at the last moment": (lambda b, e: [(b, e - 1, 100), *kept(b, e)[1:]], False),
    "none in the last quarter": (lambda b, e: kept(b, b + (e - b) * 3 // 4 - 1), False),
    "a twentieth of what is held": (lambda b, e: [(b - 1, None, 15_200), *kept(b, e)], True),
    "less than a twentieth": (lambda b, e: [(b - 1, None, 15_201), *kept(b, e)], False),
    "half of those made": (lambda b, e: [*kept(b, e), *((b + i, b + i + 1, 1) for i in range(8))], True),
    "less than half": (lambda b, e: [*kept(b, e), *((b + i, b + i + 1, 1) for i in range(9))], False),
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_grows_in_every_quarter_and_stays(found: Callable[..., list[Finding]], case: str) -> None:
    make, expected = LEAKS[case]
    leaked = [one for one in found(make) if one.rule == "memory/leak"]
    assert len(leaked) == expected
    if expected:
        (one,) = leaked
        assert (one.values["allocations"], one.values["bytes"]) == (8, 800 << 10)
        assert "grow (train.py:9)" in one.text


def test_a_leak_says_when_the_device_will_be_full(found: Callable[..., list[Finding]]) -> None:
    """800 KiB in the window of a device of 4,000 KiB: 3,200 KiB are left, four times as long."""
    (one,) = found(kept, {"memory_bytes": 4_000 << 10})
    begin, end = one.at or (0, 0)
    window = (end - 1 - begin) * 8 / 7
    assert one.evidence[0] == "8 of them were not freed when the recording ended"
    assert "(3.91 MiB) is full in " in one.evidence[1]
    said, unit = one.evidence[1].rsplit(" ", 2)[1:]
    assert float(said) * {"ms": 1e6, "s": 1e9}[unit] == pytest.approx(4 * window, rel=0.01)


@pytest.mark.parametrize(("count", "expected"), [(20, True), (19, False)])
def test_churn_is_one_allocation_in_two_iterations(
    found: Callable[..., list[Finding]], count: int, expected: bool
) -> None:
    turns = 40

    def made_and_freed(begin: int, end: int) -> list[Allocation]:
        return [(begin + i * 10, end - 1 if i == 0 else begin + i * 10 + 5, 100) for i in range(count)]

    churn = [one for one in found(made_and_freed) if one.rule == "memory/churn"]
    assert len(churn) == expected
    if expected:
        assert (
            churn[0].text == f"{count / turns:.1f} device allocations per iteration are made and freed again"
        )
        assert churn[0].values == {"allocations": count}


@pytest.mark.parametrize(("peak", "expected"), [(920, True), (919, False)])
def test_a_device_is_nearly_full_from_92_percent_on(
    found: Callable[..., list[Finding]], peak: int, expected: bool
) -> None:
    moments: list[int] = []

    def make(begin: int, end: int) -> list[Allocation]:
        moments.append(begin + 7)
        return [(begin, begin + 9, peak - 20), (begin + 7, begin + 8, 20)]

    full = [one for one in found(make, {"memory_bytes": 1_000 << 10}) if one.rule == "memory/nearly-full"]
    assert len(full) == expected
    if expected:
        assert full[0].values == {"peak": 920 << 10}
        assert (full[0].text, full[0].at) == ("memory of GPU 0 was 92% full", (moments[0], moments[0] + 1))


def test_a_second_free_is_an_error_at_its_moment(tmp_path: Path) -> None:
    program = written(tmp_path / "t.warp", [(5_000, 6_000, 64)])
    again = {
        "operation": "free",
        "address": 1 << 20,
        "kind": "device",
        "device": 0,
        "allocator": "CUDA runtime",
    }
    program.add("memory", time=7_000, **again)
    program.add("memory", time=8_000, **again)
    with program.open() as trace:
        (one,) = (one for one in leaks.check(Facts(trace, Rows())) if one.rule == "memory/double-free")
    assert (one.severity, one.values, one.at) == ("error", {"frees": 2}, (7_000, 7_001))
    assert one.text == "2 frees of memory that was already freed, the first at address 0x100000"
