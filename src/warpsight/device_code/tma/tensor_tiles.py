"""The elements of a tensor that one copy by the TMA touches: their addresses, those inside, their places in shared memory.

A tile begins at the copy's coordinates and has the map's box. `im2col` copies walk over pixels instead: from the coordinates
along the innermost spatial dimension to the end of the bounding box, then on from its beginning in the next row. Elements outside
the tensor are filled by loads and skipped by stores, which write whole units of 16 bytes, though: up to 15 bytes beyond the
innermost dimension. PTX ISA, "Tensors" and "Asynchronous data movement"; checked on an H200 against what a program finds in
memory (tests/gpu/tma_truth.cu).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

import numpy as np
import numpy.typing as npt

from warpsight.device_code.tma.tensor_map import Im2col, TensorMap

TILE, IM2COL, ROWS = "tile", "im2col", "rows"
_ROWS, _ALIGNMENT = 4, 16
#: Bits of a shared address that a swizzle flips, by its name: how many from bit 4, by those from bit 7. A row takes at least so
#: many bytes as the name says.
_SWIZZLED_BITS = {"NONE": 0, "32B": 1, "64B": 2, "128B": 3}


@dataclass(frozen=True)
class Tile:
    """Elements of a copy in the order in which they lie in shared memory.

    Attributes:
        addresses: (elements): global addresses; of elements outside the tensor, where they would be.
        inside: (elements): whether they are inside the tensor.
        touched: (elements): whether they are read or written: those inside, and for a store the rest of a unit of 16 bytes.
        element_bytes: size of each; row: elements of the innermost dimension.
    """

    addresses: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]
    touched: npt.NDArray[np.bool_]
    element_bytes: int
    row: int


def understood(tensor: TensorMap, mode: str, coordinates: Sequence[int]) -> bool:
    """Whether the elements of a copy can be computed: those of interleaved maps cannot."""
    dimensions = _ROWS + 1 if mode == ROWS else tensor.rank
    return (
        tensor.interleave == "NONE"
        and len(coordinates) == dimensions
        and mode in ((IM2COL,) if tensor.im2col else (TILE, ROWS))
        and (mode != ROWS or tensor.rank == 2)
    )


def illegal(tensor: TensorMap, *, stores: bool, mode: str, coordinates: Sequence[int]) -> str:
    """Why the hardware refuses a copy as an illegal instruction; empty where no reason is known.

    Found on an H200; CUDA's programming guide names the second.
    """
    if tensor.interleave == "NONE" and coordinates[0] * tensor.element_bytes % _ALIGNMENT:
        return f"the innermost coordinate is not a multiple of {_ALIGNMENT} bytes"
    if stores and mode == TILE and min(coordinates) < 0:
        return "a store has a negative coordinate"
    return ""


def elements(
    tensor: TensorMap, mode: str, coordinates: Sequence[int], offsets: Sequence[int] = ()
) -> tuple[int, int]:
    """The number of elements inside and outside of the tensor, without listing those of a tile."""
    if mode == IM2COL:
        channels, pixels = _channels(tensor, coordinates), _pixels(tensor, coordinates, offsets)
        inside = _inside(channels, tensor.dimensions[0]) * int(
            _all_inside(pixels, tensor.dimensions[1:]).sum()
        )
        return inside, len(pixels) * len(channels) - inside
    axes = _axes(tensor, mode, coordinates)
    inside = prod(_inside(axis, size) for axis, size in zip(axes, tensor.dimensions, strict=True))
    return inside, prod(map(len, axes)) - inside


def tile(
    tensor: TensorMap,
    mode: str,
    coordinates: Sequence[int],
    offsets: Sequence[int] = (),
    *,
    stores: bool = False,
) -> Tile:
    """The elements of a copy that is :func:`understood`. Offsets are those of an `im2col` load's filter."""
    if mode == IM2COL:
        pixels = _pixels(tensor, coordinates, offsets)
        row = _channels(tensor, coordinates)
        positions = np.concatenate(
            [np.tile(row, len(pixels))[:, None], np.repeat(pixels, len(row), axis=0)], axis=1
        )
    else:
        axes = _axes(tensor, mode, coordinates)
        row = axes[0]
        # The innermost dimension varies fastest: the last axis of a mesh.
        mesh = np.meshgrid(*reversed(axes), indexing="ij")
        positions = np.stack([axis.ravel() for axis in reversed(mesh)], axis=1)
    addresses = tensor.address + positions @ np.array(tensor.strides, np.int64)
    inside = _all_inside(positions, tensor.dimensions)
    touched = _all_inside(positions, (_written(tensor), *tensor.dimensions[1:])) if stores else inside
    return Tile(addresses, inside, touched, tensor.element_bytes, len(row))


