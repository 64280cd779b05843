"""Ask an instruction trace which warps of a kernel did not end, and where they are."""

import json
import subprocess
import sys

from devices import arguments

DEVICES = ("cpu",)
CODE = ["LDG.E R2, [R2.64] ;", "STG.E [R4.64], R2 ;", "BRA 0x10 ;", "EXIT ;"]


def warpsight(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def trace() -> str:
    """What CUTracer writes of a kernel of four warps, one of which spins."""
    kernel = {
        "type": "kernel_metadata", "mangled_name": "_Z4copyPf", "unmangled_name": "copy(float*)", "kernel_checksum": "1",
        "func_addr": "0x0", "nregs": 8, "shmem_static": 0, "shmem_dynamic": 0, "grid": [1, 1, 1], "block": [128, 1, 1],
        "instructions": {str(i): {"sass": text} for i, text in enumerate(CODE)},
    }  # fmt: skip
    lines = [kernel]
    for step, warp, opcode in (
        (s, w, o) for w in range(4) for s, o in enumerate([0, 1, 2, 2] if w == 2 else [0, 1, 3])
    ):
        lines.append({
            "type": "opcode_only", "ctx": "0x1", "trace_index": 10 * warp + step, "timestamp": 1, "grid_launch_id": 0,
            "cta": [0, 0, 0], "warp": warp, "opcode_id": opcode, "pc": hex(16 * opcode),
        })  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "kernel.ndjson"
    path.write_text(trace())
    warps = json.loads(warpsight("sass", "warps", str(path), "--json"))
    stuck = warpsight("sass", "query", str(path), "-f", "warp=2", "-g", "sass", "--count", "--format", "csv")
    print(f"in progress: {warps['in_progress']['ranges']}\n{stuck}")
    if warps["in_progress"]["ranges"] != [[2, 2]] or "BRA 0x10 ;,2" not in stuck:
        sys.exit("the spinning warp was not found")


if __name__ == "__main__":
    main()
