"""CLP archives: unpacked by clp-s where it is, refused with what to do where it is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.sass.traces import ndjson, small, write
from warpsight.formats.writing import clp
from warpsight.sass.records import filters
from warpsight.sass.records.counting import counts
from warpsight.sass.records.selection import RecordSelection, select
from warpsight.ui.cli import app

#: clp-s as far as it is called: an archive is its magic and the lines.
STAND_IN = """#!/bin/sh
case "$1" in
  x) tail -c +5 "$3" > "$4/x_0_11.jsonl"
     if grep -q CUT "$4/x_0_11.jsonl"; then echo 'error: broken' >&2; exit 1; fi;;
  c) (printf 'MAGIC'; cat "$4") > "$3/0123";;
esac
""".replace("MAGIC", "".join(f"\\{byte:03o}" for byte in clp.MAGIC))


@pytest.fixture(params=["stand-in", "real"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "real":
        if clp._tool() is None:
            pytest.skip("clp-s is not installed (pip install 'warpsight[clp]')")
        return "real"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "clp-s").write_text(STAND_IN)
    (folder / "clp-s").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return "stand-in"


@pytest.mark.parametrize("form", ["file", "folder"])
def test_an_archive_answers_like_its_records(tool: str, form: str, tmp_path: Path) -> None:
    plain, archive = write(tmp_path / "t.ndjson", small()), tmp_path / "t.clp"
    clp.pack(plain, archive)
    if form == "folder":
        shutil.move(archive, tmp_path / "moved")
        archive.mkdir()
        shutil.move(tmp_path / "moved", archive / "0123")
    for field in ("warp", "sass"):
        assert counts(archive, filters.parse([]), field) == counts(plain, filters.parse([]), field)
    everything = RecordSelection(head=None)
    assert select(archive, everything).groups == select(plain, everything).groups
    assert app.main(["-q", "sass", "validate", str(archive)]) == 0
    assert app.main(["-q", "import", str(archive), "-o", str(tmp_path / "t.warp")]) == 0
    assert (
        counts(tmp_path / "t.warp", filters.parse([]), "warp")[0]
        == counts(plain, filters.parse([]), "warp")[0]
    )


def test_an_export_whose_name_says_so_is_an_archive(tool: str, tmp_path: Path) -> None:
    plain, archive = write(tmp_path / "t.ndjson", small()), tmp_path / "out.clp"
    assert app.main(["-q", "export", str(plain), "--to", "cutracer", "-o", str(archive)]) == 0
    assert archive.read_bytes()[:4] == clp.MAGIC
    with clp.source_of(archive) as source, source.open() as file:
        assert len(file.read().splitlines()) == len(ndjson(small()).splitlines())


def test_a_damaged_archive_is_an_error_that_names_it(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "t.clp"
    archive.write_bytes(clp.MAGIC + b"CUT")
    assert app.main(["sass", "query", str(archive)]) == 1
    assert f"{archive}: the CLP archive cannot be unpacked" in capsys.readouterr().err


def test_without_the_tool_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clp, "_tool", lambda: None)
    archive = tmp_path / "t.clp"
    archive.write_bytes(clp.MAGIC + b"anything")
    for verb in (["sass", "query"], ["sass", "warps"], ["sass", "validate"], ["stats"]):
        assert app.main([*verb, str(archive)]) == 1
        assert "pip install 'warpsight[clp]'" in capsys.readouterr().err
    plain = write(tmp_path / "t.ndjson", small())
    assert app.main(["export", str(plain), "--to", "cutracer", "-o", str(tmp_path / "o.clp")]) == 1
    told = capsys.readouterr().err
    assert "pip install 'warpsight[clp]'" in told
    assert "o.clp: writing a CLP archive needs clp-s" in told
    assert not (tmp_path / "o.clp").exists()
