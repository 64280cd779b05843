"""Copies by the TMA of a small trace as events, as a summary, as tables, and in CUTracer's format."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight as ws
from tests.unit.device_code.tensor_maps import made
from warpsight.device_code.tma.tensor_map import TensorMap
from warpsight.formats.events import tensor_copies as records
from warpsight.formats.events.blocks import MAGIC
from warpsight.ui.cli import app

_PC = 0x1200
_CODE = {
    0x10: "UTMALDG.2D [UR8], [UR4] ;", 0x20: "@P0 UTMASTG.2D [UR8], [UR4], desc[UR6] ;",
    0x30: "UBLKCP.S.G.MULTICAST [UR8], [UR10], UR4 ;", 0x40: "UTMANEW.2D [UR8], [UR4] ;", 0x50: "EXIT ;",
}  # fmt: skip
_KNOWN, _UNKNOWN, _ABSENT = 0x1111, 0x2222, 0x3333
_BARRIER, _SHARED, _ADDRESS = 0x408, 0x1000400, 0x7F0012345600
_LOAD = [_SHARED, _BARRIER, 28, 2**32 - 2, 5, 6, 7, 0x5000, 1]
_STORE = [_SHARED, 0, 4, 5, 6, 7, 8, 0x5000, 1, 0xAAAA, 0xBBBB]
_BULK = [_SHARED, _BARRIER, _ADDRESS % (1 << 32), _ADDRESS >> 32, 3 << 16 | 64]
_STRANGE = [9, 8, 7, 6, 5, 4, 3, 0x5000, 1]
_COPIES = [
    (0x10, _KNOWN, _LOAD), (0x10, _KNOWN, _LOAD), (0x20, _UNKNOWN, _STORE), (0x10, _ABSENT, _LOAD),
    (0x30, 0, _BULK), (0x40, 0, _STRANGE),
]  # fmt: skip
#: Of 8 × 4 floats at (28, -2), 4 × 2 are inside of 32 × 64.
_TENSOR = made(dimensions=(32, 64), strides=(128,), box=(8, 4), data_type="FLOAT32", swizzle="32B")


def _record(kind: int, pc: int, size: int, words: list[int], time: int) -> list[int]:
    length = 4 + len(words)
    head = [1 | (kind | length << 8 | size << 24) << 32, pc, 1 << 32, time]
    return [*head, *words]


def _trace(path: Path, request: dict[str, Any], copies: list[tuple[int, int, list[int]]] = _COPIES) -> None:
    """An event trace of these copies by warp 1, with the content of two tensor maps."""
    found = [_record(71, _PC, 0, [key, *[key] * 16], 5) for key in (_KNOWN, _UNKNOWN)]
    for time, (offset, key, values) in enumerate(copies):
        halves = [*values, *[0] * (len(values) % 2)]
        words = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
        found.append(_record(70, _PC + offset, len(values), [key, *words], 10_000 + time))
    said = [
        {"kind": "process", "pid": 42, "monotonic": 1000, "realtime": 5000, "request": request},
        {"kind": "function", "module": 0, "name": "k", "pc": _PC, "bytes": 0x80},
        {"kind": "operands", "module": 0, "name": "k", "pc": _PC, "instructions": [[at, text, []] for at, text in _CODE.items()]},
        {"kind": "launch", "launch": 0, "index": 0, "module": 0, "name": "k", "pc": _PC, "grid": [1, 1, 1], "block": [64, 1, 1],
         "cluster": [1, 1, 1], "stream": 1, "context": 16, "device": 0, "thread": 42, "monotonic": 2000, "realtime": 6000,
         "graph": 0},
    ]  # fmt: skip
    for one in found:
        one[2] = 1 << 32  # launch 0, warp 1
    lengths = bytes(len(one) for one in found)
    words = np.array([word for one in found for word in one], np.uint64)
    payloads = [(1, json.dumps(one).encode()) for one in said]
    head = struct.pack("<QII", 0, 0, len(found)) + lengths + bytes(-len(lengths) % 8)
    payloads += [(2, head + words.tobytes()), (1, b'{"kind": "end"}')]
    blocks = (struct.pack("<IIQ", kind, zlib.crc32(data), len(data)) + data for kind, data in payloads)
    path.write_bytes(MAGIC + b"".join(blocks))


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a trace of which one tensor map can be decoded."""

    def decode(data: bytes) -> TensorMap | None:
        return _TENSOR if data == struct.pack("<Q", _KNOWN) * 16 else None

    monkeypatch.setattr(records, "decode", decode)
    path = tmp_path / "a.events"
    _trace(path, {"tool": "NVBit", "events": ["tensor-copies"]})
    return path


def test_every_copy_is_an_event_with_its_operands(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "events", str(trace), "--json"]) == 0
    out = capsys.readouterr()
    shown = [json.loads(line) for line in out.out.splitlines()]
    assert [one["kind"] for one in shown] == ["tensor_copy"] * 6  # a tensor map is no event
    assert [one["sass"] for one in shown] == [_CODE[offset].rstrip(" ;") for offset, _, _ in _COPIES]
    load, _, store, without, bulk, strange = (one["copy"] for one in shown)
    assert load["coordinates"] == [28, -2]
    assert (load["bytes"], load["outside_bytes"]) == (128, 96)
    assert (load["shared_address"], load["barrier"], load["map_address"]) == (
        _SHARED,
        _BARRIER,
        0x1_0000_5000,
    )
    assert load["tensor"]["dimensions"] == [32, 64]
    assert (store["policy"], store["coordinates"], store["tensor"]) == (0xBBBB_0000_AAAA, [0, 4], None)
    assert store["tensor_bytes"] == struct.pack("<Q", _UNKNOWN).hex() * 16
    assert (without["tensor"], without["bytes"]) == (None, None)
    assert (bulk["address"], bulk["bytes"], bulk["multicast"]) == (_ADDRESS, 1024, 3)
    assert strange == {"understood": False, "registers": dict(zip(
        ["UR8", "UR9", "UR10", "UR11", "UR12", "UR13", "UR14", "UR4", "UR5"], _STRANGE, strict=True
    ))}  # fmt: skip
    assert app.main(["sass", "events", str(trace)]) == 0
    assert "coordinates=[28,-2]" in capsys.readouterr().out


