"""Files made to be read for ever, or to break what reads them: an error that names the file, or a part that says it is one."""

import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from tests.unit.formats import rocprof_files
from tests.unit.formats.test_damage import GOLDEN, _without_folders, attempt, check  # noqa: F401  (used by every test)
from warpsight.cluster import places
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.errors import WarpsightError
from warpsight.formats import importing, registry
from warpsight.formats.source import Source
from warpsight.model.storage import manifest
from warpsight.race import plan

DEEP = 200_000
EVENT = b'{"traceEvents":[{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":1,'
BEGINS = {
    "kineto": b'{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":1,"dur":1,"args":',
    "chrome": EVENT + b'"args":',
    "unitrace": EVENT + b'"cat":"gpu_op","args":',
    "mctracer": EVENT + b'"args":',
    "speedscope": b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":',
    "rocprof": b'{"rocprofiler-sdk-tool":[{"metadata":',
    "msprof": b'[{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":1,"args":',
    "cutracer": b'{"type":"kernel_metadata","x":',
}


@pytest.mark.parametrize("form", BEGINS)
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_that_is_nested_without_end(form, opening, tmp_path):
    (tmp_path / "deep.json").write_bytes(BEGINS[form] + opening * DEEP)
    error, marked, _ = check(form, tmp_path / "deep.json")
    assert error is not None or marked


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("folded", b"a;b " + b"9" * 100_000 + b"\n"),
        ("bpftrace", b"Attaching 1 probe...\n@[\n    f+1\n    main+2\n]: " + b"9" * 100_000 + b"\n"),
        ("chrome", b'{"traceEvents":[{"ph":"X","name":"x","pid":1,"tid":1,"ts":' + b"9" * 2_000_000 + b',"dur":1}]}'),
        ("cutracer", b'{"type":"kernel_metadata","kernel_launch_id":' + b"9" * 100_000 + b"}\n"),
    ],
)  # fmt: skip
def test_a_number_of_more_digits_than_any_number_has(form, data, tmp_path):
    (tmp_path / "long").write_bytes(data)
    error, marked, _ = check(form, tmp_path / "long")
    assert error is not None or marked


@pytest.mark.parametrize(
    "data", [b"{" + b" " * 65_535, b"a" + b" " * 65_535, b"a;b " * 16_384, b"\n" * 65_536]
)
def test_no_format_is_looked_for_again_and_again_in_blanks(data, tmp_path):
    (tmp_path / "x").write_bytes(data)
    for form in registry.READERS:
        # Within the limit of processor time that damage has.
        with Source(tmp_path / "x") as source:
            assert isinstance(registry.READERS[form].sniff(source), bool)
    attempt("perf-script", tmp_path / "x")


@pytest.mark.parametrize(
    ("form", "name"),
    [("nsys", "every_table.sqlite"), ("rocprof", "results.db"), ("msprof", "msprof_1.db")],
)
def test_a_view_that_has_rows_without_end(form, name, tmp_path):
    path = tmp_path / name
    path.write_bytes((GOLDEN / form / name).read_bytes())
    database = sqlite3.connect(path)
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        database.execute(f'DROP TABLE "{table}"')
        listed = ", ".join(f'n AS "{column}"' for column in columns)
        endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
        database.execute(f'CREATE VIEW "{table}" AS {endless} SELECT {listed} FROM r')
    database.commit()
    database.close()
    error, _, _ = check(form, path)
    assert error is not None and "SQLite cannot read it" in str(error)


def test_an_fdr_log_without_a_buffer_is_no_whole_log(tmp_path):
    header = (GOLDEN / "xray" / "fdr.v5.xray").read_bytes()[:32]
    (tmp_path / "x.xray").write_bytes(header + b"\xff" * 1_000)
    _, marked, _ = check("xray", tmp_path / "x.xray")
    assert marked


@pytest.mark.parametrize(
    ("place", "value"), [(24, 1 << 62), (24, 100), (32, 1 << 62), (40, 72), (56, 1 << 40)]
)
def test_an_offset_or_count_of_sbt_that_is_not_true(place, value, tmp_path):
    data = bytearray((GOLDEN / "sbt" / "every_type.sbt").read_bytes())
    struct.pack_into("<Q", data, place, value)
    path = Path(tmp_path / "x.sbt")
    path.write_bytes(data)
    error, marked, _ = check("sbt", path)
    assert error is not None or marked


def test_xml_that_is_nested_without_end(tmp_path):
    begin = b'<?xml version="1.0"?><trace-query-result><node><schema name="metal-gpu-intervals"></schema>'
    (tmp_path / "x.xml").write_bytes(begin + b"<row>" * 100_000)
    error, _, _ = check("instruments", tmp_path / "x.xml")
    assert error is not None and "deep" in str(error)


def test_packets_of_perfetto_that_unfold_to_millions(tmp_path):
    # 40 million empty packets in 80 kB: a file of real packets has one for several bytes
    folded = zlib.compress(b"\x0a\x00" * 40_000_000, 9)
    field = b"\x92\x03" + _length(folded) + folded
    (tmp_path / "x.pftrace").write_bytes(b"\x0a" + _length(field) + field)
    error, marked, _ = check("perfetto", tmp_path / "x.pftrace")
    assert error is None and marked


def _length(data):
    """A protobuf length."""
    size, parts = len(data), []
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes([*parts, size])


def test_numbers_of_a_launch_that_no_launch_has_are_left_out(tmp_path):
    path = rocprof_files.write_rocpd(tmp_path / "77_results.db", "3.0.3")
    database = sqlite3.connect(path)
    database.execute(f"update rocpd_info_kernel_symbol{rocprof_files.RUN} set arch_vgpr_count = 1 << 40")
    database.commit()
    database.close()
    error, marked, rows = check("rocprof", path)
    assert error is None and not marked and rows["kernel"] == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda path: Source(path), lambda path: importing.open_any(path), lambda path: manifest.read(path.parent),
        lambda path: importing.open_any(path.parent), lambda path: plan.read(path), lambda path: GpuCore.open(path),
        lambda path: importing.open_any(places.find([path]).traces[0]), lambda path: places.find([path.parent]),
    ],
)  # fmt: skip
def test_a_device_in_the_place_of_a_file_is_not_opened(read, tmp_path):
    """Opening a pipe waits for its writer, and /dev/zero never ends; /dev/null stands for both here."""
    path = tmp_path / "manifest.json"
    path.symlink_to("/dev/null")
    with pytest.raises(WarpsightError, match=r"a pipe, a socket or a device|holds no traces"):
        read(path)
