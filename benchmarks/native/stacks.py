"""What a host stack costs: time of taking the calling thread's stack again, by depth.

    WARPSIGHT_LIBRARY=build/native/libwarpsight.so python benchmarks/native/stacks.py [--stacks both] [--beside 100000]

Runs under any CPython it records; nothing need be installed. Each figure is the best of 15 medians.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import sys
from collections.abc import Callable


def at_depth(library: ctypes.CDLL, depth: int, times: int, beside: int) -> float:
    """Median ns per stack of `depth` frames above this module's, each of a function of its own as in a real program."""
    call: Callable[[], float] = lambda: float(library.ws_stack_cost(times, beside))  # noqa: E731
    for level in range(depth - 1):
        names = {"call": call}
        padding = "\n".join(f"    if call is None: print('{level} {line}')" for line in range(20))
        exec(f"def layer_{level}(x=1):\n{padding}\n    return call()", names)
        call = names[f"layer_{level}"]
    return call()


def frames() -> int:
    """Frames of the caller's stack."""
    frame, count = sys._getframe(1), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", default=os.environ.get("WARPSIGHT_LIBRARY"), help="libwarpsight.so")
    parser.add_argument("--stacks", default="python", choices=["python", "native", "both"])
    parser.add_argument("--times", type=int, default=20_000)
    parser.add_argument(
        "--beside", type=int, default=0, help="bytes of other memory that the program uses between two stacks"
    )
    options = parser.parse_args()
    if not options.library:
        parser.error("say which library: --library or WARPSIGHT_LIBRARY")
    os.environ["WARPSIGHT_STACKS"] = options.stacks
    library = ctypes.CDLL(options.library)
    library.ws_stack_cost.restype = ctypes.c_uint64
    if library.ws_arena_create() < 0:
        sys.exit("no arena could be made")
    own = frames()
    print(f"CPython {platform.python_version()}, {options.stacks} frames")
    for depth in (8, 20, 50, 100):
        best = min([at_depth(library, depth - own, options.times, options.beside) for _ in range(15)])
        print(f"  {depth:4} frames  {best:8.1f} ns")


if __name__ == "__main__":
    main()
