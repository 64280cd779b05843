"""The runner of the examples says when it did nothing."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_device_that_no_example_can_use_is_said_so():
    command = [sys.executable, EXAMPLES / "run.py", "--test", "native_program", "--device", "mps"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "can use mps" in done.stderr
