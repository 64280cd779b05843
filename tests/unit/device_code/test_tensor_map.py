"""Tensor maps are read as the driver was asked to encode them (tests/golden/tensor_maps.json.gz, from an H200)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from warpsight.device_code.tma.tensor_map import SIZE, Im2col, TensorMap, decode

GOLDEN = Path(__file__).parents[2] / "golden" / "tensor_maps.json.gz"
#: By the driver's numbers.
TYPES = (
    ("UINT8", 1), ("UINT16", 2), ("UINT32", 4), ("INT32", 4), ("UINT64", 8), ("INT64", 8), ("FLOAT16", 2), ("FLOAT32", 4),
    ("FLOAT64", 8), ("BFLOAT16", 2), ("FLOAT32_FTZ", 4), ("TFLOAT32", 4), ("TFLOAT32_FTZ", 4),
)  # fmt: skip


def _maps() -> list[dict[str, Any]]:
    maps: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    return maps


def _asked(one: dict[str, Any]) -> TensorMap:
    """What the driver was asked for."""
    name, size = TYPES[one["dtype"]]
    im2col = None
    if one["kind"] == "im2col":
        im2col = Im2col(tuple(one["lower"]), tuple(one["upper"]), one["channels"], one["pixels"])
    return TensorMap(
        one["address"], name, size, tuple(one["dims"]), (size, *one["strides"]), tuple(one.get("box", ())), tuple(one["steps"]),
        ("NONE", "16B", "32B")[one["interleave"]], ("NONE", "32B", "64B", "128B")[one["swizzle"]],
        ("NONE", "L2_64B", "L2_128B", "L2_256B")[one["l2"]], ("NONE", "NAN_REQUEST_ZERO_FMA")[one["oob"]], im2col,
    )  # fmt: skip


def test_maps_are_read_as_the_driver_encoded_them() -> None:
    maps = _maps()
    assert len(maps) > 300
    for one in maps:
        found = decode(bytes.fromhex(one["map"]))
        assert found == _asked(one)
        assert found.rank == one["rank"]


def test_all_ranks_types_and_modes_were_seen() -> None:
    maps = _maps()
    assert {(one["kind"], one["rank"]) for one in maps} == {
        *(("tiled", rank) for rank in range(1, 6)),
        *(("im2col", rank) for rank in range(3, 6)),
    }
    assert {one["dtype"] for one in maps} == set(range(13))
    assert max(stride for one in maps for stride in one["strides"]) >> 36


@pytest.mark.parametrize("bit", [0, 3, 66, 83, 95, 240, 255, 431, 439, 490, 511])
def test_bytes_that_no_map_has_are_not_read_as_one(bit: int) -> None:
    for one in _maps()[:50]:
        word = int.from_bytes(bytes.fromhex(one["map"]), "little") | 1 << bit
        assert decode(word.to_bytes(SIZE, "little")) is None


@pytest.mark.parametrize(("first", "count", "value"), [(68, 3, 5), (71, 4, 11), (75, 2, 3)])
def test_codes_that_are_not_known_are_not_guessed(first: int, count: int, value: int) -> None:
    """Of the rank, the type of elements and the interleaving."""
    for one in _maps()[:50]:
        word = int.from_bytes(bytes.fromhex(one["map"]), "little") & ~(((1 << count) - 1) << first)
        assert decode((word | value << first).to_bytes(SIZE, "little")) is None


#: Of a product of bfloat16 matrices by cuBLAS 13 on an H200, (1024, 512) and (512, 768): what PyTorch says of each matrix.
CUBLAS = {
    "0000e0e3167f0000226504004000000000000000000000100000000000000000ff010000ff0300000000000000000000000000000000003f3f00000000000000"
    "c0ffffff0000008005000000070000000002000000000000000040c4167f000000000000000000000000803f0000000000030000000000000000000000000000":
        (0x7F16E3E00000, (512, 1024, 1), (64, 64, 1)),
    "0000f0e3167f0000226504006000000000000000000000100000000000000000ff020000ff0100000000000000000000000000000000003f1f00000000000000"
    "0000e0e3167f0000226504004000000000000000000000100000000000000000ff010000ff0300000000000000000000000000000000003f3f00000000000000":
        (0x7F16E3F00000, (768, 512, 1), (64, 32, 1)),
    "000040c4167f0000226504006000000000000000000000100000000000000000ff020000ff0300000000000000000000000000000000003f0700000000000000"
    "000040c4167f0000226504006000000000000000000000100000000000000000ff020000ff0300000000000000000000000000000000001f0700000000000000":
        (0x7F16C4400000, (768, 1024, 1), (64, 8, 1)),
}  # fmt: skip


@pytest.mark.parametrize("text", CUBLAS)
def test_maps_that_a_library_makes_itself_are_read(text: str) -> None:
    address, dimensions, box = CUBLAS[text]
    found = decode(bytes.fromhex(text))
    assert found == TensorMap(
        address, "BFLOAT16", 2, dimensions, (2, 2 * dimensions[0], 0), box, (1, 1, 1), "NONE", "128B", "L2_128B", "NONE"
    )  # fmt: skip


def test_other_sizes_are_no_maps() -> None:
    data = bytes.fromhex(_maps()[0]["map"])
    assert decode(data[:-1]) is None
    assert decode(data + b"\0") is None
    assert decode(b"") is None
    assert decode(b"\xff" * SIZE) is None
