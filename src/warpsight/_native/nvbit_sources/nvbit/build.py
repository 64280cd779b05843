"""Builds the NVBit tool: `python build.py --nvbit CORE --output libwarpsight_nvbit.so --architectures 90`.

NVBit is the user's copy and is linked into the result, which therefore is never shipped. Run by CMake and by `sass trace`, with
the sources beside it; needs nvcc and nothing but Python's own library.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1]
#: Host code, beside everything in `nvbit/`.
SHARED = (
    "cuda/cubin_names.cpp", "ring/crc32.cpp", "sanitizer/delay_plan.cpp", "sanitizer/delays.cpp", "sanitizer/event_file.cpp",
    "sanitizer/request.cpp", "sanitizer/ring.cpp", "sanitizer/sha256.cpp",
)  # fmt: skip


def commands(
    nvcc: str, core: Path, folder: Path, architectures: list[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Compilations, which do not depend on each other, and what comes after them."""
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in architectures]
    host = [*(f"nvbit/{file.name}" for file in sorted((SOURCES / "nvbit").glob("*.cpp"))), *SHARED]

    def compiled(source: str, *options: str) -> list[str]:
        target = folder / f"{source.replace('/', '_')}.o"
        common = [
            "-std=c++17",
            "-O3",
            f"-I{SOURCES}",
            f"-I{core}",
            "-Xcompiler",
            "-fPIC",
            "-c",
            str(SOURCES / source),
        ]
        return [nvcc, *options, *common, "-o", str(target)]

    compilations = [compiled(source) for source in host]
    # Called from any place of a kernel: code of a tool saves what it changes.
    compilations.append(
        compiled("nvbit/injected.cu", *codes, "-Xptxas", "-astoolspatch", "--keep-device-functions")
    )
    compilations.append(compiled("nvbit/hook.cu", *codes, "-dc", "-Xptxas", "-cloning=no"))
    objects = [command[-1] for command in compilations]
    # The driver's library is named without being there: a machine that builds may have no GPU.
    driver, named = str(folder / "libcuda.so"), ["-Xlinker", "-soname,libcuda.so.1"]
    stub = [nvcc, "-shared", "-Xcompiler", "-fPIC", "-x", "c++", "/dev/null", "-o", driver, *named]
    link = [
        nvcc,
        *codes,
        "-shared",
        *objects,
        str(core / "libnvbit.a"),
        "-Xlinker",
        f"--no-as-needed,{driver}",
    ]
    return compilations, [stub, [*link, "-lcudart_static", "-o", str(folder / "libwarpsight_nvbit.so")]]


def run(command: list[str]) -> str:
    """Run a command: empty, or what it said when it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (
        "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
    )


def build(nvcc: str, core: Path, output: Path, architectures: list[str]) -> str:
    """Build the tool: empty, or the first error."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".nvbit-", dir=output.parent) as made:
        compilations, last = commands(nvcc, core, Path(made), architectures)
        with ThreadPoolExecutor() as pool:
            errors = [error for error in pool.map(run, compilations) if error]
        errors = errors or [error for command in last if (error := run(command))]
        if errors:
            return errors[0]
        Path(made, "libwarpsight_nvbit.so").replace(output)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvbit", type=Path, required=True, help="folder with nvbit.h and libnvbit.a")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--architectures", nargs="+", default=["80", "90", "100"])
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    given = parser.parse_args()
    error = build(given.nvcc, given.nvbit, given.output, given.architectures)
    if error:
        print(error, file=sys.stderr)
    return int(bool(error))


if __name__ == "__main__":
    sys.exit(main())
