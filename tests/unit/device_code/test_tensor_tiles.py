"""The elements that a tensor copy touches, against following the definition element by element."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.device_code.tensor_maps import SIZES, made
from warpsight.device_code.tma.tensor_map import Im2col, TensorMap
from warpsight.device_code.tma.tensor_tiles import (
    elements,
    illegal,
    overrun,
    shared_addresses,
    tile,
    understood,
)


def _map(chance: random.Random, rank: int, pixels: bool) -> TensorMap:
    """A tensor with gaps between its rows."""
    data_type = chance.choice(list(SIZES))
    dimensions = [chance.randrange(1, 9) for _ in range(rank)]
    strides, size = [], SIZES[data_type]
    for dimension in dimensions[:-1]:
        size = size * dimension + chance.randrange(3) * 16
        strides.append(size)
    corners = [[chance.randrange(-3, 2) for _ in range(rank - 2)] for _ in range(2)]
    fields: dict[str, Any] = {"box": tuple(chance.randrange(1, 7) for _ in range(rank))}
    if pixels:
        lower, upper = map(tuple, corners)
        fields = {"box": (), "im2col": Im2col(lower, upper, chance.randrange(1, 6), chance.randrange(1, 40))}
    steps = tuple(chance.choice((1, 1, 2, 3)) for _ in range(rank))
    return made(
        data_type=data_type, dimensions=tuple(dimensions), strides=tuple(strides), element_strides=steps, **fields
    )  # fmt: skip


def _one(tensor: TensorMap, position: list[int]) -> tuple[int, bool]:
    address = tensor.address + position[0] * tensor.element_bytes
    for stride, place in zip(tensor.strides[1:], position[1:], strict=True):
        address += stride * place
    return address, all(0 <= place < size for place, size in zip(position, tensor.dimensions, strict=True))


def _tile_by_definition(tensor: TensorMap, at: list[int]) -> list[tuple[int, bool]]:
    found: list[tuple[int, bool]] = []

    def visit(dimension: int, position: list[int]) -> None:
        if dimension < 0:
            found.append(_one(tensor, position))
            return
        step = tensor.element_strides[dimension] if dimension else 1
        for place in range(0, tensor.box[dimension], step):
            visit(dimension - 1, [at[dimension] + place, *position])

    visit(tensor.rank - 1, [])
    return found


def _pixels_by_definition(tensor: TensorMap, at: list[int], offsets: list[int]) -> list[tuple[int, bool]]:
    """The documentation's loop: behind a pixel comes its right neighbor, or the first of the next row of the bounding box."""
    assert tensor.im2col is not None
    found = []
    spatial, image = at[1:-1], at[-1]
    for _ in range(tensor.im2col.pixels):
        for channel in range(tensor.im2col.channels):
            moved = [place + offset for place, offset in zip(spatial, offsets, strict=True)]
            found.append(_one(tensor, [at[0] + channel, *moved, image]))
        for axis in range(len(spatial)):
            spatial[axis] += tensor.element_strides[axis + 1]
            if spatial[axis] < tensor.dimensions[axis + 1] + tensor.im2col.upper[axis]:
                break
            spatial[axis] = tensor.im2col.lower[axis]
            if axis == len(spatial) - 1:
                image += 1
    return found


@pytest.mark.parametrize("seed", range(200))
def test_tiles_are_those_of_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    pixels = seed % 3 == 0
    tensor = _map(chance, chance.randrange(3, 6) if pixels else chance.randrange(1, 6), pixels)
    at = [chance.randrange(-4, 10) for _ in range(tensor.rank)]
    offsets = [chance.randrange(4) for _ in range(tensor.rank - 2)] if pixels else []
    mode = "im2col" if pixels else "tile"
    assert understood(tensor, mode, at)
    found = tile(tensor, mode, at, offsets)
    expected = _pixels_by_definition(tensor, at, offsets) if pixels else _tile_by_definition(tensor, at)
    assert list(zip(found.addresses.tolist(), found.inside.tolist(), strict=True)) == expected
    inside = sum(within for _, within in expected)
    assert elements(tensor, mode, at, offsets) == (inside, len(expected) - inside)
    assert found.element_bytes == tensor.element_bytes
    assert np.array_equal(found.touched, found.inside)


