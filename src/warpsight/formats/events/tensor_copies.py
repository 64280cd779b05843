"""Records of copies by the TMA (native/nvbit/tool_format.h has the layout): as arrays, and as what each copied.

After the header, a copy has the key of its tensor map and its uniform registers, two per word. A tensor map has its key and 16
words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.tma import tensor_tiles, tma_operands
from warpsight.device_code.tma.tensor_map import TensorMap, decode
from warpsight.device_code.tma.tma_operands import CopyOperands
from warpsight.formats.events.registers import AT_ONCE, HEADER_WORDS, units

Array = npt.NDArray[Any]

MAP_WORDS = 16


@dataclass(frozen=True)
class TensorCopy:
    """One executed instruction of the TMA.

    Attributes:
        text: the instruction; registers: its recorded registers by name.
        operands: None if their layout is not understood.
        map: key of its tensor map, empty without one.
        bytes: bytes that it asks for, None if unknown; outside_bytes: those of them that are outside of the tensor.
        overrun_bytes: of a store, those outside that it writes nevertheless, as it writes units of 16 bytes.
        illegal: why the hardware refuses it; mostly empty.
    """

    text: str
    registers: dict[str, int]
    operands: CopyOperands | None
    map: str
    bytes: int | None
    outside_bytes: int
    overrun_bytes: int = 0
    illegal: str = ""


class CopyReader:
    """Decodes the copies of one event file.

    Attributes:
        maps: tensor maps by key; None for bytes of an unknown layout; raw: the bytes of all.
    """

    def __init__(self, maps: dict[int, bytes]) -> None:
        self.raw = {_key(key): data for key, data in maps.items()}
        self.maps: dict[str, TensorMap | None] = {key: decode(data) for key, data in self.raw.items()}
        self._meaning = lru_cache(maxsize=1 << 16)(self._decoded)

    def copies(self, records: CopyRecords, texts: Sequence[str]) -> Iterator[TensorCopy]:
        """What records did, whose instructions have these texts."""
        for text, size, key, held in zip(
            texts, records.size.tolist(), records.keys.tolist(), records.registers.tolist(), strict=True
        ):
            yield self._copy(text, _key(key) if key else "", tuple(held[:size]))

    def tile(self, copy: TensorCopy) -> tensor_tiles.Tile | None:
        """The elements of a tensor that a copy touches; None for bulk copies and where they cannot be computed."""
        own, tensor = copy.operands, self.maps.get(copy.map)
        if own is None or tensor is None or not tensor_tiles.understood(tensor, own.mode, own.coordinates):
            return None
        stores = own.target == "global"
        return tensor_tiles.tile(tensor, own.mode, own.coordinates, own.offsets, stores=stores)

    def _copy(self, text: str, key: str, values: tuple[int, ...]) -> TensorCopy:
        instruction = tma_operands.instruction(text)
        numbers = instruction.registers if instruction else ()
        if len(numbers) != len(values):  # not the instruction that was recorded
            return TensorCopy(
                text, {f"register {i}": value for i, value in enumerate(values)}, None, key, None, 0
            )
        named = {f"UR{number}": value for number, value in zip(numbers, values, strict=True) if number >= 0}
        return TensorCopy(text, named, *self._meaning(text, key, values))

    def _decoded(
        self, text: str, key: str, values: tuple[int, ...]
    ) -> tuple[CopyOperands | None, str, int | None, int, int, str]:
        """The fields of a copy from `operands` on."""
        instruction = tma_operands.instruction(text)
        operands = tma_operands.operands_of(instruction, values) if instruction else None
        if operands is None or not operands.rank:
            return operands, key, operands.bytes if operands else None, 0, 0, ""
        tensor = self.maps.get(key)
        if tensor is None or not tensor_tiles.understood(tensor, operands.mode, operands.coordinates):
            return operands, key, None, 0, 0, ""
        size = tensor.element_bytes
        inside, outside = tensor_tiles.elements(tensor, operands.mode, operands.coordinates, operands.offsets)
        stores = operands.target == "global"
        why = tensor_tiles.illegal(
            tensor, stores=stores, mode=operands.mode, coordinates=operands.coordinates
        )
        beyond = tensor_tiles.overrun(tensor, operands.mode, operands.coordinates) if stores else 0
        return operands, key, (inside + outside) * size, outside * size, beyond, why


@dataclass(frozen=True)
class CopyRecords:
    """Records of copies as arrays, a row each: number of registers, key of the tensor map (0: none), (rows, 12) registers."""

    size: Array
    keys: Array
    registers: Array


def records(words: Array, offset: Array, size: Array) -> CopyRecords:
    """The parts of records of copies that begin at some words."""
    halves = np.append(words, np.zeros(1, np.uint64)).view(np.uint32)
    place = np.arange(AT_ONCE)
    found = units(halves, 2 * (offset + HEADER_WORDS + 1)[:, None] + place)
    keys = words[offset + HEADER_WORDS] if len(offset) else np.zeros(0, np.uint64)
    return CopyRecords(size, keys, np.where(place < size[:, None], found, np.uint32(0)))


def _key(number: int) -> str:
    return f"{number:016x}"


def lengths(size: Array) -> Array:
    """Words of records of copies with a number of registers; 0 for an impossible number."""
    return np.where(size <= AT_ONCE, HEADER_WORDS + 1 + (size + 1) // 2, 0)


def maps(words: Array, offset: Array) -> dict[int, bytes]:
    """The bytes of tensor maps by their keys."""
    begin = offset + HEADER_WORDS
    return {
        int(words[at]): words[at + 1 : at + 1 + MAP_WORDS].astype("<u8").tobytes() for at in begin.tolist()
    }


def to_json(copy: TensorCopy, reader: CopyReader) -> dict[str, Any]:
    """What is known of a copy with its tensor map, without absent parts."""
    own = copy.operands
    if own is None:
        return {"understood": False, "registers": copy.registers, **({"map": copy.map} if copy.map else {})}
    said = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(own).items()
        if value not in (None, "", (), False)
    }
    said["bytes"] = copy.bytes
    if own.rank:
        tensor = reader.maps.get(copy.map)
        said |= {"outside_bytes": copy.outside_bytes, "map": copy.map}
        said |= {"overrun_bytes": copy.overrun_bytes} if copy.overrun_bytes else {}
        said |= {"illegal": copy.illegal} if copy.illegal else {}
        said["tensor"] = {k: v for k, v in asdict(tensor).items() if v is not None} if tensor else None
        if tensor is None and copy.map in reader.raw:
            said["tensor_bytes"] = reader.raw[copy.map].hex()
    return said


def cutracer_fields(copy: TensorCopy, reader: CopyReader) -> dict[str, Any]:
    """The fields of CUTracer's `tma_trace`, with what it has no field for under names of our own."""
    own, tensor = copy.operands, reader.maps.get(copy.map)
    said = to_json(copy, reader)
    if own is None:
        return {"tma_param_size": 0, "tma_transfer_info": said}
    target = {"shared": "SHARED", "global": "GLOBAL", "L2": "NONE"}
    info: dict[str, Any] = {
        "is_bulk": True, "is_tensor": bool(own.rank), "is_prefetch": own.operation == "prefetch",
        "is_multicast": own.multicast is not None, "multicast_cta_mask": own.multicast or 0,
        "src_memspace": target[own.source], "dst_memspace": target[own.target],
    }  # fmt: skip
    fields: dict[str, Any] = {"tma_param_size": 128 if own.rank else 0, "tma_transfer_info": info}
    if not own.rank:
        info |= {"byte_count": own.bytes, "transfer_count": 1, "transfer_size": own.bytes}
        source = own.shared_address if own.source == "shared" else own.address
        fields["desc_addr"] = hex(source or 0)
    elif tensor is not None:
        size = tensor.element_bytes
        fields["desc_addr"] = hex(tensor.address)
        info["tensor"] = _cutracer_tensor(copy, own, tensor, size)
        if copy.bytes is not None:
            info |= {"byte_count": copy.bytes, "transfer_count": copy.bytes // size, "transfer_size": size}
    elif copy.map in reader.raw:
        fields["desc_raw"] = list(struct.unpack("<16Q", reader.raw[copy.map]))
    info["warpsight"] = said
    return fields


def _cutracer_tensor(copy: TensorCopy, own: CopyOperands, tensor: TensorMap, size: int) -> dict[str, Any]:
    """Lists have CUTracer's fixed lengths, with zeros where the tensor has fewer dimensions."""
    said: dict[str, Any] = {"dim": own.rank, "mode": own.mode, "coords": _padded(own.coordinates, 5)}
    if copy.bytes is not None:
        said["intended_transfer_count"] = copy.bytes // size
        said["oob_transfer_count"] = copy.outside_bytes // size
    said["tiled"] = {
        "data_type": tensor.data_type, "rank": tensor.rank, "global_address": hex(tensor.address),
        "global_dim": _padded(tensor.dimensions, 5), "global_strides": _padded(tensor.strides[1:], 4),
        "box_dim": _padded(tensor.box, 5), "element_strides": _padded(tensor.element_strides, 5),
        "interleave": tensor.interleave, "swizzle": tensor.swizzle, "l2_promotion": tensor.l2_promotion,
        "oob_fill": tensor.oob_fill,
    }  # fmt: skip
    return said


def _padded(values: Sequence[int] | None, count: int) -> list[int]:
    return [*(values or ()), *[0] * count][:count]
