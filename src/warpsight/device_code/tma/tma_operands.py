"""The operands of instructions of the tensor memory accelerator (TMA): which registers they name, and what these mean.

The layouts were learned from what ptxas 13.0 makes of every form of `cp.async.bulk`, `cp.reduce.async.bulk` and
`cp.async.bulk.prefetch`, with and without `.tensor`, for sm_90a and sm_100a (tests/golden/device_code/tma_operands.txt).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.device_code.tma import tensor_tiles

#: Registers of an instruction that are recorded, at most.
AT_ONCE = 12
_UNIFORM_REGISTERS = 63
_BLOCK, _PAIR = 7, 2
_NOT_COPIES = frozenset({"UTMACCTL", "UTMACMDFLUSH", "UTMAFENCE"})
_INSTRUCTION = re.compile(r"\s*(?:@\S+\s+)?([A-Z0-9_]+)(\S*)\s*([^;]*)")
_REGISTER = re.compile(r"UR(\d+|Z)")


@dataclass(frozen=True)
class Operand:
    """An operand of a TMA instruction.

    Attributes:
        text: as nvdisasm prints it; address: whether it is `[…]`; policy: whether it is `desc[…]`.
        slots: the places of its registers in a record; none for a number.
    """

    text: str
    address: bool
    policy: bool
    slots: tuple[int, ...]


@dataclass(frozen=True)
class CopyInstruction:
    """A TMA instruction: operation, modifiers, operands, and the numbers of the registers in its records (-1: zero)."""

    operation: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    registers: tuple[int, ...]


def instruction(text: str) -> CopyInstruction | None:
    """The parts of an instruction that copies; None for others.

    Which registers are recorded does not depend on the layout: seven from the first operand's, two of each further address and of
    a cache policy, single ones (native/nvbit/tensor_copies.cpp has the same rule).
    """
    match = _INSTRUCTION.match(text)
    if match is None or not match[1].startswith(("UTMA", "UBLK")) or match[1] in _NOT_COPIES:
        return None
    operation, modifiers, rest = match.groups()
    operands: list[Operand] = []
    numbers: list[int] = []
    for part in filter(None, map(str.strip, rest.split(","))):
        address, policy = part.startswith("["), part.startswith("desc")
        first = address and not any(operand.address for operand in operands)
        count = _BLOCK if first and operation.startswith("UTMA") else _PAIR if address or policy else 1
        named = _REGISTER.search(part)
        begin = len(numbers)
        if named:
            own = [
                -1 if named[1] == "Z" or int(named[1]) + i >= _UNIFORM_REGISTERS else int(named[1]) + i
                for i in range(count)
            ]
            numbers += own[: AT_ONCE - begin]
        operands.append(Operand(part, address, policy, tuple(range(begin, len(numbers)))))
    return CopyInstruction(
        operation, tuple(filter(None, modifiers.split("."))), tuple(operands), tuple(numbers)
    )


_OPERATIONS = {
    "UTMALDG": "load", "UTMASTG": "store", "UTMAREDG": "reduce", "UTMAPF": "prefetch", "UBLKCP": "copy", "UBLKRED": "reduce",
    "UBLKPF": "prefetch",
}  # fmt: skip
#: Operations whose block of registers begins with an address in shared memory, and then, for loads, that of an mbarrier.
_SHARED_FIRST = {"UTMALDG": 2, "UTMASTG": 1, "UTMAREDG": 1, "UTMAPF": 0}
_MODES = {
    "IM2COL": tensor_tiles.IM2COL, "GATHER4": tensor_tiles.ROWS, "SCATTER4": tensor_tiles.ROWS, "W": "im2col w",
    "W128": "im2col w 128",
}  # fmt: skip
_REDUCTIONS = frozenset({"ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"})
_TYPES = frozenset({"U64", "S32", "S64", "F16", "BF16", "F32", "F64", "RN"})
_MULTICAST, _PAIR_OF_BLOCKS, _MASK = "MULTICAST", "2CTA", "DST_G_BYTE_MASK"
_SPACES = {"S": "shared", "G": "global"}
#: Bits of each offset in a register, by how many there are: `im2col` loads of ranks 3, 4 and 5.
_OFFSET_BITS = {1: 16, 2: 8, 3: 5}
_HALO_BITS = 11
_UNIT = 16


@dataclass(frozen=True)
class CopyOperands:
    """An executed TMA instruction by its own operands, without its tensor map.

    Attributes:
        operation: load, store, reduce, prefetch or copy; reduction: `add.f32`, otherwise empty.
        source, target: global, shared, or `L2`.
        rank: dimensions of the tensor, 0 for a bulk copy; mode: `tile`, `im2col`, `rows` (gather4, scatter4), `im2col w`, …
        coordinates: of the tile, innermost first; offsets: of the filter of an `im2col` load.
        shared_address: in shared memory, with the rank of its block in bits 24 and up; address: global address of a bulk copy.
        map_address: where the tensor map is; barrier: the mbarrier that a load completes on.
        multicast: a bit for each block of the cluster that receives the data; mask: bytes of each 16 that are written.
        policy: the L2 cache policy; bytes: size of a bulk copy; pair: whether the mbarrier may be that of the pair's other block.
    """

    operation: str
    reduction: str
    source: str
    target: str
    rank: int = 0
    mode: str = ""
    coordinates: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    shared_address: int | None = None
    other_shared_address: int | None = None
    address: int | None = None
    map_address: int | None = None
    barrier: int | None = None
    multicast: int | None = None
    mask: int | None = None
    policy: int | None = None
    bytes: int | None = None
    pair: bool = False


class _Registers:
    """The recorded registers of one execution."""

    def __init__(self, values: Sequence[int]) -> None:
        self._values = values

    def at(self, operand: Operand, place: int = 0) -> int:
        return self._values[operand.slots[place]]

    def wide(self, operand: Operand) -> int:
        return self.at(operand) | self.at(operand, 1) << 32


def operands_of(instruction: CopyInstruction, values: Sequence[int]) -> CopyOperands | None:
    """The meaning of an instruction's registers; None if its layout is not understood."""
    addresses = [one for one in instruction.operands if one.address]
    numbers = [one for one in instruction.operands if not one.address and not one.policy]
    policies = [one for one in instruction.operands if one.policy]
    held = [one for one in (*addresses, *numbers, *policies) if one.slots]
    expected = (*addresses, *numbers, *policies)
    if instruction.operation not in _OPERATIONS or len(held) != len(instruction.operands):
        return None
    if instruction.operands != expected or len(numbers) > 1 or len(policies) > 1:
        return None
    found = _Registers(values)
    policy = found.wide(policies[0]) if policies else None
    number = found.at(numbers[0]) if numbers else None
    decoding = _of_tensor if instruction.operation in _SHARED_FIRST else _of_bulk
    return decoding(instruction, addresses, found, number, policy)


