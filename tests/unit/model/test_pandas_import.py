"""Converters do without pandas where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KINETO = Path(__file__).parents[2] / "golden/formats/kineto" / "every_kind.json"


def test_commands_do_without_pandas(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    trace = tmp_path / "run.warp"
    command = [sys.executable, "-m", "warpsight"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    for arguments in (
        ["import", str(KINETO), "-o", str(trace)],
        ["stats", str(trace)],
        ["flame", str(trace), "-o", "-"],
    ):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr


def printed_beside_pandas(code: str, folder: Path) -> str:
    """What a program prints that has a `pandas` on its first argument's path which ends it when it is imported."""
    (folder / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr


def test_arrow_takes_arrays_without_importing_an_installed_pandas(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from warpsight.model.pandas_import import keep_pandas_out\n"
        "keep_pandas_out()\n"
        "import numpy as np, pyarrow as pa\n"
        "print(pa.array(np.arange(3)).to_pylist())\n"
    )
    assert printed_beside_pandas(code, tmp_path) == "[0, 1, 2]"


def test_no_import_hook_brings_pandas_back(tmp_path: Path) -> None:
    code = (
        "import sys; from importlib.machinery import PathFinder\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from warpsight.model.pandas_import import keep_pandas_out\n"
        "sys.meta_path.insert(0, PathFinder)\n"  # as tools do that look at what is imported
        "keep_pandas_out()\n"
        "try:\n    import pandas\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    assert printed_beside_pandas(code, tmp_path) == "this process does without pandas"
