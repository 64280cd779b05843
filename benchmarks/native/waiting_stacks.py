"""What the stack of a launch costs that comes from a thread of PyTorch's autograd engine.

    WARPSIGHT_LIBRARY=build/native/libwarpsight.so python benchmarks/native/waiting_stacks.py [--threads 32]

The engine is the tests' stand-in (tests/integration/waiting_engine.c). Once per backward pass the thread that waits is
looked for, among `--threads` Python threads; every further launch of the pass asks PyTorch only for the pass's number.
Where PyTorch does not number its passes (before 2.0) a launch looks when a twentieth of the time allows it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def engine(folder: Path, numbered: bool) -> ctypes.CDLL:
    built = folder / "libtorch_cpu.so"
    source = str(ROOT / "tests/integration/waiting_engine.c")
    flags = ["-DPASSES"] if numbered else []
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", *flags, source, "-o", str(built), "-pthread"], check=True
    )
    return ctypes.CDLL(str(built))


def measure(folder: Path, numbered: bool) -> None:
    library = ctypes.CDLL(os.environ["WARPSIGHT_LIBRARY"])
    take = library.ws_stack_take
    if library.ws_arena_create() < 0 or not take():
        sys.exit("no stacks can be taken here")
    loaded = engine(folder, numbered)
    loaded.engine_start()
    graph = folder / "torch/autograd/graph.py"
    names: dict[str, object] = {}
    text = "def _engine_run_backward(run, *args):\n    return run(*args)\n"
    exec(compile(text, str(graph), "exec"), names)
    backward = names["_engine_run_backward"]
    entry = ctypes.cast(take, ctypes.c_void_p)

    def per_pass(launches: int) -> float:
        ids = (ctypes.c_uint32 * launches)()
        times = []
        for _ in range(200):
            begin = time.perf_counter_ns()
            backward(loaded.engine_run, 0, entry, ids, launches, 0)  # type: ignore[operator]
            times.append(time.perf_counter_ns() - begin)
            if numbered and not all(ids):
                sys.exit("a launch had no stack")
        return statistics.median(times)

    one, many = per_pass(1), per_pass(1001)
    empty = per_pass(0)
    kind = "numbered" if numbered else "unnumbered"
    print(
        f"  {kind:10}  first launch of a pass {(one - empty) / 1000:7.1f} µs, each further one {(many - one) / 1000:8.1f} ns"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--kind", choices=["numbered", "unnumbered"])
    options = parser.parse_args()
    if options.kind is None:
        print(f"CPython {platform.python_version()}, {options.threads} other threads")
        for kind in ("numbered", "unnumbered"):
            subprocess.run(
                [sys.executable, __file__, "--threads", str(options.threads), "--kind", kind], check=True
            )
        return
    done = threading.Event()
    for _ in range(options.threads):
        threading.Thread(target=done.wait, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.kind == "numbered")
    done.set()


if __name__ == "__main__":
    main()
