"""Check an installed wheel where nothing else is: `python scripts/check_wheel.py`, as the release's wheels are tested.

Loads the compiled recorder, records a program that reports ranges, and reads the trace back. Needs no GPU, no OpenCL
and no test tools; ends with exit code 1 and a message when something is missing.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path

PROGRAM = 'import warpsight as ws\nfor _ in range(3):\n    with ws.annotate("checked"):\n        ws.counter("steps", 1.0)\n'


def main() -> None:
    """Run the checks; each says what it found."""
    import warpsight
    from warpsight import _native

    path = _native.library_path()
    if path is None:
        sys.exit("the wheel has no compiled recorder")
    _native.load()
    if not resources.files(warpsight).joinpath("include", "warpsight.h").is_file():
        sys.exit("the wheel has no C header")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "a.warp")
        Path(folder, "program.py").write_text(PROGRAM)
        command = [
            Path(sysconfig.get_path("scripts"), "warpsight"),
            "record",
            "--counters",
            "off",
            "-o",
            trace,
        ]
        subprocess.run([*command, "--", sys.executable, Path(folder, "program.py")], check=True)
        with warpsight.open(trace) as recorded:
            ranges = recorded.sql("SELECT count(*) FROM marker WHERE name = 'checked'").fetchall()
    if ranges != [(3,)]:
        sys.exit(f"3 ranges were reported, {ranges} recorded")
    print(f"{path} records, and what it recorded is read")


if __name__ == "__main__":
    main()
