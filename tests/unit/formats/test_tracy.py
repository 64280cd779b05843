"""Tracy: captures are refused with their version and a way out, csvexport's files are read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import zstandard

from warpsight.formats.errors import FormatError
from warpsight.formats.importing import open_any

GOLDEN = Path(__file__).parents[2] / "golden" / "formats" / "tracy-csv"
BODY = b"tracy" + bytes([0, 11, 1]) + bytes(200)


def block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


@pytest.mark.parametrize(
    ("capture", "told"),
    [
        (b"tr\xfdP\x01\x02" + block(zstandard.compress(BODY)), "Tracy 0.11.1"),
        (b"tr\xfdP\x01" + block(zstandard.compress(BODY)), "Tracy 0.11.1"),
        (b"tlZ\x04" + block(b"\xf0\x00" + BODY), "Tracy 0.11.1"),
        (b"tZst" + block(b"damaged"), "Tracy 0.7 to 0.9"),
    ],
)
def test_a_capture_is_refused_with_its_version_and_what_to_do(
    tmp_path: Path, capture: bytes, told: str
) -> None:
    path = tmp_path / "game.tracy"
    path.write_bytes(capture)
    with pytest.raises(FormatError, match=rf"{told}.*tracy-csvexport -u"):
        open_any(path)


def test_zones_with_commas_in_their_names() -> None:
    with open_any(GOLDEN / "zones.csv") as trace:
        rows = trace.sql(
            "SELECT name, start, duration, thread, attributes FROM marker ORDER BY start"
        ).fetchall()
        assert rows == [
            ("run<int, 4>", 1000, 500, 4711, None),
            ("load", 1100, 50, 4712, '{"text":"chunk 7, of 9"}'),
        ]


def test_gpu_zones_and_messages() -> None:
    with open_any(GOLDEN / "gpu.csv") as trace:
        rows = trace.sql("SELECT name, start, duration FROM kernel ORDER BY start").fetchall()
        assert rows == [("draw<a, b>", 2000, 750), ("draw<a, b>", 3000, 800)]
    with open_any(GOLDEN / "messages.csv") as trace:
        assert trace.sql("SELECT name, start, kind FROM marker").fetchall() == [
            ("frame 1, late", 5000, "instant")
        ]


def test_the_summary_of_zones_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv"
    path.write_text(
        "name,src_file,src_line,total_ns,total_perc,counts,mean_ns,min_ns,max_ns,std_ns\nrun,a.cpp,1,5,1,1,5,5,5,0\n"
    )
    with pytest.raises(FormatError, match="run tracy-csvexport with -u"):
        open_any(path)
