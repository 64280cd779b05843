"""Record every planted program and pack the traces: for a machine with an NVIDIA GPU, torch and nvcc.

    python tests/planted/record_all.py --out DIR [--only NAME …]

warpsight is the one that `python -m warpsight` finds. Each trace is written as DIR/planted_NAME.warp.zip; the line
printed for it has the program's time and the file's size. Exit code 1 when a program failed or a file is too large to keep.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
#: What is recorded, with the options that each needs.
PROGRAMS: dict[str, list[str]] = {
    "sync_every_step": [],
    "pageable_copies": [],
    "tiny_kernels": [],
    "slow_step": [],
    "data_loading": ["--sample", "250"],
    "leak": [],
    "throttled": ["--counters", "50"],
    "serialised_streams": [],
}
#: Bytes of a packed trace; `trim.py` halves it before it is kept.
LARGEST = 250_000


def command(name: str, folder: Path) -> list[str]:
    """The command line of a program; CUDA sources are compiled first."""
    script = HERE / f"{name}.py"
    if script.exists():
        return [sys.executable, str(script)]
    program = folder / name
    subprocess.run(["nvcc", "-O2", "-o", str(program), str(HERE / f"{name}.cu")], check=True)
    return [str(program)]


def record(name: str, out: Path, folder: Path) -> tuple[float, int]:
    """Record and pack one program; returns seconds and bytes."""
    trace, packed = folder / f"planted_{name}.warp", out / f"planted_{name}.warp.zip"
    program = command(name, folder)
    begin = time.monotonic()
    tool = [sys.executable, "-m", "warpsight"]
    subprocess.run([*tool, "record", "-q", "-o", str(trace), *PROGRAMS[name], "--", *program], check=True)
    seconds = time.monotonic() - begin
    subprocess.run(
        [*tool, "pack", "-f", "-o", str(packed), str(trace)], check=True, stdout=subprocess.DEVNULL
    )
    return seconds, packed.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            try:
                seconds, size = record(name, options.out, Path(folder))
            except subprocess.CalledProcessError as error:
                print(f"{name}: failed: {error}", flush=True)
                failed = True
                continue
            failed |= size > LARGEST
            note = "  TOO LARGE" if size > LARGEST else ""
            print(f"{name}: {seconds:.1f} s, {size:,} bytes{note}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
