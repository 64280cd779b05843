"""Launches kernels in every form from 1,024 distinct Python stacks on several threads and keeps its own log.

usage: stack_log.py LOG.json LIBRARY [launches=100000] [threads=8]

LIBRARY is launch_forms.cu, built. The log holds, per OS thread and in order, (form, stack number) of every
launch; stack numbers name the path through ten functions of two call sites each. `check_stack_log.py`
compares a trace with it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEPTH = 10
SOURCE = "stack_log_generated.py"
TRITON_FORM = 7


def generate() -> dict[str, Any]:
    """level_9 … level_0: bit k of `number` chooses the call line in level_k, so the lines spell the number."""
    lines = []
    for level in range(DEPTH):
        inner = f"level_{level - 1}(number, launch)" if level else "launch()"
        lines += [
            f"def level_{level}(number, launch):",
            f"    if number >> {level} & 1:",
            f"        {inner}",
            "    else:",
            f"        {inner}",
            "",
        ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), SOURCE, "exec"), namespace)
    return namespace


def triton_launcher() -> Callable[[], None] | None:
    """A Triton kernel's launch, or None without Triton; its launcher releases the GIL."""
    try:
        import torch
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def form_triton(out, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), 1.0)

    target = torch.zeros(128, device="cuda")

    def launch() -> None:
        form_triton[(1,)](target, BLOCK=128)

    launch()
    torch.cuda.synchronize()
    return launch


def worker(
    index: int,
    count: int,
    library: ctypes.CDLL,
    triton: Callable[[], None] | None,
    root: Callable[..., None],
    log: dict[int, list[tuple[int, int]]],
) -> None:
    stream = ctypes.c_void_p()
    assert library.forms_stream(ctypes.byref(stream)) == 0
    mine: list[tuple[int, int]] = []
    log[threading.get_native_id()] = mine
    forms = 8 if triton else 7
    for i in range(count):
        form, number = (i * 7 + index) % forms, (i * 131 + index * 17) % (1 << DEPTH)

        def launch(form: int = form) -> None:
            if form == TRITON_FORM and triton:
                triton()
            else:
                result = library.forms_launch(form, stream)
                assert result == 0, (form, result)

        root(number, launch)
        mine.append((form, number))


def main() -> None:
    path, library_path = sys.argv[1:3]
    launches = int(sys.argv[3]) if len(sys.argv) > 3 else 100_000
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    library = ctypes.CDLL(library_path)
    assert library.forms_open() == 0
    triton = triton_launcher()
    root = generate()[f"level_{DEPTH - 1}"]
    log: dict[int, list[tuple[int, int]]] = {}
    workers = [
        threading.Thread(target=worker, args=(i, launches // threads, library, triton, root, log))
        for i in range(threads)
    ]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    expected = sum(
        (2 if form == 6 else 1) for entries in log.values() for form, _ in entries if form != TRITON_FORM
    )
    counted = library.forms_count()
    assert counted == expected, (counted, expected)
    Path(path).write_text(
        json.dumps({"threads": {str(k): v for k, v in log.items()}, "triton": triton is not None})
    )


if __name__ == "__main__":
    main()
