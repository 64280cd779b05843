"""Makes golden files of what tests/gpu/broken/collect.py brought back.

usage: make_golden.py FOLDER   (with dumps/ and logs/ unpacked from its archives)

Keeps each dump of at most 400 kB compressed, and of cuda-gdb's text what tests compare with.
"""

from __future__ import annotations

import lzma
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARGEST = 400_000
SKIPPED = {"spin_flag.gzip"}  # driver 580 ignores the flag: the dump is that of spin_flag.lineinfo
WITH_REGISTERS = {"misaligned_address.lineinfo", "spin_flag.lineinfo", "stack_overflow.lineinfo"}
VIEWS = {
    "info cuda kernels", "info cuda blocks", "info cuda warps", "info cuda threads", "bt", "print/x $errorpc",
    "print/x $pc",
}  # fmt: skip


def shortened(text: str, registers: bool) -> str:
    head, *parts = re.split(r"^\[\[(.*?)\]\]\n", text, flags=re.MULTILINE)
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        if title in VIEWS or (registers and title == "info registers"):
            head += f"[[{title}]]\n{body}"
    return "\n".join(line.rstrip() for line in head.splitlines()) + "\n"


def main() -> None:
    folder = Path(sys.argv[1])
    for core in sorted(folder.glob("dumps/*.bare/gpucore.*")):
        name = core.parent.name.removesuffix(".bare")
        data = lzma.compress(core.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        if name in SKIPPED or len(data) > LARGEST:
            print(f"{name}: left out ({len(data):,} bytes)")
            continue
        (HERE / f"{name}.gpucore.xz").write_bytes(data)
        text = (folder / "logs" / f"{core.parent.name}.gdb.txt").read_text()
        (HERE / f"{name}.cuda-gdb.txt").write_text(shortened(text, name in WITH_REGISTERS))


if __name__ == "__main__":
    main()
