"""Annotate a C program through warpsight.h and record it."""

import shutil
import subprocess
import sys
from pathlib import Path

from devices import arguments, skip

import warpsight as ws

DEVICES = ("cpu",)


def main() -> None:
    options = arguments(__doc__, DEVICES)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        skip("no C compiler")
    program, path = options.output / "native_program", options.output / "native.warp"
    include = Path(ws.__file__).parent / "include"
    if not (include / "warpsight.h").is_file():
        skip(f"warpsight.h is not in {include}: this warpsight was not installed with its native parts")
    source = Path(__file__).with_suffix(".c")
    subprocess.run(
        [
            compiler,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{include}",
            str(source),
            "-o",
            str(program),
            "-ldl",
        ],
        check=True,
    )
    subprocess.run([str(program)], check=True)  # alone: every call is a no-op
    subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", "record", "-o", str(path), "--", str(program)], check=True
    )
    (ranges,) = ws.open(path).sql("SELECT count(*) FROM marker WHERE name = 'phase'").fetchall()[0]
    print(f"{ranges} ranges named phase")
    if ranges != 3:
        sys.exit("ranges of the C program are missing in the trace")


if __name__ == "__main__":
    main()
