"""Tensor maps: the 128 bytes by which Hopper's copy engine (TMA) knows a tensor.

`cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` write them, and their layout is not documented. What is here was learned
from some 4,000 maps with known arguments, encoded by the driver for CUDA 13.0 (tests/golden/tensor_maps.json.gz has a sample).
The engine takes all of it from the first 64 bytes: cuBLAS, which makes its own, has other things behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Bytes of a map.
SIZE: Final = 128

#: Codes of element types, with their sizes in bytes, by the driver's names without CU_TENSOR_MAP_DATA_TYPE_. The last bit of a
#: code says TFLOAT32, the one before it that denormals are flushed to zero.
_TYPES: Final = {
    0: ("UINT8", 1), 1: ("UINT16", 2), 2: ("UINT32", 4), 3: ("INT32", 4), 4: ("UINT64", 8), 5: ("INT64", 8),
    6: ("FLOAT16", 2), 7: ("FLOAT32", 4), 8: ("FLOAT32_FTZ", 4), 9: ("FLOAT64", 8), 10: ("BFLOAT16", 2),
    7 | 16: ("TFLOAT32", 4), 8 | 16: ("TFLOAT32_FTZ", 4),
}  # fmt: skip
_INTERLEAVES: Final = ("NONE", "16B", "32B")
_SWIZZLES: Final = ("NONE", "32B", "64B", "128B")
_PROMOTIONS: Final = ("NONE", "L2_64B", "L2_128B", "L2_256B")
_FILLS: Final = ("NONE", "NAN_REQUEST_ZERO_FMA")
_LARGEST_RANK: Final = 5

#: Bits that are zero in each map: (first, how many). Bit 65 is set in those of cuBLAS alone.
_ZERO: Final = ((0, 4), (66, 2), (83, 13), (240, 16), (431, 9), (490, 22))


@dataclass(frozen=True, slots=True)
class Im2col:
    """What a map by `cuTensorMapEncodeIm2col` copies: the corners of the bounding box, channels and pixels of a copy."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor and how it is copied. Dimensions count from the innermost one on.

    Attributes:
        address: of the first element, in global memory.
        data_type: the driver's name; element_bytes: its size.
        dimensions: elements.
        strides: bytes from one element to the next; that of the innermost dimension is the element's size.
        box: elements of a copy, before element strides; empty with im2col.
        element_strides: every n-th element is copied.
        interleave, swizzle, l2_promotion, oob_fill: the driver's names.
        im2col: None for a tiled map.
    """

    address: int
    data_type: str
    element_bytes: int
    dimensions: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str
    swizzle: str
    l2_promotion: str
    oob_fill: str
    im2col: Im2col | None = None

    @property
    def rank(self) -> int:
        """How many dimensions there are."""
        return len(self.dimensions)


def decode(data: bytes) -> TensorMap | None:
    """The tensor that a map describes; None if these bytes are no map, or one whose layout is not known here."""
    if len(data) != SIZE:
        return None
    word = int.from_bytes(data, "little")

    def bits(first: int, count: int) -> int:
        return word >> first & ((1 << count) - 1)

    rank = bits(68, 3) + 1
    kind = _TYPES.get(bits(71, 4) | bits(80, 1) << 4)
    codes = bits(75, 2), bits(77, 2)
    if kind is None or rank > _LARGEST_RANK or codes[0] == len(_INTERLEAVES):
        return None
    im2col = bits(64, 1) == 1
    if any(bits(*zero) for zero in _ZERO) or (im2col and rank < 3):
        return None
    return TensorMap(
        bits(0, 64),
        *kind,
        tuple(bits(256 + 32 * d, 32) + 1 for d in range(rank)),
        (kind[1], *(_stride(word, d) for d in range(1, rank))),
        () if im2col else tuple(bits(440 + 8 * d, 8) + 1 for d in range(rank)),
        tuple(bits(416 + 3 * d, 3) + 1 for d in range(rank)),
        _INTERLEAVES[codes[0]],
        _SWIZZLES[codes[1]],
        _PROMOTIONS[bits(81, 2)],
        _FILLS[bits(79, 1)],
        _im2col(word, rank - 2) if im2col else None,
    )


def _stride(word: int, dimension: int) -> int:
    """In bytes: 32 bits of sixteenths, and 4 more behind all of these."""
    low, high = word >> (64 + 32 * dimension), word >> (220 + 4 * dimension)
    return (low & 0xFFFFFFFF | (high & 15) << 32) << 4


def _im2col(word: int, spatial: int) -> Im2col:
    """Each corner has 16 bits, divided among the dimensions between channels and batch: 16, 8 or 5 each, signed."""
    width = 16 // spatial

    def corner(first: int) -> tuple[int, ...]:
        half = 1 << (width - 1)
        found = (word >> (first + width * at) & (2 * half - 1) for at in range(spatial))
        return tuple((value ^ half) - half for value in found)

    return Im2col(corner(448), corner(464), (word >> 440 & 255) + 1, (word >> 480 & 1023) + 1)
