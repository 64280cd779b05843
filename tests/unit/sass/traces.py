"""Instruction traces in CUTracer's layout, built from its field lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

SASS = [
    "LDG.E R2, [R2.64] ;",
    "IADD3 R2, R2, 0x1, RZ ;",
    "STG.E [R4.64], R2 ;",
    "@P0 EXIT ;",
    "EXIT ;",
    "NOP ;",
]
STATE = 0x100


def metadata(**other: Any) -> dict[str, Any]:
    table = {str(i): {"sass": text, "binary": "0x1", "regs": [2], "uregs": []} for i, text in enumerate(SASS)}
    return {
        "type": "kernel_metadata", "mangled_name": "_Z3addPf", "unmangled_name": "add(float*)",
        "kernel_checksum": "a1b2c3", "func_addr": "0x7f00", "nregs": 16, "shmem_static": 0, "shmem_dynamic": 0,
        "grid": [2, 1, 1], "block": [64, 1, 1], "instructions": table, **other,
    }  # fmt: skip


def event(index: int, warp: int, opcode: int, kind: str = "opcode_only", **other: Any) -> dict[str, Any]:
    return {
        "type": kind, "ctx": "0x55aa", "trace_index": index, "timestamp": 1_760_000_000_000_000_000 + index,
        "grid_launch_id": 3, "cta": [warp // 2, 0, 0], "warp": warp, "opcode_id": opcode, "pc": hex(opcode * 16), **other,
    }  # fmt: skip


def small() -> list[dict[str, Any]]:
    """Warps 0 and 1 complete (1 with a NOP after its EXIT), 2 stops at a store; 3 never ran."""
    steps = [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 4), (1, 5), (2, 2)]
    events = [event(i, warp, opcode) for i, (warp, opcode) in enumerate(steps)]
    addresses = [STATE + 4 * lane for lane in range(32)]
    events.append(event(len(events), 2, 2, "mem_addr_trace", ipoint="B", addrs=addresses))
    return [metadata(), *events]


def ndjson(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(r, sort_keys=True, separators=(",", ":")).encode() + b"\n" for r in records)


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    data = ndjson(records)
    if path.suffix == ".zst":  # independent frames, as CUTracer writes them
        half = data.index(b"\n", len(data) // 2) + 1
        data = b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))
    path.write_bytes(data)
    return path
