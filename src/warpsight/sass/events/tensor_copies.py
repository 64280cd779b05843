"""The copies by the TMA in a trace of class `tensor-copies`: which instruction copied what, from where, to where.

The layouts of operands were learned from what ptxas 13.0 makes of every form of `cp.async.bulk`, `cp.reduce.async.bulk` and
`cp.async.bulk.prefetch`, with and without `.tensor`, for sm_90a and sm_100a (tests/golden/device_code/tma_operands.txt). Of an
instruction with another layout only the registers are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from warpsight.device_code import tensor_tiles
from warpsight.device_code.tensor_map import TensorMap, decode
from warpsight.formats.events import tensor_copies as records
from warpsight.formats.events.kinds import TENSOR_COPY
from warpsight.formats.events.records import Events
from warpsight.formats.events.tensor_copies import CopyInstruction, Operand

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
_HALO_BITS, _RANK_BITS = 11, 24
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


@dataclass(frozen=True)
class TensorCopy:
    """One executed TMA instruction.

    Attributes:
        row: row in the events of its trace; text: the instruction.
        operands: None if its layout is not understood; registers: its recorded registers by name.
        key: key of its tensor map, 0 without one; tensor: that map decoded, None if it is not known.
        bytes: bytes that it asks for, None if unknown; outside: how many of them are outside of the tensor.
    """

    row: int
    text: str
    operands: CopyOperands | None
    registers: dict[str, int]
    key: int
    tensor: TensorMap | None
    bytes: int | None
    outside: int

    @property
    def tile(self) -> tensor_tiles.Tile | None:
        """The elements that it touches; None for bulk copies and where they cannot be computed."""
        own = self.operands
        if own is None or self.tensor is None or not tensor_tiles.understood(self.tensor, own.mode, own.coordinates):
            return None
        return tensor_tiles.tile(self.tensor, own.mode, own.coordinates, own.offsets)


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
    instruction: CopyInstruction, addresses: list[Operand], found: _Registers, number: int | None, policy: int | None
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
    instruction: CopyInstruction, addresses: list[Operand], found: _Registers, number: int | None, policy: int | None
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


class CopyReader:
    """Decodes the copies of one event file.

    Attributes:
        maps: decoded tensor maps by key; None for bytes of an unknown layout.
    """

    def __init__(self, maps: dict[int, bytes]) -> None:
        self.maps = {key: decode(data) for key, data in maps.items()}
        self._meaning = lru_cache(maxsize=1 << 16)(self._decoded)

    def copies(self, events: Events, texts: Sequence[str]) -> Iterator[TensorCopy]:
        """The copies among events, whose instructions have these texts."""
        rows = np.flatnonzero(events.kind == TENSOR_COPY.number)
        own = events.take(rows)
        values = records.registers(own.words, own.offset, own.size.astype(np.int64))
        keys = records.keys(own.words, own.offset)
        for row, size, key, held in zip(rows.tolist(), own.size.tolist(), keys.tolist(), values.tolist(), strict=True):
            yield self._copy(row, texts[row], key, tuple(held[:size]))

    def _copy(self, row: int, text: str, key: int, values: tuple[int, ...]) -> TensorCopy:
        instruction = records.instruction(text)
        numbers = instruction.registers if instruction else ()
        named = {
            f"UR{number}" if number >= 0 else "URZ": value for number, value in zip(numbers, values, strict=False)
        }
        if len(numbers) != len(values):  # not the instruction that was recorded
            named = {f"register {place}": value for place, value in enumerate(values)}
            return TensorCopy(row, text, None, named, key, self.maps.get(key), None, 0)
        operands, size, outside = self._meaning(text, key, values)
        return TensorCopy(row, text, operands, named, key, self.maps.get(key), size, outside)

    def _decoded(
        self, text: str, key: int, values: tuple[int, ...]
    ) -> tuple[CopyOperands | None, int | None, int]:
        """Operands, bytes, and bytes outside of the tensor."""
        instruction = records.instruction(text)
        operands = operands_of(instruction, values) if instruction else None
        if operands is None or not operands.rank:
            return operands, operands.bytes if operands else None, 0
        tensor = self.maps.get(key)
        if tensor is None or not tensor_tiles.understood(tensor, operands.mode, operands.coordinates):
            return operands, None, 0
        size = tensor_tiles.element_bytes(tensor) or 0
        inside, outside = tensor_tiles.elements(tensor, operands.mode, operands.coordinates, operands.offsets)
        return operands, (inside + outside) * size, outside * size


def to_json(copy: TensorCopy) -> dict[str, Any]:
    """What is known of a copy, without absent parts."""
    own = copy.operands
    if own is None:
        return {"understood": False, "registers": copy.registers}
    said = {name: getattr(own, name) for name in own.__dataclass_fields__}
    said |= {"coordinates": list(own.coordinates), "offsets": list(own.offsets), "bytes": copy.bytes}
    kept = {name: value for name, value in said.items() if value not in (None, "", [], False)}
    if own.rank:
        kept |= {"outside_bytes": copy.outside, "map_key": f"{copy.key:016x}"}
        kept["map"] = None if copy.tensor is None else map_to_json(copy.tensor)
    return kept


def map_to_json(tensor: TensorMap) -> dict[str, Any]:
    """A tensor map as an object, without absent parts."""
    said = {name: getattr(tensor, name) for name in tensor.__dataclass_fields__}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in said.items()
        if value is not None
    }
