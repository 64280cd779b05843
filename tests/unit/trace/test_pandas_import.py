"""Converters do without pandas where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_arrow_takes_arrays_without_importing_an_installed_pandas(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from warpsight.trace.pandas_import import keep_pandas_out\n"
        "keep_pandas_out()\n"
        "import numpy as np, pyarrow as pa\n"
        "print(pa.array(np.arange(3)).to_pylist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[0, 1, 2]", done.stderr
