"""A program to be sampled: `stack_target.py waiting|working|generating`. Prints its threads, then goes on for ever.

A working thread runs functions that call each other in a known way: only `aN` calls `bN`, only `bN` `aN+1`.
"""

from __future__ import annotations

import json
import sys
import threading

LEVELS = 12
SOURCE = "".join(
    f"def a{n}(go):\n    x = {n}\n    return b{n}(go)\n\ndef b{n}(go):\n    return a{n + 1}(go)\n\n"
    for n in range(LEVELS)
)


def waiting(event: threading.Event, depth: int) -> None:
    if depth:
        waiting(event, depth - 1)
    event.wait()


def working() -> None:
    space: dict[str, object] = {f"a{LEVELS}": lambda go: go}
    exec(compile(SOURCE, "ladder.py", "exec"), space)
    start = space["a0"]
    assert callable(start)
    while True:
        start(True)


def total() -> int:
    return sum(1 for _ in range(100_000))


def main() -> None:
    threads = [
        threading.Thread(target=waiting, args=(threading.Event(), depth), daemon=True) for depth in (0, 5, 30)
    ]
    for thread in threads:
        thread.start()
    print(json.dumps([threading.get_native_id(), *(thread.native_id for thread in threads)]), flush=True)
    if sys.argv[1] == "working":
        working()
    while sys.argv[1] == "generating":
        total()
    waiting(threading.Event(), 10)


if __name__ == "__main__":
    main()
