"""`--ranges torch` with a stand-in for torch: on after its import, the user's own sitecustomize untouched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from warpsight.recorder.environment import python_path

TORCH = """
class emit_nvtx:
    def __init__(self, record_shapes): assert record_shapes
    def __enter__(self): print("ranges on")
    def __exit__(self, *_): print("ranges off")
class autograd:
    class profiler: pass
autograd.profiler.emit_nvtx = emit_nvtx
"""


def run(tmp_path: Path, code: str) -> list[str]:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (tmp_path / "sitecustomize.py").write_text("print('the user')")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True,
        env={"PYTHONPATH": python_path(str(tmp_path)), "WARPSIGHT_RANGES": "torch"},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_ranges_begin_when_torch_has_been_imported(tmp_path: Path) -> None:
    found = run(tmp_path, "print('begin'); import torch; print(torch.__spec__.name)")
    assert found == ["the user", "begin", "ranges on", "torch", "ranges off"]


def test_a_program_without_torch_notices_nothing(tmp_path: Path) -> None:
    code = "import sys, sitecustomize; print(sitecustomize.__file__, *[p for p in sys.path if 'python_hook' in p])"
    assert run(tmp_path, code) == ["the user", f"{tmp_path / 'sitecustomize.py'}"]


def test_the_users_path_stays_behind_the_hook_and_is_not_doubled() -> None:
    once = python_path("/a:/b")
    assert once.endswith(":/a:/b")
    assert python_path(once) == once
