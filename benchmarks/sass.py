"""Questions to an instruction trace: the file itself, and what it was imported into.

    PYTHONPATH=src:. python benchmarks/sass.py [--records 1000000] [--form 0.2|0.1] [--keep FOLDER] [--only WORD] [--one-core]

Writes a trace by the field lists of CUTracer's NDJSON (keys in alphabetical order, no spaces; 244 MB for a million records):
33,024 warps of one kernel that execute instructions in turns, a twelfth of the records with the addresses of 32 lanes. `0.1`
has the instruction's text in every record instead of a table. Every question is a process of its own, start to end: median of
nine with the quickest and the slowest (`validate`: of three); `--one-core` binds them to one processor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WARPS = 33_024
#: Instructions of the kernel; every twelfth is a load.
LENGTH = 240
_OPERATIONS = (
    "IADD3 R2, R2, 0x1, RZ ;",
    "FFMA R4, R2, R6, R4 ;",
    "ISETP.GE.AND P0, PT, R0, UR6, PT ;",
    "@P0 BRA 0x170 ;",
)


def instruction(opcode: int) -> str:
    """Text of one instruction."""
    if opcode == LENGTH - 1:
        return "EXIT ;"
    return "LDG.E R2, desc[UR4][R2.64] ;" if opcode % 12 == 3 else _OPERATIONS[opcode % 4]


def write(path: Path, records: int, form: str) -> None:
    """Write a trace of so many events."""
    table = {
        str(i): {
            "binary": f"{i * 2654435761 % 2**64:016x}",
            "regs": [2, 4],
            "sass": instruction(i),
            "uregs": [4],
        }
        for i in range(LENGTH)
    }
    kernel = {
        "block": [256, 1, 1], "func_addr": "0x7f3c90000d00", "grid": [WARPS // 8, 1, 1], "kernel_checksum": "8e3ff21b77c0a1d4",
        "mangled_name": "_Z6kernelPfS_i", "nregs": 32, "shmem_dynamic": 0, "shmem_static": 1024, "type": "kernel_metadata",
        "unmangled_name": "kernel(float*, float*, int)",
    }  # fmt: skip
    if form != "0.1":
        kernel["instructions"] = table
    pieces = [json.dumps(kernel, sort_keys=True, separators=(",", ":"))] if form != "0.1" else []
    texts = [f'"sass":"{instruction(i)}",' if form == "0.1" else "" for i in range(LENGTH)]
    with path.open("w") as file:
        for index in range(records):
            turn, warp = index // WARPS, index * 7919 % WARPS  # a prime: each warp in turn
            block = warp // 8
            opcode = (
                LENGTH - 1 if turn >= 29 and block % 1024 < 900 else turn * 8 % LENGTH + warp % 8
            )  # some never end
            end = (
                f'"ctx":"0x55d0a1b2c3d0","grid_launch_id":3,%s"opcode_id":{opcode},"pc":"0x{opcode * 16:x}",{texts[opcode]}'
                f'"timestamp":{1_760_000_000_000_000_000 + index * 137},"trace_index":{index},"type":"%s","warp":{warp}}}'
            )
            if opcode % 12 == 3:
                base = 0x7F3C_0000_0000 + warp * 4096
                lanes = ",".join([str(base + lane * 4) for lane in range(32)])
                pieces.append(
                    f'{{"active_mask":"0xffffffff","addrs":[{lanes}],"cta":[{block},0,0],'
                    + end % ('"ipoint":"B",', "mem_addr_trace")
                )
            else:
                pieces.append(
                    f'{{"active_mask":"0xffffffff","cta":[{block},0,0],' + end % ("", "opcode_only")
                )
            if len(pieces) >= 10_000:
                file.write("\n".join(pieces) + "\n")
                pieces = []
        file.writelines(piece + "\n" for piece in pieces)


QUESTIONS = {
    "counts by warp": ["query", "FILE", "-g", "warp", "--count", "--top", "3"],
    "counts by type": ["query", "FILE", "-g", "type", "--count"],
    "counts by sass of some warps": ["query", "FILE", "-g", "sass", "--count", "-f", "warp<4096"],
    "warps": ["warps", "FILE"],
    "validate": ["validate", "FILE"],
    "the first ten": ["query", "FILE"],
    "records of a warp": ["query", "FILE", "-f", "warp=77;sass~LDG"],
    "the last five": ["query", "FILE", "-t", "5"],
}


def measured(command: list[str], repeat: int) -> str:
    """Wall time (median, quickest, slowest), processor time with children (median), the largest resident set."""
    walls, processors, peak = [], [], 0.0
    for _ in range(repeat):
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        walls.append(time.perf_counter() - begin)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
        processors.append(used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss / 1024)
    wall, processor = statistics.median(walls), statistics.median(processors)
    return (
        f"{wall:5.2f} s ({min(walls):.2f} to {max(walls):.2f}), processor {processor:5.2f} s, {peak:4.0f} MB"
    )


def ask(path: Path, only: str) -> None:
    """Measure every question to a file or a trace."""
    warpsight = [sys.executable, "-m", "warpsight.ui.cli"]
    print(
        f"{path.name}\n  {'start-up (query --help)':30} {measured([*warpsight, 'sass', 'query', '--help'], 9)}"
    )
    for name, arguments in QUESTIONS.items():
        if only not in name or (name == "validate" and path.is_dir()):
            continue
        command = [*warpsight, "sass", *(str(path) if a == "FILE" else a for a in arguments)]
        print(f"  {name:30} {measured(command, 3 if name == 'validate' else 9)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--form", choices=("0.2", "0.1"), default="0.2")
    parser.add_argument("--only", default="", help="questions with this word in their name")
    parser.add_argument(
        "--keep", type=Path, help="write the trace and its import here, and use what is there"
    )
    parser.add_argument("--one-core", action="store_true", help="bind everything to one processor")
    chosen = parser.parse_args()
    if chosen.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        path = folder / f"{chosen.form}-{chosen.records}.ndjson"
        if not path.exists():
            write(path, chosen.records, chosen.form)
        print(f"{path.stat().st_size / 1e6:.0f} MB")
        ask(path, chosen.only)
        imported = path.with_suffix(".warp")
        if not imported.exists():
            command = [
                sys.executable,
                "-m",
                "warpsight.ui.cli",
                "-q",
                "import",
                str(path),
                "-o",
                str(imported),
            ]
            print(f"  {'import':30} {measured(command, 1)}")
        ask(imported, chosen.only)


if __name__ == "__main__":
    main()
