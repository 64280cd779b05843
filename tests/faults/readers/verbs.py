"""The reading verbs, run in a child that may take a gibibyte: what came of one of them on one input."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.readers.corpus import GOLDEN, Whole

#: Address space of a child beside what it is born with: what "a gigabyte" means.
MEMORY = 1 << 30
#: Processor seconds and seconds of the clock that a verb may take.
CPU_S, WALL_S = 60, 300
#: Exit codes that verbs have when all is well, or when their input is not.
FINE = (*range(9), *range(10, 14))

#: Addresses are what is limited, so nothing may reserve more of them than it uses: mimalloc begins with a gibibyte, glibc
#: with 64 MiB a thread.
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    "NO_COLOR": "1", "COLUMNS": "120",
}  # fmt: skip

_TRACE = (
    ("info",), ("info", "--json"), ("stats",), ("stats", "@", "--by", "stack"), ("analyze",), ("analyze", "--json"),
    ("query", "@", "SELECT * FROM kernel"), ("query", "@", "--table", "launch", "--format", "csv"), ("view", "@", "--plain"),
    ("view", "@", "--list"), ("flame", "@", "-o", "%/out.folded"), ("flame", "@", "-o", "%/out.html"),
    ("report", "@", "-o", "%/r.html"),
    ("export", "@", "--to", "perfetto", "-o", "%/o.pftrace"), ("export", "@", "--to", "chrome", "-o", "%/o.json"),
    ("export", "@", "--to", "csv", "-o", "%/o.zip"), ("export", "@", "--to", "kineto", "-o", "%/o.pt.trace.json"),
    ("import", "@", "-o", "%/o.warp"), ("diff", "@", str(GOLDEN / "planted_leak.warp.zip")),
    ("stats", "@", "memory"), ("stats", "@", "ops"), ("analyze", "@", "critical-path", "memory", "iterations"),
    ("simulate", "@"), ("simulate", "@", "-w", "kernel:e/2", "-w", "overlap:copies"), ("pack", "@", "--unpack", "-o", "%/o.warp"),
)  # fmt: skip
VERBS: dict[str, tuple[tuple[str, ...], ...]] = {
    "trace": _TRACE,
    "packed": _TRACE,
    "sass": (("import", "@", "-o", "%/o.warp"), ("info",), ("sass", "query", "@"), ("sass", "warps", "@"),
    ("sass", "validate", "@"), ("sass", "histogram", "@", "-o", "%/h.csv"), ("sass", "delays", "@", "--delay-ns", "100"),
             ("sass", "compare", "@", "@"), ("sass", "query", "@", "-g", "sass", "--count", "--top", "3")),
    "core": (("core",), ("core", "@", "--json")),
    "inside": (("info",), ("sass", "hotspots", "@"), ("sass", "why", "@"), ("sass", "list", "@", "-o", "%/l.html"),
               ("sass", "counts", "@"), ("sass", "counts", "@", "--json"), ("sass", "metrics", "@"),
               ("report", "@", "-o", "%/r.html"), ("analyze",)),
    "events": (("sass", "events", "@"), ("sass", "memory", "@"), ("sass", "races", "@"), ("sass", "waits", "@"),
               ("sass", "races", "@", "--json"), ("info",), ("import", "@", "-o", "%/o.warp")),
    "cubin": (("sass", "list", "@"), ("sass", "list", "@", "--json"), ("sass", "list", "@", "-o", "%/l.html"),
              ("sass", "list", "@", "-o", "%/l.svg"), ("sass", "disasm", "@", "--stdout")),
    "capsule": (("capsule", "show", "@"), ("capsule", "show", "@", "--verify"), ("capsule", "show", "@", "a2", "--when", "after"),
                ("capsule", "show", "@", "--json"), ("capsule", "export", "@", "-o", "%/o.cuda"),
                ("capsule", "export", "@", "--to", "python", "-o", "%/o.python"),
                ("capsule", "export", "@", "--to", "trace", "-o", "%/o.warp"), ("replay", "@", "--mode", "dry-run"),
                ("replay", "@", "--timeout", "20")),
    "plan": (("race", "replay", "@", "--", "true"), ("race", "reduce", "-o", "%/o", "@", "--", "true"),
             ("replay", str(GOLDEN / "capsules" / "add.capsule"), "--delays", "@", "--timeout", "20")),
    "job": (("cluster", "analyze", "@", "--workers", "1"), ("cluster", "analyze", "@", "--json", "--workers", "1"),
            ("cluster", "traffic", "@", "--workers", "1"), ("cluster", "merge", "@", "--workers", "1", "-o", "%/o.warp")),
    "merge": (("merge", "-c", "@", "-g", str(GOLDEN / "merge" / "gpu.json"), "-o", "%/o.folded"),
              ("merge", "-c", str(GOLDEN / "merge" / "stacks.txt"), "-g", "@", "-o", "%/o.folded"), ("info",)),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a verb ended: exit code (negative: a signal), most memory, and what it wrote to both streams."""

    arguments: tuple[str, ...]
    code: int
    peak: int
    seconds: float
    out: str
    err: str

    @property
    def fault(self) -> str:
        """What is wrong with it, empty when nothing is."""
        last = self.err.strip().splitlines()[-1] if self.err.strip() else ""
        if "internal error" in self.err or "Traceback" in self.err:
            return next((line for line in self.err.splitlines() if "internal error" in line), last)
        if self.code == -signal.SIGXCPU:
            return f"more than {CPU_S} s of processor time"
        if self.code < 0:
            return f"ended by signal {-self.code} {last}"
        if self.code not in FINE:
            return f"exit code {self.code}: {last}"
        says_it_on_stdout = self.arguments[:2] in (("sass", "validate"), ("sass", "compare"))
        judged = says_it_on_stdout and self.out
        if self.code in (1, 2) and "warpsight: " not in self.err and not judged:
            return f"exit code {self.code} without a message"
        if self.peak > MEMORY:
            return f"{self.peak >> 20} MiB"
        return ""


