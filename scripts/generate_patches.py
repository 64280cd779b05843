"""Write native/sanitizer/patches.ptx from patches.cu; needs nvcc.

The PTX is checked in because most machines that install warpsight have no nvcc. It is for compute capability 7.5 and
later and says PTX 7.0, which every ptxas of CUDA 11 and later assembles: nothing in it is newer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "native" / "sanitizer" / "patches.cu"
_COMMAND = (
    "nvcc",
    "-ptx",
    "--keep-device-functions",
    "-arch=compute_75",
    f"-I{SOURCE.parents[1]}",
    "-o",
    "-",
)


def generated() -> str:
    """The PTX of the source, without comments, which name the compiler's build."""
    made = subprocess.run([*_COMMAND, str(SOURCE)], capture_output=True, text=True, check=True).stdout
    lines = (line.rstrip() for line in made.splitlines() if not line.lstrip().startswith("//"))
    text = "\n".join(line for line in lines if line) + "\n"
    return re.sub(r"^\.version \S+$", ".version 7.0", text, count=1, flags=re.MULTILINE)


def main() -> int:
    """Write the file; with --check say only whether it is up to date."""
    target = SOURCE.with_suffix(".ptx")
    text = generated()
    if sys.argv[1:] == ["--check"]:
        return int(target.read_text() != text)
    target.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
