"""What a trace of `tests/gpu/tma_truth.cu` with NVBit says, beside what the program says itself.

The program says for every copy its operands, for every tensor map the arguments that it was made from, and what it finds
afterwards in shared or global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.device_code.tma import tensor_tiles
from warpsight.device_code.tma.tensor_map import Im2col, TensorMap
from warpsight.formats.events.kinds import TENSOR_COPY
from warpsight.formats.events.tensor_copies import CopyReader, TensorCopy
from warpsight.sass.events.trace import EventTrace, TracedLaunch

Bytes = NDArray[np.uint8]
SHARED = 16384
#: The enumerators of cuda.h, and the sizes of the first.
TYPES = (
    ("UINT8", 1), ("UINT16", 2), ("UINT32", 4), ("INT32", 4), ("UINT64", 8), ("INT64", 8), ("FLOAT16", 2), ("FLOAT32", 4),
    ("FLOAT64", 8), ("BFLOAT16", 2),
)  # fmt: skip
INTERLEAVES, SWIZZLES = ("NONE", "16B", "32B"), ("NONE", "32B", "64B", "128B")
PROMOTIONS, FILLS = ("NONE", "L2_64B", "L2_128B", "L2_256B"), ("NONE", "NAN_REQUEST_ZERO_FMA")
_STEP_OF_A_LINE, _UNTOUCHED = 17, 0xCC


def pattern(seed: int, count: int) -> Bytes:
    """The program's bytes."""
    i = np.arange(count, dtype=np.int64)
    return (i * 131 + (i >> 8) * _STEP_OF_A_LINE + seed & 255).astype(np.uint8)


def tensor_of(said: dict[str, Any]) -> TensorMap:
    """The tensor map that the program's arguments describe."""
    pixels, (name, size) = "pixels" in said, TYPES[said["type"]]
    return TensorMap(
        said["address"], name, size, tuple(said["dims"]), (size, *said["strides"]), () if pixels else tuple(said["box"]),
        tuple(said["steps"]), INTERLEAVES[said["interleave"]], SWIZZLES[said["swizzle"]], PROMOTIONS[said["promotion"]],
        FILLS[said["fill"]],
        Im2col(tuple(said["lower"]), tuple(said["upper"]), said["channels"], said["pixels"]) if pixels else None,
    )  # fmt: skip


def launches(trace: EventTrace) -> list[TracedLaunch]:
    """Those of the program's kernels, in the order in which it reports them."""
    return [trace.launches[number] for number in sorted(trace.launches)]


def copies(trace: EventTrace, launch: TracedLaunch, reader: CopyReader) -> list[TensorCopy]:
    """The copies of a launch, in the order of the device."""
    events = trace.of_launch(launch.number)
    events = events.take(events.kind == TENSOR_COPY.number)
    texts = [trace.sass(place) for place in trace.places(launch, events.pc)]
    return list(reader.copies(events.tensor_copies(), texts))


def operands(copy: TensorCopy) -> dict[str, Any]:
    """A copy's operands under the program's names."""
    own = copy.operands
    assert own is not None, copy
    to_other = own.other_shared_address is not None
    return {
        "map": own.map_address or 0, "shared": _shared(own.shared_address), "barrier": _shared(own.barrier),
        "other": _shared(own.other_shared_address), "address": own.address or 0,
        "bytes": 0 if own.rank else own.bytes, "mask": own.multicast or 0, "policy": own.policy or 0,
        "at": [*own.coordinates, 0, 0, 0, 0, 0][:5], "offsets": [*own.offsets, 0, 0, 0][:3],
        "remote": [(own.shared_address or 0) >> 24, (own.barrier or 0) >> 24] if to_other else None,
    }  # fmt: skip


def said_operands(said: dict[str, Any], rank: int) -> dict[str, Any]:
    """What the program says, in the same form. It passes coordinates beyond the tensor's rank that no instruction takes."""
    kept = {name: said[name] for name in ("map", "address", "bytes", "mask", "policy", "offsets")}
    kept |= {name: _shared(said[name]) for name in ("shared", "barrier", "other")}
    kept["at"] = [*said["at"][:rank], 0, 0, 0, 0, 0][:5]
    kept["remote"] = [said["shared"] >> 24, said["barrier"] >> 24] if said["other"] else None
    return kept


def _shared(address: int | None) -> int:
    """An address in a block's own shared memory."""
    return (address or 0) & 0xFFFFFF


