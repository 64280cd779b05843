"""The files that a cubin's line table names."""

from __future__ import annotations

from pathlib import Path

from warpsight.replay.capsule.store import Capsule
from warpsight.replay.sources import source_files, text_of

GOLDEN = Path(__file__).parents[2] / "golden" / "capsules"


def image(name: str) -> bytes:
    capsule = Capsule.open(GOLDEN / f"{name}.capsule")
    return capsule.bytes_of(capsule.manifest.modules[0].image)


def test_tritons_code_names_its_python_file() -> None:
    assert [Path(path).name for path in source_files(image("triton"))] == ["work.py"]


def test_code_without_lines_or_damaged_names_none() -> None:
    assert source_files(image("add")) == []
    assert source_files(b"no cubin") == []


def test_a_folder_or_a_missing_file_has_no_text(tmp_path: Path) -> None:
    assert (text_of(str(tmp_path)), text_of(str(tmp_path / "gone.py"))) == (b"", b"")
