"""Write the .ptx files of native/sanitizer and native/capsule from the .cu files beside them; needs nvcc.

The PTX is checked in because most machines that install warpsight have no nvcc. It is for compute capability 7.5 and
later and says PTX 7.0, which every ptxas of CUDA 11 and later assembles: nothing in it is newer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_NATIVE = Path(__file__).resolve().parents[1] / "native"
SOURCES = (
    _NATIVE / "sanitizer" / "patches.cu",
    _NATIVE / "sanitizer" / "compiled_checks.cu",
    _NATIVE / "sanitizer" / "probes.cu",
    _NATIVE / "sanitizer" / "stress.cu",
    _NATIVE / "capsule" / "scan.cu",
)
_COMMAND = ("nvcc", "-ptx", "--keep-device-functions", "-arch=compute_75", f"-I{_NATIVE}", "-o", "-")


def generated(source: Path) -> str:
    """The PTX of a source, without comments, which name the compiler's build."""
    made = subprocess.run([*_COMMAND, str(source)], capture_output=True, text=True, check=True).stdout
    left_out = ("//", '.pragma "used_bytes_mask')  # the latter is a hint that PTX 7.0 does not know
    lines = (line.rstrip() for line in made.splitlines() if not line.lstrip().startswith(left_out))
    text = "\n".join(line for line in lines if line) + "\n"
    text = re.sub(r"_INTERNAL_[0-9a-f]{8}_", "_INTERNAL_00000000_", text)  # a hash of the folder
    return re.sub(r"^\.version \S+$", ".version 7.0", text, count=1, flags=re.MULTILINE)


def main() -> int:
    """Write the files; with --check say only whether they are up to date."""
    made = {source.with_suffix(".ptx"): generated(source) for source in SOURCES}
    if sys.argv[1:] == ["--check"]:
        return int(any(target.read_text() != text for target, text in made.items()))
    for target, text in made.items():
        target.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
