"""What stalls are blamed on, worked out by hand from the instructions of small kernels for sm_80, sm_90 and sm_100."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tests.unit.sass.kernels import kernel, only
from tests.unit.sass.programs import Line, graph
from warpsight.device_code.registers import names
from warpsight.sass.code import KernelCode
from warpsight.sass.why.blame import Blame, Blamed, blame
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.samples import add_up

ARCHITECTURES = (80, 90, 100)


def blamed(code: KernelCode, *rows: tuple[int, str, int]) -> Blamed:
    """The blame of (instruction, reason, samples)."""
    return blame(
        Dependencies(code.graph), add_up((index * 16, reason, count, count) for index, reason, count in rows)
    )


def readers(code: KernelCode, register: str) -> list[int]:
    """The instructions that read a register."""
    return [one.index for one in code.instructions if register in names(one.access.reads)]


def first_reader(code: KernelCode, cause: int) -> int:
    """The first instruction behind a cause that reads what it wrote, and waits."""
    written = code.instructions[cause].access.writes
    return next(one.index for one in code.instructions[cause + 1 :] if one.access.reads & written)


def single(found: Sequence[Blame]) -> Blame:
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("name", "cause", "reason", "detail"),
    [
        ("load_use", "LDG", "long_scoreboard", "global memory"),
        ("load_in_loop", "LDG", "long_scoreboard", "global memory"),
        ("pointer_chase", "LDG", "long_scoreboard", "global memory"),
        ("shared_use", "LDS", "short_scoreboard", "shared memory"),
        ("special", "MUFU", "short_scoreboard", "special function"),
        ("shuffle", "SHFL", "short_scoreboard", "exchange between lanes"),
        ("atomic_result", "ATOMG", "long_scoreboard", "atomic in global memory"),
        ("through_registers", "LDG", "long_scoreboard", "global memory"),
        ("divide", "MUFU", "short_scoreboard", "special function"),
        ("array_at_run_time", "LDL", "long_scoreboard", "local memory"),
    ],
)
def test_a_stall_is_blamed_on_the_instruction_whose_result_is_waited_for(
    name: str, cause: str, reason: str, detail: str, architecture: int
) -> None:
    code = kernel(name, f"stalls.sm_{architecture}")
    producer = only(code, cause)
    waiting = first_reader(code, producer)
    found = single(blamed(code, (waiting, reason, 100)).blames)
    assert (found.cause, found.detail, found.hazard, found.samples) == (producer, detail, "RAW", 100)
    assert found.registers & code.instructions[producer].access.writes


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_loads_share_the_stall_of_what_needs_both(architecture: int) -> None:
    code = kernel("two_loads", f"stalls.sm_{architecture}")
    first, second = only(code, "LDG", 0), only(code, "LDG", 1)
    found = blamed(code, (only(code, "FMUL"), "long_scoreboard", 100))
    causes = {part.cause for part in found.blames}
    # Where both release one barrier, the one issued last is waited for; with a barrier each, both are.
    shared = (
        code.instructions[first].scheduling.write_barrier
        == code.instructions[second].scheduling.write_barrier
    )
    assert causes == ({second} if shared else {first, second})
    assert sum(part.samples for part in found.blames) == pytest.approx(100)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_wait_for_a_group_of_copies_is_blamed_on_the_copy(architecture: int) -> None:
    code = kernel("async_copy", f"stalls.sm_{architecture}")
    found = single(blamed(code, (only(code, "DEPBAR"), "long_scoreboard", 9)).blames)
    assert (found.cause, found.detail) == (only(code, "LDGSTS"), "asynchronous copy")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_fixed_wait_is_blamed_on_the_operation_in_front(architecture: int) -> None:
    code = kernel("fixed_chain", f"stalls.sm_{architecture}")
    chain = [one.index for one in code.instructions if one.operation == "FFMA"]
    found = blamed(code, *[(index, "wait", 10) for index in chain[1:]])
    assert [(part.stalled, part.cause, part.detail) for part in found.blames] == [
        (after, before, "fixed latency") for before, after in itertools.pairwise(chain)
    ]
    assert found.single_after == 1.0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_barrier_is_blamed_whether_warps_are_seen_at_it_or_behind_it(architecture: int) -> None:
    code = kernel("shared_use", f"stalls.sm_{architecture}")
    barrier = only(code, "BAR")
    for seen in (barrier, barrier + 1):
        found = single(blamed(code, (seen, "barrier", 5)).blames)
        assert (found.cause, found.detail) == (barrier, "barrier")


@pytest.mark.parametrize("architecture", [90, 100])
def test_a_wait_for_an_mbarrier_is_told_from_one_for_memory_though_the_reason_is_the_same(
    architecture: int,
) -> None:
    code = kernel("mbarrier_wait", f"stalls.sm_{architecture}")
    checks = [one.index for one in code.instructions if "TRYWAIT" in one.access.modifiers]
    for check in checks:
        found = blamed(code, (check + 1, "long_scoreboard", 7))
        assert {part.detail for part in found.blames} == {"mbarrier"}
        assert check in {part.cause for part in found.blames}
        assert {part.detail for part in blamed(code, (check, "long_scoreboard", 7)).blames} == {"mbarrier"}


def test_a_wait_for_matrix_products_of_the_warpgroup_is_blamed_on_them() -> None:
    code = kernel("warpgroup_wait", "matrix_products.plain.sm_90")
    product, wait = only(code, "HGMMA"), only(code, "WARPGROUP", 1)
    for reason in ("warpgroup_arrive", "gmma", "long_scoreboard"):
        found = single(blamed(code, (wait, reason, 3)).blames)
        assert (found.cause, found.detail) == (product, "matrix product of the warpgroup")
    stored = single(blamed(code, (only(code, "STG"), "long_scoreboard", 3)).blames)
    assert stored.cause == product


def test_a_scoreboard_stall_of_an_instruction_that_waits_for_none_stays_and_is_counted() -> None:
    code = kernel("load_use")
    moved = next(
        one.index for one in code.instructions if not one.scheduling.waits and one.operation == "LDC"
    )
    found = blamed(code, (moved, "short_scoreboard", 11))
    assert single(found.blames).cause == moved
    assert found.unexplained == 11


def test_what_only_overwrites_operands_is_a_hazard_of_its_own() -> None:
    code = graph([
        Line("STS [R0], R1", read=0), Line("IADD3 R1, R2, R2, RZ", waits=1), Line("EXIT"),
    ])  # fmt: skip
    (found,) = blame(Dependencies(code), add_up([(16, "short_scoreboard", 4, 4)])).blames
    assert (found.cause, found.hazard, found.detail) == (0, "WAR", "operands still being read")


def test_a_stall_is_divided_by_the_time_that_each_cause_still_takes() -> None:
    """At the addition, the load from global memory still takes 500 - 30 cycles, the one from shared memory none but one."""
    code = graph([
        Line("LDG.E R1, [R8.64]", write=0, stall=1), Line("LDS R2, [R0]", write=1, stall=15), Line("NOP", stall=15),
        Line("IADD3 R3, R1, R2, RZ", waits=3), Line("EXIT"),
    ])  # fmt: skip
    found = blame(
        Dependencies(code), add_up([(48, "misc_unknown", 8, 8), (48, "long_scoreboard", 94, 94)])
    ).blames
    assert [
        (part.cause, part.detail, part.samples) for part in found if part.reason == "long_scoreboard"
    ] == [(0, "global memory", 94)]
    assert [(part.cause, part.stalled) for part in found if part.reason == "misc_unknown"] == [(3, 3)]


def test_samples_of_stalls_are_neither_lost_nor_made() -> None:
    for name in ("divide", "branches", "array_at_run_time", "async_copy", "two_loads"):
        code = kernel(name)
        rows = [(one.index, reason, 3 + one.index) for one in code.instructions[: code.length]
                for reason in ("long_scoreboard", "short_scoreboard", "wait", "barrier", "lg_throttle", "drain")]  # fmt: skip
        found = blamed(code, *rows)
        assert sum(part.samples for part in found.blames) == pytest.approx(sum(count for *_, count in rows))
        assert found.single_before is not None and found.single_after is not None
        assert found.single_after >= max(found.single_before, 0.9)
