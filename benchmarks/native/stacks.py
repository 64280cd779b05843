"""What a host stack costs: CPU time of taking the calling thread's stack again, by depth.

    WARPSIGHT_LIBRARY=build/native/libwarpsight.so python benchmarks/native/stacks.py [--stacks both]

Runs under any CPython it records; nothing need be installed. Each figure is the best of 15 rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import sys


def at_depth(library: ctypes.CDLL, depth: int, times: int) -> float:
    """ns per stack of `depth` frames of this module, this function's callers included."""
    if depth > 1:
        return at_depth(library, depth - 1, times)
    return float(library.ws_stack_cost(times)) / times


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
    parser.add_argument("--times", type=int, default=100_000)
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
        best = min([at_depth(library, depth - own, options.times) for _ in range(15)])
        print(f"  {depth:4} frames  {best:8.1f} ns")


if __name__ == "__main__":
    main()