def expected(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The operands of a report's copies."""
    rank = report["maps"][0]["rank"] if report["maps"] else 0
    return [said_operands(said, rank) for said in report["said"]]


def loaded(report: dict[str, Any]) -> Bytes:
    """What shared memory holds after a load that began at its first byte, by the elements that the copy touches."""
    said, tensor = report["said"][0], tensor_of(report["maps"][0])
    mode = tensor_tiles.IM2COL if tensor.im2col else tensor_tiles.TILE
    offsets = said["offsets"][: tensor.rank - 2] if tensor.im2col else ()
    tile = tensor_tiles.tile(tensor, mode, said["at"][: tensor.rank], offsets)
    shared = tensor_tiles.shared_addresses(tensor, tile, _shared(said["shared"]))
    assert shared is not None
    held = np.full(SHARED, _UNTOUCHED, np.uint8)
    source = pattern(7, 1 << 18)
    part = np.arange(tile.element_bytes)
    at = (shared - _shared(said["shared"]))[:, None] + part
    held[at] = 0
    if tensor.oob_fill != "NONE":
        held.view(np.uint32)[at[~tile.inside][:, 0] // 4] = _NAN[tensor.data_type]
    held[at[tile.inside]] = source[(tile.addresses[tile.inside] - tensor.address)[:, None] + part]
    return held


#: What the hardware writes for a request of NaNs.
_NAN = {"FLOAT32": 0x7FF77FF7}


def stored(report: dict[str, Any]) -> Bytes:
    """What the first bytes of global memory hold after a store or an addition of 32-bit integers."""
    said, tensor = report["said"][0], tensor_of(report["maps"][0])
    tile = tensor_tiles.tile(tensor, tensor_tiles.TILE, said["at"][: tensor.rank], stores=True)
    shared = tensor_tiles.shared_addresses(tensor, tile, _shared(said["shared"]))
    assert shared is not None
    held, source, part = pattern(7, 65536), pattern(99, SHARED), np.arange(tile.element_bytes)
    to = (tile.addresses[tile.touched] - tensor.address)[:, None] + part
    moved = source[(shared[tile.touched] - _shared(said["shared"]))[:, None] + part]
    if report["kernel"] == "add":
        words = held.view(np.uint32)
        words[to[:, 0] // 4] += np.ascontiguousarray(moved).view(np.uint32)[:, 0]
    else:
        held[to] = moved
    return held


def found(report: dict[str, Any]) -> Bytes:
    """What the program found."""
    return np.frombuffer(bytes.fromhex(report["found"]), np.uint8)


def _order(operands: dict[str, Any]) -> str:
    return repr(sorted(operands.items()))


def check_operands(trace: EventTrace, reports: list[dict[str, Any]]) -> None:
    """Every copy of every launch has the operands that the program says, and nothing else is there."""
    reader = CopyReader(trace.tensor_maps)
    traced = launches(trace)
    assert len(traced) == len(reports)
    for launch, report in zip(traced, reports, strict=True):
        own = [operands(copy) for copy in copies(trace, launch, reader)]
        assert launch.name.split("(")[0].split("<")[0].split(" ")[-1] in (report["kernel"], "outward")
        assert sorted(own, key=_order) == sorted(expected(report), key=_order), report["kernel"]


def check_maps(trace: EventTrace, reports: list[dict[str, Any]]) -> None:
    """Each copy names the map that the program passed, byte for byte, and it is decoded to the arguments it was made from."""
    reader = CopyReader(trace.tensor_maps)
    made = {bytes.fromhex(said["bytes"]): said for report in reports for said in report["maps"]}
    assert set(trace.tensor_maps.values()) == set(made)
    for launch, report in zip(launches(trace), reports, strict=True):
        named = [int(copy.map or "0", 16) for copy in copies(trace, launch, reader)]
        data = [bytes.fromhex(said["bytes"]) for said in report["maps"]]
        if report["kernel"] == "forms":  # the last copy is after the kernel has replaced its map
            assert [trace.tensor_maps[key] for key in named] == [data[0]] * 6 + [data[1]]
        elif data:
            assert [trace.tensor_maps[key] for key in named] == data
        else:
            assert set(named) == {0}
    for key, held in trace.tensor_maps.items():
        assert reader.maps[f"{key:016x}"] == tensor_of(made[held]), made[held]["name"]


def check_tiles(reports: list[dict[str, Any]]) -> None:
    """The elements that copies touch hold what the program finds there."""
    checked = {"loads": loaded, "im2col": loaded, "multicast": loaded, "store": stored, "add": stored}
    for report in reports:
        if report["kernel"] not in checked:
            continue
        held = found(report)
        blocks = 2 if report["kernel"] == "multicast" else 1
        for block in range(blocks):
            own = held[block * len(held) // blocks :][: len(held) // blocks]
            computed = checked[report["kernel"]](report)
            if blocks > 1:  # which do not write to shared memory themselves
                computed = computed[: np.flatnonzero(computed != _UNTOUCHED)[-1] + 1]
                own = own[: len(computed)]
            where = report["maps"][0]["name"], report["said"][0]["at"]
            wrong = np.flatnonzero(own != computed)
            assert not len(wrong), (*where, wrong[:8], own[wrong[:8]], computed[wrong[:8]])
