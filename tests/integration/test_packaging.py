"""What a release is made of: the wheel without compiled parts, and the source archive."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests" / "golden" / "planted_slow_step.warp.zip"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("scikit_build_core") is None, reason="the build backend is not installed"
)


def backend(call: str, folder: Path, **environment: str) -> Path:
    """Call the build backend as pip does; the file that it made."""
    code = f"from scikit_build_core.build import *; print({call}({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def test_the_wheel_without_compiled_parts_reads_traces(tmp_path: Path) -> None:
    wheel = backend("build_wheel", tmp_path, WARPSIGHT_NATIVE="OFF")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert not [name for name in names if name.endswith((".so", ".cpp")) or "__pycache__" in name]
    for needed in (
        "ui/cli/schemas/info.json",
        "ui/render/assets/report.js",
        "ui/render/assets/report.html.j2",
        "ui/mcp/skill/SKILL.md",
        "capture/functions/opencl.txt",
        "py.typed",
    ):
        assert f"warpsight/{needed}" in names
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WARPSIGHT")}
    environment |= {"PYTHONPATH": str(tmp_path / "installed")}
    for arguments, code in ((["stats", TRACE], 0), (["record", "--", "true"], 1)):
        command = [sys.executable, "-m", "warpsight", *map(str, arguments)]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
    assert "has no compiled recorder" in done.stderr


def test_the_source_archive_holds_what_a_build_needs(tmp_path: Path) -> None:
    archive = backend("build_sdist", tmp_path)
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files", "native", "src"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode == 0:
        there = {name for name in tracked.stdout.splitlines() if (ROOT / name).exists()}
        assert there <= names
    assert {"pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith(("benchmarks/", "examples/", ".ci/", ".github/"))]
