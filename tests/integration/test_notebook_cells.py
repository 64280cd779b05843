"""A cell that `%%warpsight` records is named in the trace as the notebook names it, and so are the cells that it calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import warpsight as ws

_NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in ("%load_ext warpsight",
             "import time\\n\\ndef spin(seconds):\\n    end = time.perf_counter() + seconds\\n"
             "    while time.perf_counter() < end:\\n        pass",
             "%%warpsight -o cell.warp\\n\\nspin(1)"):
    done = shell.run_cell(cell, store_history=True)
    done.raise_error()
"""


def test_cells_have_their_numbers_and_lines(library: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NOTEBOOK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with ws.open(tmp_path / "cell.warp") as trace:
        frames = set(trace.sql("SELECT function, file, line FROM frame WHERE file LIKE 'In[%'").fetchall())
        files = {file for (file,) in trace.sql("SELECT DISTINCT file FROM frame").fetchall()}
    assert ("<module>", "In[3]", 3) in frames
    assert {line for name, file, line in frames if (name, file) == ("spin", "In[2]")} <= {4, 5, 6}
    assert ("spin", "In[2]") in {frame[:2] for frame in frames}
    assert not [file for file in files if file and "ipython-input" in file]