def preload() -> None:
    """Import what verbs need, so that a child does not have to. Nothing may start a thread: children are forked."""
    import importlib

    for name in ("numpy", "pyarrow", "pyarrow.parquet", "pyarrow.compute", "duckdb", "zstandard", "msgspec", "rich.console",
                 "warpsight.ui.cli.parser", "warpsight.api.trace", "warpsight.formats.importing", "warpsight.model.trace",
                 "warpsight.analysis.rules.verdict", "warpsight.ui.render.report", "warpsight.formats.kineto.reader",
                 "warpsight.analysis.base.registry", "warpsight.debug.gpucore.reader"):  # fmt: skip
        importlib.import_module(name)
    from warpsight.formats import registry

    for one in registry.READERS.values():
        importlib.import_module(one.module)


def chosen(seed: int, whole: Whole) -> tuple[str, ...]:
    """The verb of a seed."""
    return Random(seed ^ 0x5EED).choice(VERBS[whole.kind])


def run(arguments: tuple[str, ...], path: Path, scratch: Path) -> Outcome:
    """Run one verb on a file, in a child of its own."""
    words = [word.replace("@", str(path)).replace("%", str(scratch)) for word in arguments]
    if len(arguments) == 1 or "@" not in arguments:
        words[1:1] = [str(path)]
    out, err = scratch / "stdout", scratch / "stderr"
    began = time.monotonic()
    child = os.fork()
    if not child:
        _child(words, out, err)
    code, peak = _ended(child)
    seconds = time.monotonic() - began
    return Outcome(
        arguments, code, peak, seconds, out.read_text(errors="replace"), err.read_text(errors="replace")
    )


def _ended(child: int) -> tuple[int, int]:
    """Exit code and most memory of a child, which is killed when it takes too long."""
    end = time.monotonic() + WALL_S
    with _alarm(child, end):
        _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10


@contextlib.contextmanager
def _alarm(child: int, end: float):  # type: ignore[no-untyped-def]
    previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, end - time.monotonic())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _child(words: list[str], out: Path, err: Path) -> None:
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for descriptor, path in ((1, out), (2, err)):
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, descriptor)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        born = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (born + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
        tempfile.tempdir = str(out.parent)
        from warpsight.ui.cli import app

        code = app.main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
