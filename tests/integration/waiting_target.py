"""A program whose launches come from threads of an engine without Python frames, as in PyTorch's backward.

    python waiting_target.py LIBRARY FOLDER CASE ENGINE

ENGINE is waiting_engine.c, built. FOLDER/log.json gets rows [stack ids, frames], frames as the thread that waited would
say, outermost first, or [] where no stack may be taken; FOLDER/raw the segments.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

COUNT = 3
LOG: list[tuple[list[int], list[tuple[str, str, int]]]] = []
ENGINE: Any = None
TAKE: Any = None
GRAPH: Any = None
#: The function that PyTorch's Python code waits in.
GRAPH_PY = """\
def _engine_run_backward(outputs, *args, **kwargs):
    return outputs(*args, **kwargs)
"""
AUTOGRAD_PY = """\
from .graph import _engine_run_backward

def backward(*args):
    return _engine_run_backward(*args)
"""
#: PyTorch before 2.3.
OLD_AUTOGRAD_PY = """\
def backward(outputs, *args, **kwargs):
    return outputs(*args, **kwargs)
"""


def frames_of(frame: Any) -> list[tuple[str, str, int]]:
    chain = []
    while frame is not None:
        code = frame.f_code
        chain.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return chain[::-1]


class Pass:
    """One call of backward: calling it is C code, so its caller is the innermost frame of the thread that waits."""

    def __init__(self, device: int = 0, together: bool = False) -> None:
        self.ids = (ctypes.c_uint32 * COUNT)()
        self.arguments = device, TAKE, self.ids, COUNT, int(together)

    def log(self, frames: list[tuple[str, str, int]]) -> None:
        LOG.append((list(self.ids), frames))


def torch(folder: Path, graph: str = GRAPH_PY, autograd: str = AUTOGRAD_PY) -> Any:
    (folder / "torch" / "autograd").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "autograd" / "graph.py").write_text(graph)
    (folder / "torch" / "autograd" / "__init__.py").write_text(autograd)
    sys.path.insert(0, str(folder))
    return importlib.import_module("torch.autograd")


def wanted(autograd: Any, here: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """The stack of a thread that waits, from its frames above PyTorch's."""
    own = [
        ("backward", autograd.__file__, 4),
        ("_engine_run_backward", sys.modules["torch.autograd.graph"].__file__, 2),
    ]
    return here + own


def steps(folder: Path) -> None:
    """Backward from two lines of one function and from another function, again and again."""
    autograd = torch(folder)

    def inner(p: Pass) -> Any:
        return autograd.backward(ENGINE, *p.arguments), p.log(wanted(autograd, frames_of(sys._getframe())))

    for _ in range(50):
        p, q = Pass(), Pass()
        autograd.backward(ENGINE, *p.arguments), p.log(wanted(autograd, frames_of(sys._getframe())))
        autograd.backward(ENGINE, *q.arguments), q.log(wanted(autograd, frames_of(sys._getframe())))
        inner(Pass())


def executed(folder: Path) -> None:
    """Code objects made and dropped in a loop: their addresses are used again."""
    autograd = torch(folder)
    for n in range(300):
        p = Pass()
        text = "backward(engine, *p.arguments), p.log(wanted(frames(getframe())))"
        exec(compile(text, f"made {n}", "exec"), {
            "backward": autograd.backward, "engine": ENGINE, "p": p, "frames": frames_of,
            "wanted": lambda frames: wanted(autograd, frames), "getframe": sys._getframe})  # fmt: skip


def old(folder: Path) -> None:
    """PyTorch before 2.3, where backward itself calls the engine."""
    autograd = torch(folder, autograd=OLD_AUTOGRAD_PY)
    inner = ("backward", autograd.__file__, 2)
    for _ in range(10):
        p = Pass()
        autograd.backward(ENGINE, *p.arguments), p.log([*frames_of(sys._getframe()), inner])


def deep(folder: Path) -> None:
    """More frames than are kept."""
    autograd = torch(folder)

    def down(n: int) -> None:
        if n:
            down(n - 1)
            return
        p = Pass()
        autograd.backward(ENGINE, *p.arguments), p.log(wanted(autograd, frames_of(sys._getframe()))[-128:])

    down(200)


def threads(folder: Path) -> None:
    """Backward on another thread than the main one, while others come and go and compute."""
    autograd = torch(folder)
    stop = threading.Event()

    def compute(n: int) -> int:
        return n if n < 2 else compute(n - 1) + compute(n - 2)

    def churn() -> None:
        while not stop.is_set():
            thread = threading.Thread(target=compute, args=(12,))
            thread.start()
            thread.join()

    def train() -> None:
        for _ in range(200):
            p = Pass()
            autograd.backward(ENGINE, *p.arguments), p.log(wanted(autograd, frames_of(sys._getframe())))

    churning = [threading.Thread(target=churn) for _ in range(3)]
    for thread in churning:
        thread.start()
    trainer = threading.Thread(target=train)
    trainer.start()
    trainer.join()
    stop.set()
    for thread in churning:
        thread.join()


def nobody(folder: Path) -> None:
    """Threads of the engine work, but who waits for them is not in backward."""
    torch(folder)
    for _ in range(10):
        p = Pass()
        ENGINE(*p.arguments)
        p.log([])


def elsewhere(folder: Path) -> None:
    """A function of that name in another package, and another function in that file."""
    torch(
        folder, graph=GRAPH_PY.replace("_engine_run_backward", "other") + "\n_engine_run_backward = other\n"
    )
    graph = sys.modules["torch.autograd.graph"]
    names: dict[str, Any] = {}
    exec(compile(GRAPH_PY, "nottorch/graph.py", "exec"), names)
    for function in (graph.other, names["_engine_run_backward"]):
        p = Pass()
        function(ENGINE, *p.arguments)
        p.log([])


def several(folder: Path) -> None:
    """Two threads in backward at once."""
    autograd = torch(folder)

    def train(device: int) -> None:
        p = Pass(device, together=True)
        autograd.backward(ENGINE, *p.arguments)
        p.log([])

    pair = [threading.Thread(target=train, args=(device,)) for device in range(2)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()


def main() -> None:
    global TAKE, ENGINE
    library, folder, case = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    engine = ctypes.CDLL(sys.argv[4])
    ENGINE = engine.engine_run
    take = library.ws_stack_take
    take.restype = ctypes.c_uint32
    TAKE = ctypes.cast(take, ctypes.c_void_p)
    library.ws_drain_open.restype = ctypes.c_void_p
    library.ws_drain_open.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64
    library.ws_drain_poll.argtypes = ctypes.c_void_p, ctypes.c_int
    library.ws_drain_close.argtypes = (ctypes.c_void_p,)
    (folder / "raw").mkdir()
    drain = library.ws_drain_open(library.ws_arena_create(None), str(folder / "raw").encode(), 1 << 26)
    assert drain
    take()
    engine.engine_start()
    globals()[case](folder)
    assert library.ws_drain_poll(drain, 1) >= 0
    library.ws_drain_close(drain)
    (folder / "log.json").write_text(json.dumps(LOG), encoding="utf-8")


if __name__ == "__main__":
    main()