@pytest.mark.parametrize("seed", range(60))
def test_stores_write_whole_units(seed: int) -> None:
    chance = random.Random(seed)
    tensor = _map(chance, chance.randrange(1, 4), False)
    at = [chance.randrange(0, 10) for _ in range(tensor.rank)]
    found = tile(tensor, "tile", at, stores=True)
    wide = -(-tensor.dimensions[0] * tensor.element_bytes // 16) * 16
    longer = replace(tensor, dimensions=(wide // tensor.element_bytes, *tensor.dimensions[1:]))
    assert found.touched.tolist() == [inside for _, inside in _tile_by_definition(longer, at)]
    assert found.inside.tolist() == [inside for _, inside in _tile_by_definition(tensor, at)]
    beyond = (found.touched & ~found.inside).sum() * tensor.element_bytes
    assert overrun(tensor, "tile", at) == beyond


def test_gathered_rows_are_each_where_it_is_named() -> None:
    tensor = made(address=4096)
    at = (8, 3, 19, 20, -1)
    found = tile(tensor, "rows", at)
    assert found.addresses.tolist() == [
        4096 + 64 * row + 4 * column for row in at[1:] for column in range(8, 12)
    ]
    assert found.inside.tolist() == [*[True, True, False, False] * 2, *[False] * 8]
    assert elements(tensor, "rows", at) == (4, 12)


@pytest.mark.parametrize(("name", "bits"), [("NONE", 0), ("32B", 1), ("64B", 2), ("128B", 3)])
def test_a_swizzle_exchanges_units_of_16_bytes(name: str, bits: int) -> None:
    row = 16 << bits
    tensor = made(swizzle=name, data_type="UINT8", box=(row, 100))
    found = shared_addresses(tensor, tile(tensor, "tile", (0, 0)), 0x400)
    assert found is not None
    for place, address in enumerate(found.tolist()):
        plain = 0x400 + place
        unit, line = plain >> 4 & 7, plain >> 7 & 7
        swizzled = unit ^ (line & (1 << bits) - 1)
        assert address == (plain & ~0x70) | swizzled << 4
    assert sorted(found.tolist()) == list(range(0x400, 0x400 + 100 * row))


def test_a_short_row_takes_as_much_room_as_the_swizzle() -> None:
    tensor = made(swizzle="128B", data_type="FLOAT16", box=(16, 4))
    found = shared_addresses(tensor, tile(tensor, "tile", (0, 0)), 0)
    assert found is not None
    assert found[::16].tolist() == [0, 128 ^ 16, 256 ^ 32, 384 ^ 48]


@pytest.mark.parametrize(
    ("changed", "mode", "dimensions"),
    [({"interleave": "16B"}, "tile", 2), ({}, "im2col", 2), ({}, "tile", 3),
     ({}, "im2col w", 2), ({"im2col": Im2col((0,), (0,), 1, 1)}, "tile", 2)],
)  # fmt: skip
def test_what_is_not_understood_is_not_computed(changed: dict[str, Any], mode: str, dimensions: int) -> None:
    tensor = _map(random.Random(2), 2, False)
    assert understood(tensor, "tile", (0, 0))
    assert not understood(replace(tensor, **changed), mode, (0,) * dimensions)


def test_elements_of_a_large_box_are_counted_without_listing_them() -> None:
    tensor = made(data_type="UINT8", dimensions=(1 << 20,) * 5, strides=(1 << 20,) * 4, box=(256,) * 5)
    assert elements(tensor, "tile", (-1, 0, 0, 0, 0)) == (255 * 256**4, 256**4)
    assert np.iinfo(np.int64).max > 256**5


@pytest.mark.parametrize(
    ("at", "stores", "why"),
    [  # of 4-byte elements, as an H200 has it
        ((40, 36), False, ""), ((-8, -3), False, ""), ((56, 39), True, ""), ((100, 0), True, ""), ((59, 39), False, "innermost"),
        ((-3, 1), False, "innermost"), ((-8, 2), True, "negative"), ((32, -2), True, "negative"), ((2, 0), True, "innermost"),
    ],
)  # fmt: skip
def test_copies_that_the_hardware_refuses(at: tuple[int, int], stores: bool, why: str) -> None:
    found = illegal(made(), stores=stores, mode="tile", coordinates=at)
    assert bool(found) == bool(why)
    assert why in found
