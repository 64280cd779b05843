"""XRay logs: what llvm-xray 14 says of genuine logs, and layouts of older versions written by the description."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace

GOLDEN = Path(__file__).parents[2] / "golden"
RECORD = re.compile(
    r"func-id: (\d+), function: '?([\w.]+)'?,.*? thread: (\d+), process: (\d+), kind: (function-[\w-]+), tsc: (\d+)"
)


def imported(tmp_path: Path, path: Path, **options: str) -> StoredTrace:
    import_files([path], tmp_path / "x.warp", form="xray", force=True, options=options)
    return open_trace(tmp_path / "x.warp")


def told_by_llvm(path: Path) -> list[tuple[str, int, int]]:
    """Name, begin and duration of every call, from the records that llvm-xray lists."""
    stack: dict[str, list[tuple[str, int]]] = {}
    calls = []
    for _, name, thread, _, kind, tsc in RECORD.findall(path.read_text()):
        if "enter" in kind:
            stack.setdefault(thread, []).append((name, int(tsc)))
        else:
            function, begin = stack[thread].pop()
            assert function == name
            calls.append((name, begin, int(tsc) - begin))
    return sorted(calls, key=lambda call: call[1])


def test_a_genuine_fdr_log_of_version_5(tmp_path: Path) -> None:
    log, names = GOLDEN / "formats" / "xray" / "fdr.v5.xray", GOLDEN / "xray-map.llvm.yaml"
    with imported(tmp_path, log, map=str(names)) as trace:
        rows = trace.sql("SELECT name, start, duration FROM marker ORDER BY start").fetchall()
        assert rows == told_by_llvm(GOLDEN / "xray-fdr.llvm.yaml") and len(rows) == 10
        assert trace.sql("SELECT name, max(depth), max(attributes) FROM marker GROUP BY 1 ORDER BY 1").fetchall() == [
            ("leaf", 2, None), ("outer", 0, None), ("work", 1, '{"argument":2}')]  # fmt: skip
        assert trace.sql("SELECT name, kind FROM user_event").fetchall() == [("hello", "xray custom")]


def test_a_genuine_basic_log_of_version_3(tmp_path: Path) -> None:
    with imported(tmp_path, GOLDEN / "formats" / "xray" / "basic.v3.xray") as trace:
        rows = trace.sql("SELECT start, duration FROM marker ORDER BY start").fetchall()
        assert rows == [call[1:] for call in told_by_llvm(GOLDEN / "xray-basic.llvm.yaml")]
        assert trace.sql("SELECT DISTINCT starts_with(name, 'function ') FROM marker").fetchall() == [(True,)]


def header(version: int, kind: int, frequency: int = 2_000_000_000, buffer: int = 0) -> bytes:
    return struct.pack("<HHIQQQ", version, kind, 3, frequency, buffer, 0)


def naive(kind: int, function: int, tsc: int, tid: int = 7, pid: int = 0) -> bytes:
    return struct.pack("<HBBiQII8x", 0, 0, kind, function, tsc, tid, pid)


def meta(kind: int, body: bytes) -> bytes:
    return bytes([kind << 1 | 1]) + body.ljust(15, b"\0")


def call(kind: int, function: int, delta: int) -> bytes:
    return struct.pack("<II", function << 4 | kind << 1, delta)


CALLS = [("function 1", 500, 1_000), ("function 2", 750, 250)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_basic_logs_of_every_version(tmp_path: Path, version: int) -> None:
    body = naive(0, 1, 1_000) + naive(3, 2, 1_500) + struct.pack("<HBBiIIQ8x", 1, 0, 0, 2, 7, 0, 99)
    body += naive(1, 2, 2_000) + naive(2, 1, 3_000)
    path = tmp_path / "log.xray"
    path.write_bytes(header(version, 0) + body)
    with imported(tmp_path, path) as trace:
        rows = trace.sql("SELECT name, start, duration FROM marker ORDER BY start").fetchall()
        assert rows == CALLS
        assert trace.sql("SELECT attributes FROM marker WHERE name = 'function 2'").fetchall() == [
            ('{"argument":99}',)
        ]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_fdr_logs_of_every_version(tmp_path: Path, version: int) -> None:
    begin = meta(0, struct.pack("<i", 7)) + meta(4, struct.pack("<QI", 5, 6))
    if version >= 3:
        begin += meta(9, struct.pack("<i", 3))
    records = begin + meta(2, struct.pack("<HQ", 1, 1_000)) + call(0, 1, 0) + call(0, 2, 500)
    if version == 4:
        records += meta(5, struct.pack("<iQH", 3, 1_600, 0)) + b"abc"
    elif version == 5:
        records += meta(5, struct.pack("<ii", 3, 0)) + b"abc" + meta(8, struct.pack("<iiH", 2, 0, 4)) + b"xy"
    records += meta(3, struct.pack("<Q", 2_000)) + call(1, 2, 0) + call(2, 1, 1_000)
    if version < 3:
        buffer = 512
        data = header(version, 1, buffer=buffer) + (records + meta(1, b"")).ljust(buffer, b"\0") * 1
    else:
        data = header(version, 1, buffer=4096) + meta(7, struct.pack("<Q", len(records))) + records
    path = tmp_path / "log.xray"
    path.write_bytes(data)
    with imported(tmp_path, path) as trace:
        assert trace.sql("SELECT name, start, duration FROM marker ORDER BY start").fetchall() == CALLS
        expected = {4: [("abc", "xray custom")], 5: [("abc", "xray custom"), ("xy", "xray type 4")]}.get(
            version, []
        )
        assert trace.sql("SELECT name, kind FROM user_event ORDER BY name").fetchall() == expected
        assert trace.sql("SELECT DISTINCT thread FROM marker").fetchall() == [(7,)]


def test_an_exit_without_its_entry_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.xray"
    path.write_bytes(
        header(3, 0)
        + naive(1, 9, 500)
        + naive(0, 1, 1_000)
        + naive(0, 2, 1_500)
        + naive(1, 2, 2_000)
        + naive(1, 1, 3_000)
    )
    with imported(tmp_path, path) as trace:
        assert trace.sql("SELECT name, start, duration FROM marker ORDER BY start").fetchall() == CALLS
        assert trace.sql("SELECT count FROM loss WHERE severity = 'lost'").fetchall() == [(1,)]


def test_a_version_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.xray"
    path.write_bytes(header(6, 1) + meta(7, b""))
    with pytest.raises(FormatError, match="version 6"):
        imported(tmp_path, path)
