"""Zips of a trace that other tools made open like those that `pack` made; what was made to fill memory or disk does not."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warpsight.model
from warpsight.errors import TraceError
from warpsight.formats.importing import open_any
from warpsight.model.sharing import pack

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack.unpack(GOLDEN / "planted_leak.warp.zip", tmp_path_factory.mktemp("whole") / "run.warp")


def zipped(
    folder: Path, target: Path, prefix: str = "", method: int = zipfile.ZIP_STORED, folders: bool = False
) -> zipfile.ZipFile:
    """The folder in a zip, left open for more."""
    archive = zipfile.ZipFile(target, "w", method)
    for path in sorted(folder.rglob("*")):
        if path.is_file() or folders:
            archive.write(path, prefix + path.relative_to(folder).as_posix())
    return archive


def by_zip_r(folder: Path, target: Path) -> None:
    with zipped(folder, target, "run.warp/", zipfile.ZIP_DEFLATED, folders=True):
        pass


def by_shutil(folder: Path, target: Path) -> None:
    made = shutil.make_archive(os.fspath(target.with_suffix("")), "zip", folder)
    os.replace(made, target)


def by_shutil_with_its_folder(folder: Path, target: Path) -> None:
    made = shutil.make_archive(os.fspath(target.with_suffix("")), "zip", folder.parent, folder.name)
    os.replace(made, target)


def by_macos(folder: Path, target: Path) -> None:
    with zipped(folder, target, "run.warp/", zipfile.ZIP_DEFLATED, folders=True) as archive:
        archive.writestr("__MACOSX/run.warp/._manifest.json", b"\0\5\x16\7")
        archive.writestr("run.warp/.DS_Store", b"Bud1")


@pytest.mark.parametrize("make", [by_zip_r, by_shutil, by_shutil_with_its_folder, by_macos])
@pytest.mark.parametrize("name", ["run.warp.zip", "mail attachment.zip"])
def test_a_zip_of_another_tool_opens(
    make: Callable[[Path, Path], None], name: str, folder: Path, tmp_path: Path
) -> None:
    make(folder, tmp_path / name)
    with open_any(tmp_path / name) as trace, warpsight.model.open(folder) as whole:
        assert trace.tables == whole.tables
        assert trace.count("kernel") == 162


def test_a_zip_with_several_traces_says_so(folder: Path, tmp_path: Path) -> None:
    with zipped(folder, tmp_path / "runs.zip", "a/") as archive:
        archive.write(folder / "manifest.json", "b/manifest.json")
    with pytest.raises(TraceError, match="several traces: unpack it and name one"):
        open_any(tmp_path / "runs.zip")


def test_a_zip_that_would_fill_the_disk_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path
) -> None:
    with zipped(folder, tmp_path / "bomb.warp.zip", method=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cubins/0.cubin", b"\0" * (200 << 20))
    assert (tmp_path / "bomb.warp.zip").stat().st_size < 1 << 20
    with pytest.raises(TraceError, match=r"would unpack to .* bytes"):
        open_any(tmp_path / "bomb.warp.zip")


def test_rows_that_would_fill_memory_are_refused_before_they_are_decoded(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "bomb.warp"
    shutil.copytree(folder, copy)
    part = next(copy.glob("table=sample/**/*.parquet"), None) or next(copy.glob("table=kernel/**/*.parquet"))
    one = pq.read_table(part, partitioning=None).slice(0, 1)
    many = one.take(pa.array([0] * 1_000_000, pa.int32()))
    with pq.ParquetWriter(part, one.schema, compression="zstd") as writer:
        for _ in range(6):
            writer.write_table(many)
    with zipped(copy, tmp_path / "bomb.warp.zip"):
        pass
    with pytest.raises(TraceError, match=r"holds 6,000,000 rows in .* bytes"):
        open_any(tmp_path / "bomb.warp.zip")


def test_an_encrypted_zip_says_so(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "locked.warp.zip"
    with zipped(folder, path):
        pass
    data = bytearray(path.read_bytes())
    for signature, place in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        begin = 0
        while (begin := data.find(signature, begin)) >= 0:
            data[begin + place] |= 1
            begin += 4
    path.write_bytes(data)
    with pytest.raises(TraceError, match="encrypted"):
        open_any(path)


def test_a_member_without_a_name_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.warp.zip"
    with zipped(folder, path) as archive:
        archive.writestr("abc", b"x")
    path.write_bytes(path.read_bytes().replace(b"abc", b"\0bc"))  # a name ends at a zero
    with pytest.raises(TraceError, match="unsafe member name: ''"):
        open_any(path)


def test_a_packed_trace_is_not_packed_again(tmp_path):
    with pytest.raises(TraceError, match="is one file already"):
        pack.pack(GOLDEN / "planted_leak.warp.zip", tmp_path / "again.zip")


def test_what_is_no_zip_or_cannot_be_read_is_not_packed(tmp_path: Path, folder: Path) -> None:
    with zipped(folder, tmp_path / "good.zip"):
        pass
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "good.zip").read_bytes()[:-100])
    (tmp_path / "folder.zip").mkdir()
    found = {
        name: pack.is_packed(tmp_path / f"{name}.zip")
        for name in ("good", "other", "cut", "folder", "missing")
    }
    assert found == {"good": True, "other": False, "cut": False, "folder": False, "missing": False}
