"""The compiled-in frame layouts are what the interpreters' own headers say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

STACKS = Path(__file__).parents[3] / "native" / "stacks"


def include_folder(minor: int) -> Path | None:
    """Headers of CPython 3.`minor`, internal ones included; None when this machine has none."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*versions.glob(f"3.{minor}.*/include/python3.{minor}"), Path(f"/usr/include/python3.{minor}")]
    if sys.version_info[1] == minor:
        folders.append(Path(sysconfig.get_path("include")))
    return next((path for path in folders if (path / "internal" / "pycore_frame.h").is_file()), None) or next(
        (path for path in folders if (path / "internal" / "pycore_interp.h").is_file()), None
    )


def offsets(text: str) -> set[str]:
    """The assignments of a generated case."""
    return set(re.findall(r"o->\w+ = \d+;", text))


@pytest.mark.parametrize("minor", [10, 11, 12, 13])
def test_offsets_are_the_headers(minor: int) -> None:
    include = include_folder(minor)
    if include is None or shutil.which("cc") is None:
        pytest.skip(f"no internal headers of CPython 3.{minor}, or no C compiler")
    command = [sys.executable, str(STACKS / "generate_offsets.py"), str(include)]
    generated = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cases = (STACKS / "python_offsets.inc").read_text(encoding="utf-8").split("  case ")
    committed = next(case for case in cases if case.startswith(f"{minor}:"))
    assert offsets(generated) == offsets(committed)
    assert len(offsets(committed)) > 30
