"""Build the release's Linux wheels on one machine, without containers: `python scripts/build_wheels.py`.

Releases are built by cibuildwheel (pyproject.toml, .github/workflows/wheels.yml). Where it cannot run, for want of
a container engine or of an aarch64 machine, this does the same with Zig's C++ compiler, which has the headers and
symbol versions of every glibc: wheels of the same tags, for glibc 2.28, of both architectures. Needs the packages
`build`, `auditwheel`, `wheel` and `ziglang` in the Python that runs it, and what any build needs (opencl-headers).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = ("x86_64", "aarch64")
#: manylinux_2_28, as in pyproject.toml: what cibuildwheel's images have, and every CUDA 12 system.
GLIBC = "2.28"


def compiler(folder: Path, architecture: str) -> Path:
    """A C++ compiler for that architecture and glibc, as one program that CMake can call."""
    path = folder / f"c++-{architecture}"
    path.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ -target {architecture}-linux-gnu.{GLIBC} "$@"\n'
    )
    path.chmod(0o755)
    return path


def build(architecture: str, folder: Path) -> Path:
    """Build one wheel with a tag of its own machine only; returns its path."""
    unchecked = folder / architecture
    environment = {
        **os.environ,
        "CXX": str(compiler(folder, architecture)),
        "LDFLAGS": "-s",  # strip of this machine does not know the other's files
        "_PYTHON_HOST_PLATFORM": f"linux-{architecture}",  # what wheels call the machine they are for
    }
    settings = {
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": architecture,
        "cmake.define.WARPSIGHT_WARNINGS_AS_ERRORS": "ON",
        "install.strip": "false",
    }
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(unchecked), str(ROOT)]
    subprocess.run(
        [*command, *(f"-C{name}={value}" for name, value in settings.items())], env=environment, check=True
    )
    (wheel,) = unchecked.glob("*.whl")
    return wheel


def check(wheel: Path, architecture: str, output: Path) -> None:
    """Let auditwheel say what the wheel needs, and write it under the tag that promises no more."""
    show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    said = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    found = re.search(rf'"manylinux_(\d+)_(\d+)_{architecture}"', said)
    if not found or tuple(map(int, found.groups())) > tuple(map(int, GLIBC.split("."))):
        sys.exit(f"{wheel.name} does not run on glibc {GLIBC}:\n{said}")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{architecture}"
    retag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, str(wheel)]
    named = subprocess.run(retag, check=True, capture_output=True, text=True).stdout.strip()
    shutil.move(wheel.with_name(Path(named).name), output / Path(named).name)


def main() -> None:
    """Build the wheels that were requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=ARCHITECTURES, help="one architecture")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)"
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for architecture in [options.only] if options.only else ARCHITECTURES:
            wheel = build(architecture, Path(folder))
            check(wheel, architecture, options.output)
    for path in sorted(options.output.glob("*.whl")):
        print(path)


if __name__ == "__main__":
    main()
