"""`warpsight recover` and `warpsight pack` as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import warpsight.model
from tests.unit.capture.recordings import Recording, kernels, launches


def warpsight_(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def interrupted(tmp_path: Path) -> Path:
    """What a launcher that was killed left: an open segment with five kernels, one of which never arrived."""
    recording = Recording(tmp_path / "run.warp")
    arena = recording.process(1)
    with recording.file(arena, suffix=".open") as out:
        out.write("Api", launches(1, 5))
        out.write("Kernel", kernels(1, 4))
    return recording.root


def test_recover_tells_what_it_found_and_what_is_lost(tmp_path: Path) -> None:
    root = interrupted(tmp_path)
    first = warpsight_("recover", root)
    assert first.returncode == 0, first.stderr
    assert "recovered 5 kernel, 5 launch" in first.stdout
    assert "kernel record never arrived" in first.stdout + first.stderr
    again = warpsight_("recover", root)
    assert again.returncode == 0
    assert "nothing to recover" in again.stdout
    absent = warpsight_("recover", tmp_path)
    assert absent.returncode == 1
    assert "not a recording" in absent.stderr
    assert "Traceback" not in absent.stderr


def test_pack_makes_one_file_and_unpack_the_folder(tmp_path: Path) -> None:
    root = interrupted(tmp_path)
    warpsight_("recover", root)
    packed = warpsight_("pack", root)
    assert packed.returncode == 0, packed.stderr
    file = tmp_path / "run.warp.zip"
    with warpsight.model.open(file) as trace:
        assert trace.tables["kernel"] == 5
    refused = warpsight_("pack", root)
    assert refused.returncode == 1
    assert "-f replaces it" in refused.stderr
    assert warpsight_("pack", root, "-f").returncode == 0
    assert warpsight_("pack", "--unpack", file, "-o", tmp_path / "again.warp").returncode == 0
    with warpsight.model.open(tmp_path / "again.warp") as trace:
        assert trace.tables["kernel"] == 5
    missing = warpsight_("pack", tmp_path / "absent.warp")
    assert missing.returncode == 1
    assert "does not exist" in missing.stderr
