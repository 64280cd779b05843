"""Writes xplane.pb byte by byte from the field numbers of xplane.proto: no code shared with the reader."""

from __future__ import annotations

import struct

Message = bytes


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def real(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def stat(metadata: int, value: int | float | str, kind: str = "") -> Message:
    """An XStat: 2 double, 3 uint64, 4 int64, 5 string, 7 reference."""
    if kind == "ref":
        return number(1, metadata) + number(7, int(value))
    if isinstance(value, str):
        return number(1, metadata) + text(5, value)
    if isinstance(value, float):
        return number(1, metadata) + real(2, value)
    return number(1, metadata) + number(4 if value < 0 else 3, value)


def event(metadata: int, offset_ps: int, duration_ps: int, *stats: Message) -> Message:
    return (
        number(1, metadata)
        + number(2, offset_ps)
        + number(3, duration_ps)
        + b"".join(text(4, s) for s in stats)
    )


def line(identity: int, name: str, timestamp_ns: int, *events: Message) -> Message:
    return (
        number(1, identity) + text(2, name) + number(3, timestamp_ns) + b"".join(text(4, e) for e in events)
    )


def plane(
    name: str, lines: list[Message], events: dict[int, str], stats: dict[int, str], values: list[Message]
) -> Message:
    return (
        text(2, name)
        + b"".join(text(3, one) for one in lines)
        + b"".join(text(4, number(1, k) + text(2, number(1, k) + text(2, v))) for k, v in events.items())
        + b"".join(text(5, number(1, k) + text(2, number(1, k) + text(2, v))) for k, v in stats.items())
        + b"".join(text(6, one) for one in values)
    )


#: Nanoseconds since 1970 that a float would not keep.
EPOCH = 1_700_000_000_123_456_789

_STATS = {
    1: "correlation_id", 2: "kernel_details", 3: "memcpy_details", 4: "hlo_op", 5: "compute_cap_major", 6: "compute_cap_minor",
    7: "device_vendor", 8: "memory_size", 9: "core_count", 10: "device_type_string", 11: "memset_details", 20: "fusion.1",
    21: "regs:40 static_shared:16 dynamic_shared:1024 grid:8,2,1 block:128,1,1 occ_pct:50",
    22: "kind_src:pageable kind_dst:device size:4096 dest:0 async:1", 23: "step_name",
}  # fmt: skip

GPU = plane(
    "/device:GPU:0",
    [
        line(
            13, "Stream #13(MemcpyH2D,Compute)", EPOCH,
            event(2, 1_000_999, 250_000, stat(3, 22, "ref"), stat(1, 100)),
            event(1, 2_000_000, 500_999, stat(2, 21, "ref"), stat(1, 101), stat(4, 20, "ref")),
            event(3, 3_000_000, 10_000, stat(11, "kind:device size:64 async:1"), stat(1, 102)),
        ),
        line(1 << 40, "XLA Modules", EPOCH, event(4, 1_000_000, 3_000_000)),
    ],
    {1: "fusion_1", 2: "MemcpyH2D", 3: "Memset", 4: "jit_step(1)"},
    _STATS,
    [stat(5, 9), stat(6, 0), stat(7, "NVIDIA"), stat(8, 85_899_345_920), stat(9, 132), stat(10, "NVIDIA H100")],
)  # fmt: skip
HOST = plane(
    "/host:CPU",
    [
        line(
            7001, "python3/7001", EPOCH - 5000,
            event(1, 0, 9_000_000, stat(23, "train"), stat(9, 1.5)),
            event(2, 1_000_000, 300_000, stat(1, 101)),
            event(3, 4_000_000, 100_000, stat(1, 100)),
            event(4, 5_000_000, 0),
            event(5, 6_000_000, 1_000),
        ),
    ],
    {1: "PjitFunction(step)", 2: "cuLaunchKernel", 3: "cuMemcpyHtoDAsync_v2", 4: "mark", 5: "$train.py:12 step"},
    _STATS,
    [],
)  # fmt: skip
TPU = plane(
    "/device:TPU:0",
    [
        line(3, "XLA Ops", EPOCH, event(1, 10_000, 20_000)),
        line(2, "XLA Modules", EPOCH, event(2, 0, 50_000)),
    ],
    {1: "%fusion.2 = f32[8] fusion(...)", 2: "jit_step"},
    {},
    [],
)
SPACE = b"".join(text(1, one) for one in (GPU, HOST, TPU)) + text(3, "dropped 3 events") + text(4, "host-a")
