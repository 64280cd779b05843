"""A file that is not a trace: the message says what it is."""

import gzip
import sqlite3
import zipfile

import pytest

from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files


def told(path, tmp_path):
    with pytest.raises(FormatError) as error:
        import_files([path], tmp_path / "out.warp")
    assert not (tmp_path / "out.warp").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x7fELF" + bytes(range(1, 200)), "is an ELF file"),
        (b"PK\x03\x04" + b"a" * 100, "is a zip archive, not a packed trace"),
        (gzip.compress(b"\x7fELF" + b"\1" * 100, mtime=0), "is an ELF file"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "compressed more than once"),
        (
            b'{"hello": 1, "day": 2}',
            "is JSON (its keys: 'hello', 'day') in no known format (`warpsight import --formats`",
        ),
        (b"[1, 2, 3", "looks like JSON that is cut off"),
        (b"[" * 4000 + b"]" * 4000, "looks like JSON that is cut off, damaged"),
        (b"dear diary\ntoday nothing ran\n", "holds text in no known format"),
        (bytes(300), "holds zero bytes only"),
        (b"\xff\xfe\x80\x81" * 50, "holds binary data"),
    ],
)
def test_the_kind_of_a_file_is_said(content, expected, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    message = told(path, tmp_path)
    assert expected in message and "\n" not in message


def test_a_database_that_is_cut_off_is_called_damaged(tmp_path):
    whole = tmp_path / "whole.sqlite"
    with sqlite3.connect(whole) as database:
        database.execute("CREATE TABLE a (b)")
        database.executemany("INSERT INTO a VALUES (?)", [("x" * 500,)] * 100)
    database.close()
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(whole.read_bytes()[:3000])
    assert f"damaged SQLite database: only 3,000 of its {whole.stat().st_size:,} bytes" in told(cut, tmp_path)
    assert "not one that a known profiler writes" in told(whole, tmp_path)


def test_the_database_that_rocprof_1_works_with_is_no_damaged_one(tmp_path):
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as database:
        database.execute(
            'CREATE TABLE HIP ("BeginNs" INTEGER, "EndNs" INTEGER, "Name" TEXT, "DurationNs" INTEGER)'
        )
        database.execute('CREATE TABLE KERN ("Index" INTEGER, "KernelName" TEXT)')
    database.close()
    message = told(path, tmp_path)
    assert "is the database that rocprof 1 works with: name the .json or .csv file" in message
    assert "damaged" not in message


def test_a_zip_of_something_else(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    assert "is a zip archive, not a packed trace" in told(path, tmp_path)
