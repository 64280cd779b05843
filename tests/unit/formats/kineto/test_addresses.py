"""Addresses of copies and fills survive the export to Kineto's JSON and its import."""

from __future__ import annotations

from pathlib import Path

import warpsight
from tests.unit.capture.recordings import Recording
from tests.unit.capture.test_addresses import ADDRESSES, calls, copies
from warpsight.formats.importing import import_files
from warpsight.formats.kineto import writer
from warpsight.formats.selection import Selection


def test_addresses_come_back(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t.warp")
    (tmp_path / "t.warp").mkdir()
    with recording.file(recording.process(1)) as out:
        destinations = [0x2000, 0x3000, 0, 0xFFFF_FFFF_FFFF_F000]
        out.write("CopyCall", calls(1, 4, source=[0x1000, 0, 0x7000, 0], destination=destinations))
        out.write("Memcpy", copies(1, 3))
        out.write(
            "Memset",
            {"start": [4100], "end": [4200], "bytes": 64, "correlation": [4], "context": 1, "stream": 7},
        )
    trace = recording.finish()
    with (tmp_path / "t.json").open("wb") as file:
        writer.write(trace, file, Selection(enclosed=False))
    made = import_files([tmp_path / "t.json"], tmp_path / "back.warp")
    with warpsight.open(made.path) as again:
        assert again.sql(ADDRESSES).fetchall() == trace.sql(ADDRESSES).fetchall() == [
            (0x1000, 0x2000), (None, 0x3000), (0x7000, None),
        ]  # fmt: skip
        assert again.sql("SELECT address FROM memset").fetchall() == [(0xFFFF_FFFF_FFFF_F000,)]
