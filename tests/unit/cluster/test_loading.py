"""Workers of a job start quickly: they load what a summary needs and nothing else."""

from __future__ import annotations

import subprocess
import sys


def test_a_summary_loads_neither_the_rules_of_single_traces_nor_duckdb() -> None:
    code = "import sys, warpsight.cluster.cache; print([m for m in sys.modules if m == 'duckdb' or '.analysis.rules' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
