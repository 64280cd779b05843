"""Polling loops assembled field by field, as nvdisasm prints them: which of them poll, and what they read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from warpsight.device_code.flow import polling
from warpsight.device_code.flow.control_flow import ControlFlow, InstructionLoop

RZ = 255
#: Operations with the form of operands that the compiler writes most: registers (1), constants (3, 5), immediates (4).
LDG, LD, LDS, LDL, LDC = 0x981, 0x980, 0x984, 0x983, 0xB82
ATOMG, ATOMG_CAS, ATOM, ATOM_CAS, ATOMS_CAS = 0x9A8, 0x3A9, 0x98A, 0x38B, 0x38D
ISETP, MOV, IADD, IMAD_WIDE, S2R, CS2R, SLEEP = 0x20C, 0x202, 0x210, 0x225, 0x919, 0x805, 0x95D
BRA, STG, STS, BAR, SYNCS, ULDC, UMOV, UIADD, R2UR = (
    0x947,
    0x986,
    0x988,
    0xB1D,
    0x5A7,
    0xAB9,
    0x882,
    0x890,
    0x2CA,
)
ADD, MAX, AND, OR, EXCHANGE = 0, 2, 5, 6, 8
INT, LONG = 0, 2  # types of an atomic
BYTE, SHORT, WORD, DOUBLE, QUAD = 0, 2, 4, 5, 6  # sizes of a load


def code(
    operation: int, to: int = 0, a: int = RZ, b: int = RZ, c: int = RZ, *, offset: int = 0, wide: bool = False, size: int = 0,
    kind: int = 0, guard: int = 7,
) -> tuple[int, int]:  # fmt: skip
    """One instruction: destination, up to three operands, and the fields of an access."""
    low = operation | guard << 12 | to << 16 | a << 24 | b << 32
    low |= (offset & 0xFFFFFF) << 40
    return low, c | wide << 8 | size << 9 | kind << 23


def load(operation: int = LDG, to: int = 4, address: int = 2, **more: int) -> tuple[int, int]:
    return code(operation, to, address, **{"size": WORD, **more})  # type: ignore[arg-type]


CHECK = code(ISETP, 0, 4, RZ)
BACK = code(BRA)


def polled(*body: tuple[int, int], architecture: int = 80, seldom: Sequence[int] = ()) -> polling.Poll | None:
    """What a loop of these instructions polls; `seldom` are those that only some turns pass."""

    class Flow(ControlFlow):
        def in_every_turn(self, loop: InstructionLoop, index: int) -> bool:
            return index not in seldom

    words = np.array(body, np.uint64)
    flow = Flow(words.tobytes(), architecture)
    return polling.poll_of(flow, InstructionLoop(0, len(body) - 1, tuple(range(len(body)))))


def test_a_loop_that_reads_compares_and_goes_back_polls() -> None:
    found = polled(load(wide=True), CHECK, BACK)
    assert found == polling.Poll(0, "LDG", "global", False, False, 2, True, 0, 4, False, 4)


@pytest.mark.parametrize(
    ("operation", "name", "space"),
    [(LDG, "LDG", "global"), (LD, "LD", "memory"), (LDS, "LDS", "shared"), (LDL, "LDL", "local")],
)
def test_every_kind_of_memory_can_be_polled(operation: int, name: str, space: str) -> None:
    found = polled(load(operation), CHECK, BACK)
    assert found is not None and (found.operation, found.space, found.atomic) == (name, space, False)


@pytest.mark.parametrize(("kind", "size"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 8), (6, 16), (7, 4)])
def test_the_size_of_a_read_is_in_three_bits(kind: int, size: int) -> None:
    found = polled(load(size=kind), CHECK, BACK)
    assert found is not None and found.size == size


@pytest.mark.parametrize(
    "offset", [0, 1, 12, (1 << 22) - 1, 1 << 22, (1 << 23) - 1, -1, -8, -(1 << 22), -(1 << 23)]
)
@pytest.mark.parametrize("architecture", [80, 100])
def test_the_offset_of_a_load_has_a_sign_and_24_bits(offset: int, architecture: int) -> None:
    found = polled(load(offset=offset), CHECK, BACK, architecture=architecture)
    assert found is not None and found.offset == offset


@pytest.mark.parametrize("offset", [0, 1, 12, (1 << 22) - 1, -1, -8, -(1 << 22)])
@pytest.mark.parametrize("architecture", [80, 90, 100, 120])
@pytest.mark.parametrize("operation", [ATOMG, ATOM, ATOMG_CAS, ATOM_CAS, ATOMS_CAS])
def test_since_blackwell_the_offset_of_an_atomic_has_23_bits(
    offset: int, architecture: int, operation: int
) -> None:
    swaps = operation in (ATOMG_CAS, ATOM_CAS, ATOMS_CAS)
    read = code(operation, 4, 2, RZ, offset=offset, kind=OR)
    if architecture >= 100 and not swaps:  # the topmost bit is another field there
        read = read[0] ^ 1 << 63, read[1]
    found = polled(read, CHECK, BACK, architecture=architecture)
    assert found is not None and found.offset == offset and found.atomic


@pytest.mark.parametrize(
    ("operation", "kind", "operand", "reads"),
    [
        (ATOMG, EXCHANGE, 9, True),
        (ATOMG, ADD, RZ, True),
        (ATOMG, OR, RZ, True),
        (ATOMG, ADD, 9, False),
        (ATOMG, OR, 9, False),
        (ATOMG, MAX, RZ, False),
        (ATOMG, AND, RZ, False),
        (ATOMG_CAS, MAX, 9, True),
        (ATOMS_CAS, MAX, 9, True),
    ],
)
def test_atomics_read_when_they_swap_or_add_nothing(
    operation: int, kind: int, operand: int, reads: bool
) -> None:
    assert (polled(code(operation, 4, 2, operand, kind=kind), CHECK, BACK) is not None) == reads


@pytest.mark.parametrize(("kind", "size"), [(INT, 4), (1, 4), (LONG, 8), (3, 4), (4, 4)])
def test_the_type_of_an_atomic_says_its_size(kind: int, size: int) -> None:
    found = polled(code(ATOMG, 4, 2, RZ, kind=OR, size=kind), CHECK, BACK)
    assert found is not None and found.size == size


@pytest.mark.parametrize("other", [STG, 0x98E, 0x944, 0x223])
def test_a_loop_that_does_anything_else_polls_nothing(other: int) -> None:
    assert polled(load(), code(other, 8), CHECK, BACK) is None
    assert polled(load(), code(other, 8, guard=15), CHECK, BACK) is not None  # switched off: @!PT


@pytest.mark.parametrize("sharing", [STS, BAR, 0x31C])
def test_what_a_lock_read_goes_through_shared_memory(sharing: int) -> None:
    lock = code(ATOMG_CAS, 4, 2, 9)
    assert polled(lock, code(sharing), CHECK, BACK) is not None
    assert polled(load(), code(sharing), CHECK, BACK) is None


def test_a_loop_that_sleeps_says_so() -> None:
    found = polled(load(), CHECK, code(SLEEP), BACK)
    assert found is not None and found.sleeps


def test_what_another_instruction_writes_into_the_value_is_lost() -> None:
    assert polled(load(to=4), code(MOV, 4, b=9), CHECK, BACK).value is None  # type: ignore[union-attr]
    assert polled(load(to=RZ), CHECK, BACK).value is None  # type: ignore[union-attr]
    assert polled(load(to=4), code(MOV, 5, b=9), CHECK, BACK).value == 4  # type: ignore[union-attr]
    wide = polled(load(LDG, to=4), load(LDG, to=3, address=2, size=DOUBLE), CHECK, BACK)
    assert wide is not None and wide.value is None  # eight bytes into R3 and R4


def test_an_atomic_is_preferred_to_reads_beside_it_and_every_turn_to_some() -> None:
    lock = polled(load(address=2), code(ATOMG_CAS, 5, 8, 9), CHECK, BACK)
    assert lock is not None and (lock.index, lock.operation) == (1, "ATOMG")
    plain = polled(load(address=2), load(address=6, to=5), CHECK, BACK)
    assert plain is not None and plain.index == 0
    flag = polled(load(address=2), load(address=6, to=5), CHECK, BACK, seldom=[0])
    assert flag is not None and (flag.index, flag.register) == (1, 6)


@pytest.mark.parametrize(
    ("writer", "same"),
    [
        (code(IADD, 2, 2, 9), False),  # the address moves on
        (code(IADD, 2, 8, 9), True),  # made anew from what nobody writes
        (code(MOV, 2, b=9), True),
        (code(IADD, 3, 3, 9), False),  # the upper half
        (code(IADD, 1, 1, 9), True),  # beside it
        (code(IADD, 4, 4, 9), True),
        (load(LDG, to=2, address=8), False),  # follows a list
        (load(LDS, to=2, address=8), False),
        (code(S2R, 2), True),
        (code(CS2R, 2), False),  # a clock
        (code(CS2R, 1), False),  # which has two registers
        (code(LDC, 2, RZ, size=WORD), True),
        (code(LDC, 2, 8, size=WORD), False),  # a table
        (code(IMAD_WIDE, 1, 1, 9), False),  # writes R1 and R2
        (code(IMAD_WIDE, 2, 8, 9, 10), True),
        (load(LDG, to=1, address=8, size=DOUBLE), False),
        (load(LDG, to=1, address=8, size=WORD), True),
        (load(LDG, to=0, address=8, size=QUAD), False),
        (load(LDG, to=RZ, address=8), True),
    ],
)
def test_an_address_is_the_same_when_each_turn_makes_it_the_same(writer: tuple[int, int], same: bool) -> None:
    # Of two reads, the one that every turn passes is preferred.
    found = polled(writer, load(to=20, address=2, wide=True), CHECK, BACK, seldom=[0])
    assert (found is not None and found.register == 2) == same
    if found is not None and same:
        assert found.overwritten == ((writer[0] >> 16 & 0xFF) in (2, 3))


def test_a_register_written_behind_its_reader_carries_a_value_into_the_next_turn() -> None:
    assert polled(load(), code(MOV, 2, b=9), CHECK, BACK) is None
    chain = (code(IADD, 8, 9, 10), code(IADD, 2, 8, 9))
    assert polled(*chain, load(), CHECK, BACK) is not None
    assert polled(chain[1], chain[0], load(), CHECK, BACK) is None  # R8 is of the turn before
    assert polled(code(IADD, 9, 9, 10), *chain, load(), CHECK, BACK) is None
    assert polled(code(IADD, 8, RZ, RZ), code(IADD, 2, 8, RZ), load(), CHECK, BACK) is not None


def test_the_address_zero_needs_no_register() -> None:
    found = polled(load(address=RZ, wide=True, offset=64), code(MOV, 0, b=9), CHECK, BACK)
    assert found is not None and (found.register, found.offset, found.overwritten) == (RZ, 64, False)


@pytest.mark.parametrize(
    ("uniform", "same"),
    [
        (code(ULDC, 6), True),
        (code(UMOV, 6), True),
        (code(UIADD, 6), False),
        (code(UIADD, 5), True),
        (code(UIADD, 7), True),
        (code(R2UR, 6), False),
    ],
)
@pytest.mark.parametrize("form", [6, 7])
def test_an_address_from_a_uniform_register_is_the_same_when_only_constants_go_into_it(
    uniform: tuple[int, int], same: bool, form: int
) -> None:
    from_uniform = code(0x010 | form << 9, 2, 8, 6)
    assert (polled(uniform, from_uniform, load(), CHECK, BACK) is not None) == same
    other = code(IADD, 2, 8, 6)  # R6, not UR6
    assert polled(uniform, other, load(), CHECK, BACK) is not None


def test_waiting_for_the_phase_of_an_mbarrier_polls_shared_memory() -> None:
    found = polled(code(SYNCS, 4, 2, offset=16), CHECK, BACK, architecture=90)
    assert found is not None
    assert (found.operation, found.space, found.mbarrier, found.value, found.offset) == (
        "SYNCS",
        "shared",
        True,
        None,
        16,
    )
    assert polled(code(0x9A7, 4, 2), CHECK, BACK, architecture=90) is None  # another form: an arrival
    assert polled(load(), CHECK, BACK).mbarrier is False  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("instruction", "written"),
    [
        (code(MOV, 8), {8}),
        (code(IMAD_WIDE, 8), {8, 9}),
        (code(CS2R, 8), {8, 9}),
        (load(to=8, size=BYTE), {8}),
        (load(to=8, size=SHORT), {8}),
        (load(to=8, size=DOUBLE), {8, 9}),
        (load(to=8, size=QUAD), {8, 9, 10, 11}),
        (load(to=8, size=7), {8, 9, 10, 11}),
        (code(LDC, 8, size=DOUBLE), {8, 9}),
        (code(ATOMG, 8, size=LONG), {8, 9}),
        (code(ATOMG, 8, size=INT), {8}),
        (code(ISETP, 8), set()),
        (code(BAR, 8), set()),
        (code(STS, 8), set()),
        (code(UMOV, 8), set()),
        (code(R2UR, 8), set()),
        (code(SYNCS, 8), set()),
        (code(MOV, RZ), set()),
        (code(IMAD_WIDE, 254), {254, 255}),
    ],
)
def test_the_registers_that_an_instruction_writes(instruction: tuple[int, int], written: set[int]) -> None:
    words = np.array([instruction], np.uint64)
    assert {one for one in range(256) if polling.writes_register(words, 0, one)} == written


def flow(*body: tuple[int, int], architecture: int = 80) -> ControlFlow:
    return ControlFlow(np.array(body, np.uint64).tobytes(), architecture)


def constant(operation: int, place: int, bank: int = 0, shift: int = 38) -> tuple[int, int]:
    """An instruction that reads a constant: its offset in bits 38-53, its bank in bits 54-58."""
    return operation | 7 << 12 | place << shift | bank << 54, 0


@pytest.mark.parametrize(("architecture", "first"), [(80, 0x0C), (90, 0x0C), (100, 0x370), (120, 0x370)])
@pytest.mark.parametrize("operation", [0xB82, 0xAB9, 0x610, 0xA10])
def test_the_size_of_the_grid_is_twelve_bytes_of_constant_bank_0(
    architecture: int, first: int, operation: int
) -> None:
    for place, reads in ((first - 1, False), (first, True), (first + 11, True), (first + 12, False)):
        assert (
            polling.reads_grid_size(flow(BACK, constant(operation, place), architecture=architecture))
            == reads
        )
    assert not polling.reads_grid_size(flow(constant(operation, first, bank=3), architecture=architecture))
    assert not polling.reads_grid_size(flow(constant(0x210, first), architecture=architecture))
    assert polling.reads_grid_size(flow(constant(0x9AC, first, shift=37), architecture=architecture))
    assert not polling.reads_grid_size(flow(constant(0x9AC, first), architecture=architecture))


@pytest.mark.parametrize(
    ("operation", "counts"),
    [(0x98A, True), (0x98E, True), (0x9A8, True), (0x38B, True), (0x3A9, True), (0x38D, False), (LDG, False)],
)
def test_atomics_on_global_memory_count(operation: int, counts: bool) -> None:
    assert polling.counts_in_memory(flow(code(MOV), code(operation), BACK)) == counts