def _of_tensor(
    instruction: CopyInstruction,
    addresses: list[Operand],
    found: _Registers,
    number: int | None,
    policy: int | None,
) -> CopyOperands | None:
    operation, left = instruction.operation, list(instruction.modifiers)
    ranks = [int(word[0]) for word in left if word in ("1D", "2D", "3D", "4D", "5D")]
    modes = [word for word in left if word in _MODES]
    reduction = [word for word in left if word in _REDUCTIONS] if operation == "UTMAREDG" else []
    known = {f"{ranks[0]}D" if ranks else "", *modes, *reduction, *(["L2"] if operation == "UTMAPF" else [])}
    if operation == "UTMALDG":
        known |= {_MULTICAST, _PAIR_OF_BLOCKS}
    if len(ranks) != 1 or len(modes) > 1 or set(left) - known or len(addresses) != 2:
        return None
    rank, mode, multicast = ranks[0], _MODES[modes[0]] if modes else tensor_tiles.TILE, _MULTICAST in left
    loads = operation in ("UTMALDG", "UTMAPF")
    with_offsets = loads and mode not in (tensor_tiles.TILE, tensor_tiles.ROWS)
    if (number is not None) != (with_offsets or multicast) or (operation == "UTMAREDG") != bool(reduction):
        return None
    block, before = addresses[0], _SHARED_FIRST[operation]
    count = 5 if mode == tensor_tiles.ROWS else rank
    coordinates = tuple(_signed(found.at(block, before + i)) for i in range(count))
    return CopyOperands(
        _OPERATIONS[operation], reduction[0].lower() if reduction else "", "global" if loads else "shared",
        {"UTMALDG": "shared", "UTMAPF": "L2"}.get(operation, "global"), rank, mode, coordinates,
        _offsets(mode, rank, number or 0) if with_offsets else (),
        shared_address=found.at(block) if before else None, map_address=found.wide(addresses[1]),
        barrier=found.at(block, 1) if before == 2 else None, multicast=(number or 0) >> 16 if multicast else None,
        policy=policy, pair=_PAIR_OF_BLOCKS in left,
    )  # fmt: skip


def _offsets(mode: str, rank: int, number: int) -> tuple[int, ...]:
    """The filter's offsets, packed into half a register."""
    if mode != tensor_tiles.IM2COL:
        return number & (1 << _HALO_BITS) - 1, number >> _HALO_BITS & 31
    bits = _OFFSET_BITS.get(rank - 2, 0)
    return tuple(number >> bits * i & (1 << bits) - 1 for i in range(rank - 2))


def _of_bulk(
    instruction: CopyInstruction,
    addresses: list[Operand],
    found: _Registers,
    number: int | None,
    policy: int | None,
) -> CopyOperands | None:
    operation, modifiers = instruction.operation, instruction.modifiers
    if operation == "UBLKPF":
        if modifiers != ("L2",) or len(addresses) != 1 or number is None:
            return None
        return CopyOperands("prefetch", "", "global", "L2", address=found.wide(addresses[0]), policy=policy,
                            bytes=(number & 0xFFFF) * _UNIT)  # fmt: skip
    if len(addresses) != 2 or number is None or len(modifiers) < 2:
        return None
    target, source = _SPACES.get(modifiers[0]), _SPACES.get(modifiers[1])
    rest = modifiers[2:]
    reduction = rest if operation == "UBLKRED" else ()
    known = {_MULTICAST, _MASK} if operation == "UBLKCP" else _REDUCTIONS | _TYPES
    if target is None or source is None or (target, source) == ("global", "global") or set(rest) - known:
        return None
    if operation == "UBLKRED" and not (rest and rest[0] in _REDUCTIONS):
        return None
    outside = addresses[0] if target == "global" else addresses[1] if source == "global" else None
    return CopyOperands(
        _OPERATIONS[operation], ".".join(word.lower() for word in reduction if word != "RN"), source, target,
        shared_address=found.at(addresses[0] if target == "shared" else addresses[1]),
        other_shared_address=found.at(addresses[1]) if outside is None else None,
        address=found.wide(outside) if outside else None,
        barrier=found.at(addresses[0], 1) if target == "shared" else None,
        multicast=number >> 16 if _MULTICAST in rest else None, mask=number >> 16 if _MASK in rest else None,
        policy=policy, bytes=(number & 0xFFFF) * _UNIT,
    )  # fmt: skip


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
