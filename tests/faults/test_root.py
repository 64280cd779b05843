"""What other users, and folders that they write to, can make warpsight run: nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, environment, launcher, program
from warpsight.errors import WarpsightError
from warpsight.recorder import attach
from warpsight.recorder.watch import coredump

NOBODY = 65534


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user whose executable, which that user can write, says that it was run."""
    if os.geteuid() != 0:
        pytest.skip("starting a process of another user needs root")
    place = Path(f"/tmp/warpsight-test-{os.getpid()}")
    place.mkdir(mode=0o755)
    python = place / "python3.14"  # by its name, a CPython that can be attached to
    shutil.copy("/bin/sleep", python)
    os.chown(python, NOBODY, NOBODY)
    running = subprocess.Popen([python, "60"], user=NOBODY, group=NOBODY, extra_groups=[])
    script = f"#!/bin/sh\nid -u > {tmp_path}/ran\n"
    os.unlink(python)  # what /proc/PID/exe leads to stays; what is at its path is the user's
    python.write_text(script)
    python.chmod(0o755)
    yield running
    running.kill()
    running.wait()
    shutil.rmtree(place)


def test_root_attaches_to_no_process_of_another_user(
    foreign: subprocess.Popen[bytes], library: Path, tmp_path: Path
) -> None:
    with pytest.raises(WarpsightError, match="another user's: attach as that user"):
        attach.start(foreign.pid, "/nowhere")
    done = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "attach", str(foreign.pid), "-o", str(tmp_path / "a.warp")],
                          env=environment(library), capture_output=True, text=True, timeout=TIMEOUT, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "another user's" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "a.warp").exists()


@pytest.mark.parametrize("name", ["runpy", "json", "numpy", "sitecustomize", "ctypes"])
def test_modules_in_the_working_folder_are_not_ours(library: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit(77)\n"
    )
    package = str(Path(attach.__file__).parents[2])
    start = f"import sys; sys.path[:0] = [{package!r}]; from warpsight.ui.cli.app import main; main()"
    command = [sys.executable, "-I", "-c", start, *launcher()[3:], "-o", "a.warp", "--", "true"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(library), capture_output=True, text=True, timeout=TIMEOUT,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.warp" / "manifest.json").is_file()
    assert not (tmp_path / "ran").exists()


def test_a_dump_is_packed_into_no_file_that_a_link_leads_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    (tmp_path / "core").write_bytes(b"\x7fELF")
    (tmp_path / "core.gz").symlink_to(precious)
    packed = coredump.compress(tmp_path / "core")
    assert precious.read_text() == "years of work"
    assert packed.is_file()
    assert not packed.is_symlink()
    assert packed.stat().st_mode & 0o777 == 0o600


def test_dumps_behind_links_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\x7fELF")
    (tmp_path / "core.1").symlink_to(tmp_path / "secret")
    assert coredump.existing([str(tmp_path / "core.*")]) == []


def test_a_program_is_unharmed_by_isolation(library: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("value = 9")
    done = subprocess.run(launcher("-q", "-o", "a.warp", "--", *program("import mine; sys.exit(mine.value)")), cwd=tmp_path,
                          env=environment(library), capture_output=True, timeout=TIMEOUT, check=False)  # fmt: skip
    assert done.returncode == 9
