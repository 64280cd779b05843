"""A program that takes stacks at known places and logs what Python itself says about each.

    python stack_cases.py LIBRARY FOLDER CASE

Runs under any CPython that warpsight records, with nothing installed. FOLDER/log.json gets rows
[stack id, frames, cut], frames as [qualified name, file, line], outermost first; FOLDER/raw the segments.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Row = tuple[int, list[tuple[str, str, int]], bool]

LOG: list[Row] = []
DEPTH = int(os.environ.get("WARPSIGHT_STACK_DEPTH", "128"))
TAKE: Any = None


def frames_of(frame: Any) -> list[tuple[str, str, int]]:
    """What traceback.extract_stack says, with qualified names where code objects have them."""
    chain = []
    while frame is not None:
        code = frame.f_code
        chain.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return chain[::-1]


def take() -> None:
    """Take this thread's stack both ways, on one line so that both see the same line of this function."""
    row = (TAKE(), frames_of(sys._getframe()))
    LOG.append((row[0], row[1][-DEPTH:], len(row[1]) > DEPTH))


def nested() -> None:
    """Functions, lambdas, comprehensions, classes, decorators, several lines in one call."""

    def inner(n: int) -> None:
        if n:
            inner(n - 1)
        take()

    inner(3)
    (lambda: take())()
    for _ in range(3):
        [take() for _ in range(2)]
        {take() for _ in range(2)}
        {n: take() for n in range(2)}
    sorted([2, 1], key=lambda n: (take(), n)[1])
    max(
        1,
        2,
        key=lambda n: (
            n,
            take(),
        )[0],
    )


def classes() -> None:
    """Methods, properties, constructors often enough to be specialised, decorators."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*arguments: Any) -> Any:
            return function(*arguments)

        return wrapper

    class Thing:
        take()

        def __init__(self) -> None:
            take()

        @property
        def value(self) -> int:
            take()
            return 1

        @decorated
        def method(self) -> None:
            take()

        @staticmethod
        def static() -> None:
            take()

        def __eq__(self, other: object) -> bool:
            take()
            return True

        __hash__ = None  # type: ignore[assignment]

    for _ in range(40):
        thing = Thing()
    thing.method()
    Thing.static()
    assert thing.value == 1
    assert thing == Thing()
    assert [thing].index(Thing()) == 0


def generators() -> None:
    """Generators, delegation, generator expressions, a generator closed while suspended."""

    def numbers(n: int) -> Iterator[int]:
        try:
            for i in range(n):
                take()
                yield i
        finally:
            take()

    def both() -> Iterator[int]:
        yield from numbers(3)
        take()
        yield from numbers(2)

    assert sum(both()) == 4
    assert sum(n for n in both() if take() is None) == 4
    half = numbers(5)
    next(half)
    half.close()


def coroutines() -> None:
    """async functions, awaited and as tasks, async generators, async comprehensions."""

    async def leaf(n: int) -> int:
        take()
        await asyncio.sleep(0)
        take()
        return n

    async def stream() -> Any:
        for n in range(3):
            take()
            yield await leaf(n)

    async def main() -> None:
        await asyncio.gather(*(leaf(n) for n in range(4)))
        assert [n async for n in stream()] == [0, 1, 2]

    asyncio.run(main())


def executed() -> None:
    """exec'd code whose names need one, two and four bytes a character, and lines far apart."""
    for name in ("plain", "café", "日本", "𝔘𝔫𝔦", "Ω" * 200):
        source = f"def {name}(take):\n" + "\n" * 1000 + "    take(\n\n    )\n    take()\n"
        space: dict[str, Any] = {}
        exec(compile(source, f"/dev/<{name}>.py", "exec"), space)
        next(value for key, value in space.items() if key != "__builtins__")(take)
    exec("take()", {"take": take})
    eval("take()", {"take": take})


def recursion() -> None:
    """Below, at and far beyond the depth limit."""

    def down(n: int) -> None:
        if n > 1:
            down(n - 1)
        else:
            take()

    sys.setrecursionlimit(20000)
    threading.stack_size(512 << 20)

    def run() -> None:
        for n in (DEPTH - 20, DEPTH, DEPTH + 20, 10000):
            down(n)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def gil() -> None:
    """The stack is the same whether the call gives the GIL away (CDLL) or keeps it (PyDLL)."""
    global TAKE
    taken = TAKE
    for loader in (ctypes.CDLL, ctypes.PyDLL):
        TAKE = loader(sys.argv[1]).ws_stack_take
        take()
    TAKE = taken


def dropped() -> None:
    """Code objects made and dropped at the same addresses, with names and files of equal length."""
    for n in range(20000):
        space: dict[str, Any] = {}
        source = f"def f{n:05}(take):\n" + "\n" * (n % 3) + "    take()\n"
        exec(compile(source, f"/generated/{n % 7:05}/kernel.py", "exec"), space)
        space[f"f{n:05}"](take)


def crowded() -> None:
    """Six threads at once that make, run and drop code objects of equal size."""

    def run(first: int) -> None:
        for n in range(first, first + 1000):
            space: dict[str, Any] = {}
            source = f"def f{n:05}(take):\n" + "\n" * (n % 5) + "    take()\n"
            exec(compile(source, f"/generated/{n % 7:05}/kernel.py", "exec"), space)
            space[f"f{n:05}"](take)

    threads = [threading.Thread(target=run, args=(n * 1000,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def renamed() -> None:
    """The same source under other file names: only the file tells the code objects apart."""
    for n in range(5000):
        space: dict[str, Any] = {}
        exec(compile("def f(take):\n    take()\n", f"/generated/{n:05}/kernel.py", "exec"), space)
        space["f"](take)


def distinct() -> None:
    """Eight threads, a thousand distinct stacks each, every one twice."""

    def step(path: int, depth: int) -> None:
        if depth == 0:
            take()
        elif path & 1:
            step(path >> 1, depth - 1)
        else:
            step(path >> 1, depth - 1)

    def run(first: int) -> None:
        for _ in range(2):
            for path in range(first, first + 1000):
                step(path, 13)

    threads = [threading.Thread(target=run, args=(n * 1000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def forked() -> None:
    """A forked child may ask for stacks; the parent's go on."""
    take()
    child = os.fork()
    if child == 0:
        TAKE()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    take()


def ending() -> None:
    """Stacks while the interpreter is taken down: from daemon threads and from exit handlers."""
    started = threading.Event()

    def spin() -> None:
        while True:
            TAKE()
            started.set()

    for _ in range(4):
        threading.Thread(target=spin, daemon=True).start()
    started.wait()
    take()

    class Late:
        def __del__(self) -> None:
            TAKE()

    sys.warpsight_test = Late()  # type: ignore[attr-defined]
    atexit.register(lambda: TAKE())


def main() -> None:
    global TAKE
    library, folder, case = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    TAKE = library.ws_stack_take
    TAKE.restype = ctypes.c_uint32
    library.ws_drain_open.restype = ctypes.c_void_p
    library.ws_drain_open.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64
    library.ws_drain_poll.argtypes = ctypes.c_void_p, ctypes.c_int
    library.ws_drain_close.argtypes = (ctypes.c_void_p,)
    (folder / "raw").mkdir()
    drain = library.ws_drain_open(library.ws_arena_create(None), str(folder / "raw").encode(), 1 << 26)
    assert drain
    globals()[case]()
    assert library.ws_drain_poll(drain, 1) >= 0
    library.ws_drain_close(drain)
    (folder / "log.json").write_text(json.dumps(LOG), encoding="utf-8")


if __name__ == "__main__":
    main()