def _written(tensor: TensorMap) -> int:
    """The size of the innermost dimension, up to a whole unit."""
    size = tensor.dimensions[0] * tensor.element_bytes
    return -(-size // _ALIGNMENT) * _ALIGNMENT // tensor.element_bytes


def overrun(tensor: TensorMap, mode: str, coordinates: Sequence[int]) -> int:
    """Bytes that a store writes beyond the innermost dimension in units of 16 bytes; 0 for `im2col`, where that is unknown."""
    if mode == IM2COL:
        return 0
    axes = _axes(tensor, mode, coordinates)
    rows = prod(_inside(axis, size) for axis, size in zip(axes[1:], tensor.dimensions[1:], strict=True))
    beyond = _inside(axes[0], _written(tensor)) - _inside(axes[0], tensor.dimensions[0])
    return rows * beyond * tensor.element_bytes


def shared_addresses(tensor: TensorMap, found: Tile, first: int) -> npt.NDArray[np.int64] | None:
    """Where a tile's elements lie in shared memory when it begins at an address; None for a swizzle that is not known.

    A swizzle exchanges units of 16 bytes: bits 4 to 6 of the address are changed by bits 7 to 9.
    """
    bits = _SWIZZLED_BITS.get(tensor.swizzle)
    if bits is None:
        return None
    pitch = max(found.row * found.element_bytes, 16 << bits if bits else 0)
    number = np.arange(len(found.addresses), dtype=np.int64)
    plain = first + number // found.row * pitch + number % found.row * found.element_bytes
    return np.asarray(plain ^ (plain >> 3 & ((1 << bits) - 1) << 4))


def _axes(tensor: TensorMap, mode: str, coordinates: Sequence[int]) -> list[npt.NDArray[np.int64]]:
    """The positions along each dimension of a tile. Without interleaving, the innermost has no stride."""
    steps = (1, *tensor.element_strides[1:])
    axes = [
        start + step * np.arange(-(-box // step), dtype=np.int64)
        for start, step, box in zip(coordinates, steps, tensor.box, strict=False)
    ]
    return [axes[0], np.array(coordinates[1:], np.int64)] if mode == ROWS else axes


def _channels(tensor: TensorMap, coordinates: Sequence[int]) -> npt.NDArray[np.int64]:
    assert tensor.im2col is not None
    return coordinates[0] + np.arange(tensor.im2col.channels, dtype=np.int64)


def _pixels(tensor: TensorMap, coordinates: Sequence[int], offsets: Sequence[int]) -> npt.NDArray[np.int64]:
    """(pixels, rank - 1): positions without the channel, at most 1,024."""
    assert tensor.im2col is not None
    moved = np.array([*(offsets or [0] * (tensor.rank - 2)), 0], np.int64)
    walked = list(islice(_walk(tensor, tensor.im2col, coordinates), tensor.im2col.pixels))
    return np.array(walked, np.int64).reshape(-1, tensor.rank - 1) + moved


def _walk(tensor: TensorMap, im2col: Im2col, coordinates: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Positions in the bounding box from the coordinates on, row by row, image by image."""
    upper = [size - 1 + corner for size, corner in zip(tensor.dimensions[1:-1], im2col.upper, strict=True)]
    at = list(coordinates[1:])
    while True:
        yield tuple(at)
        for axis, (low, high) in enumerate(zip(im2col.lower, upper, strict=True)):
            at[axis] += tensor.element_strides[axis + 1]
            if at[axis] <= high:
                break
            at[axis] = low
        else:
            at[-1] += 1


def _inside(axis: npt.NDArray[np.int64], size: int) -> int:
    return int(((axis >= 0) & (axis < size)).sum())


def _all_inside(positions: npt.NDArray[np.int64], sizes: Sequence[int]) -> npt.NDArray[np.bool_]:
    return np.asarray(((positions >= 0) & (positions < np.array(sizes, np.int64))).all(axis=1))
