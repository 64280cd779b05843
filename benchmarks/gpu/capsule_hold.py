"""How long `capsule record` holds a program, over the time that its copies take to pinned memory.

usage: capsule_hold.py [MIB ...] [--no-shadow]

Prints a line for each size: MiB reached, pinned bandwidth measured in the same process, MiB copied (before and after), ms by
which the launch that was cut out took longer for its program than the next one, and that as a multiple of copied bytes by
bandwidth (the bar is 2), and ms that the recorder says.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from warpsight.replay.capsule.recording import CapsuleChoice, record

SOURCE = Path(__file__).with_suffix(".cu")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mib", nargs="*", type=int, default=[64, 256, 1024, 4096])
    parser.add_argument("--no-shadow", action="store_true", help="copy to the host while the program is held")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        program, out = Path(temporary, "capsule_hold"), Path(temporary, "x.capsule")
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", program, SOURCE], check=True)
        for mib in options.mib:
            choice = CapsuleChoice(kernels=("*touch*",), launches=(1, 2), shadow=not options.no_shadow)
            command = f"{program} {mib} > {temporary}/bandwidth"
            done = record(["sh", "-c", command], choice, out, replace=True)
            bandwidth, _, cut, bare = map(float, Path(temporary, "bandwidth").read_text().split())
            least = done.copied_bytes / bandwidth
            print(f"{mib:6} MiB  {bandwidth:5.1f} GB/s  copied {done.copied_bytes >> 20:6} MiB  held {(cut - bare) / 1e6:8.2f} ms"
                  f"  {(cut - bare) / least:.2f}  said {done.held_ns / 1e6:.2f} ms", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
