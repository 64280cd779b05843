"""A second reader of segment files, written from the description in `layout.py` alone.

It imports nothing of `warpsight` and takes the fields from the text of the layout, so a mistake in the package's own
reader or in its offsets shows as a difference.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LAYOUT = Path(__file__).parents[3] / "src" / "warpsight" / "capture" / "segments"
FILES = ("layout.py", "definition_kinds.py", "record_kinds.py")
SLOT, HEADER, MAGIC = 65536, 64, 0x31425357
FORMATS = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q", "f8": "d"}

Row = dict[str, int | float]


def field_tables() -> dict[str, tuple[int, list[str], struct.Struct]]:
    """Struct name -> (record kind or 0, field names, how to unpack it), from the layout's text."""
    text = "".join((LAYOUT / name).read_text(encoding="utf-8") for name in FILES)
    structs = re.findall(r'Struct\(\s*"(\w+)",\s*fields\(\s*"""\n(.*?)"""', text, re.DOTALL)
    records = re.findall(r"^(\d+) (\w+).*\n((?: +\w.*\n)+)", text, re.MULTILINE)
    tables = {}
    for kind, name, lines in [("0", *one) for one in structs] + records:
        rows = re.findall(r"^ *(\w\d)(?:\[(\d+)\])? +(\w+)", lines, re.MULTILINE)
        unpack = struct.Struct("<" + "".join((count or "") + FORMATS[scalar] for scalar, count, _ in rows))
        names = [n if not c else f"{n}.{i}" for _, c, n in rows for i in range(int(c or 1))]
        tables[name] = (int(kind), names, unpack)
    return tables


TABLES = field_tables()
BY_KIND = {kind: (name, names, unpack) for name, (kind, names, unpack) in TABLES.items() if kind}


@dataclass
class Recording:
    """Everything read from a directory of segments."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    damaged: int = 0
    gaps: int = 0
    unsealed: int = 0
    pids: set[int] = field(default_factory=set)
    arenas: set[int] = field(default_factory=set)
    rows_of_thread: Counter[tuple[str, int]] = field(default_factory=Counter)
    sessions: dict[int, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Row]:
        return self.rows.get(name, [])

    def losses(self) -> list[tuple[str, str, int]]:
        """(source, cause, count) of every Loss row."""
        return [
            (self.strings[int(r["source"])], self.strings[int(r["cause"])], int(r["count"]))
            for r in self["Loss"]
        ]


def blocks(path: Path, recording: Recording) -> Iterator[tuple[Row, bytes]]:
    """Header and committed rows of each sound block of a file; counts the others."""
    _, names, unpack = TABLES["BlockHeader"]
    data = path.read_bytes()
    for at in range(0, len(data), SLOT):
        slot = data[at : at + SLOT]
        if len(slot) < HEADER or not any(slot[:HEADER]):
            continue
        header: Row = dict(zip(names, unpack.unpack_from(slot), strict=True))
        committed = int(header["committed"])
        sound = header["magic"] == MAGIC and header["version"] == 1 and HEADER + committed <= len(slot)
        if not sound or zlib.crc32(slot[: HEADER - 4] + slot[HEADER : HEADER + committed]) != header["crc"]:
            recording.damaged += 1
            continue
        yield header, slot[HEADER : HEADER + committed]


def read_strings(payload: bytes, into: dict[int, str]) -> None:
    """Rows of kind 1: id, length, text padded to 8."""
    at = 0
    while at < len(payload):
        number, length = struct.unpack_from("<II", payload, at)
        into[number] = payload[at + 8 : at + 8 + length].decode()
        at += 8 + (length + 7) // 8 * 8


def read(directory: Path) -> Recording:
    """Read every segment of a directory, also those still open."""
    recording = Recording()
    taken: dict[tuple[int, int], tuple[int, int]] = {}
    files = sorted(directory.glob("*.seg*"), key=lambda p: int(re.findall(r"-(\d+)\.", p.name)[0]))
    for path in files:
        for header, payload in blocks(path, recording):
            key = (int(header["arena"]), int(header["writer"]))
            sequence, used = taken.get(key, (-1, 0))
            if header["sequence"] < sequence:
                continue
            if header["sequence"] > sequence:
                recording.gaps += int(header["sequence"]) - sequence - 1
                used = 0
            taken[key] = (int(header["sequence"]), max(used, len(payload)))
            _take(recording, header, payload, used)
    return recording


def _take(recording: Recording, header: Row, payload: bytes, used: int) -> None:
    recording.pids.add(int(header["pid"]))
    recording.arenas.add(int(header["arena"]))
    recording.unsealed += not int(header["flags"]) & 1
    kind = int(header["kind"])
    if kind == 1:
        read_strings(payload[used:], recording.strings)
        return
    name, names, unpack = BY_KIND[kind]
    assert header["row_bytes"] == unpack.size
    for values in unpack.iter_unpack(payload[used:]):
        row: Row = dict(zip(names, values, strict=True))
        row["_thread"], row["_session"] = header["thread"], header["session"]
        recording.rows.setdefault(name, []).append(row)
        recording.rows_of_thread[name, int(header["thread"])] += 1