def test_what_is_not_understood_is_counted_and_shown(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "tma", str(trace), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert sorted((one["what"], one["executions"], one["unknown"]) for one in answer["copies"]) == [
        ("bulk_load", 1, 0), ("tensor_load", 1, 1), ("tensor_load", 2, 0), ("tensor_store", 1, 1), ("tma_instruction", 1, 1),
    ]  # fmt: skip
    (loads,) = (one for one in answer["copies"] if one["executions"] == 2)
    assert (loads["bytes"], loads["outside_bytes"], loads["coordinates"]) == (256, 192, [[28, 28], [-2, -2]])
    (strange,) = (one for one in answer["copies"] if one["what"] == "tma_instruction")
    assert strange["example"]["UR4"] == 0x5000
    assert answer["maps"][f"{_KNOWN:016x}"]["box"] == [8, 4]
    assert answer["maps"][f"{_UNKNOWN:016x}"] == struct.pack("<Q", _UNKNOWN).hex() * 16
    assert len(answer["notes"]) == 3
    for words in (
        "TMA instructions with operands",
        "tensor maps of an unknown layout",
        "copies whose tensor map is not",
    ):
        assert any(note.startswith(words) for note in answer["notes"]), words
    assert sum(event["what"] == "tensor_load" for event in answer["blocks"][0]["events"]) == 3


def test_the_table_and_the_page_show_tiles(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "tma.html"
    assert app.main(["sass", "tma", str(trace)]) == 0
    said = capsys.readouterr()
    assert app.main(["sass", "tma", str(trace), "-o", str(page)]) == 0
    for text in (said.out, page.read_text()):
        assert "float32 32×64" in text
        assert "box 8×4, swizzle 32B, fill zeros" in text
        assert "(28, -2), 96 B outside" in text
        assert "0, 1" in text
        assert "UR4=0x5000" in text
        assert "unknown tensor map" in text
        assert "of the traced run" in text
        assert "waited" not in text  # mbarriers were not traced
        assert "Blocks" not in text
    assert "operands that are not understood" in said.err


def test_copies_become_tables_and_cutracers_records(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported, exported = tmp_path / "a.warp", tmp_path / "a.ndjson"
    assert app.main(["import", str(trace), "-o", str(imported)]) == 0
    assert "1 lost: operands of TMA instructions" in capsys.readouterr().err
    with ws.open(imported) as opened:
        rows = opened.sql("SELECT kind, warp, pc FROM warp_event ORDER BY event").fetchall()
    assert rows == [("tma_trace", 1, offset) for offset, _, _ in _COPIES]
    assert app.main(["export", str(imported), "--to", "cutracer", "-o", str(exported)]) == 0
    assert app.main(["sass", "validate", str(exported)]) == 0
    capsys.readouterr()
    _, *written = map(json.loads, exported.read_text().splitlines())
    assert {one["type"] for one in written} == {"tma_trace"}
    info = written[0]["tma_transfer_info"]
    assert (written[0]["desc_addr"], written[0]["tma_param_size"]) == (hex(_TENSOR.address), 128)
    assert (info["is_tensor"], info["src_memspace"], info["dst_memspace"]) == (True, "GLOBAL", "SHARED")
    assert (info["transfer_count"], info["transfer_size"], info["byte_count"]) == (32, 4, 128)
    tensor = info["tensor"]
    assert (tensor["coords"], tensor["oob_transfer_count"]) == ([28, -2, 0, 0, 0], 24)
    assert tensor["tiled"]["global_dim"] == [32, 64, 0, 0, 0]
    assert written[4]["tma_transfer_info"]["multicast_cta_mask"] == 3
    assert written[2]["desc_raw"] == [_UNKNOWN] * 16
    assert written[5]["tma_transfer_info"]["registers"]["UR8"] == 9


def test_a_trace_that_cannot_have_tensor_copies_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.events"
    _trace(path, {"events": ["tma", "mbarrier"]}, _COPIES[:1])
    assert app.main(["sass", "tma", str(path), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(
        note.startswith("instructions that copy by tensor map") and note.endswith("(2)") for note in notes
    )


def test_a_copy_that_the_hardware_refuses_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [*_LOAD[:2], 30, *_LOAD[3:]]
    _trace(
        trace, {"tool": "NVBit", "events": ["tensor-copies"]}, [(0x10, _KNOWN, _LOAD), (0x10, _KNOWN, odd)]
    )
    assert app.main(["sass", "tma", str(trace), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (
        answer["notes"][0]
        == "k+0x10: illegal instruction, the innermost coordinate is not a multiple of 16 bytes"
    )
    assert app.main(["sass", "events", str(trace), "--json"]) == 0
    shown = [json.loads(line)["copy"] for line in capsys.readouterr().out.splitlines()]
    assert ["illegal" in one for one in shown] == [False, True]
