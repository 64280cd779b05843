"""A capsule that may be hostile, given to everything that reads one, in a child whose memory is bounded."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import traceback
from dataclasses import dataclass
from pathlib import Path

#: Memory, address space beside what the child is born with, processor seconds, and bytes of one file that it may write.
MEMORY, ADDRESSES, CPU_S, FILE = 640 << 20, 2 << 30, 60, 1 << 33
REFUSED, READY, FAULT = 0, 1, 2


@dataclass(frozen=True)
class Tried:
    """What became of a capsule: `refused` with a message, or `ready`, a script in the folder; else `fault` says what is wrong."""

    refused: str = ""
    ready: bool = False
    fault: str = ""
    peak: int = 0


def attempt(capsule: Path, folder: Path, flags: int) -> Tried:
    """Read everything of a capsule as `capsule show`, `export` and `replay` do, up to where the first instruction would run."""
    said, child = folder / "said", os.fork()
    if not child:
        os._exit(_child(capsule, folder, flags, said))
    _, status, usage = os.wait4(child, 0)
    code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
    text = said.read_text(errors="replace") if said.exists() else ""
    if peak > MEMORY:
        return Tried(fault=f"{peak >> 20} MiB of memory")
    if code == REFUSED:
        return Tried(refused=text, peak=peak)
    if code == READY:
        return Tried(ready=True, peak=peak)
    return Tried(fault=text if code == FAULT else f"ended with {code} {text}", peak=peak)


def _child(capsule: Path, folder: Path, flags: int, said: Path) -> int:
    born = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (born + ADDRESSES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    from warpsight.errors import UsageError, WarpsightError

    try:
        _read(capsule, folder, flags)
        return READY
    except WarpsightError as error:
        said.write_text(str(error), errors="backslashreplace")
        printable = len(str(error).split("\n")) == 1 and (
            capsule.name in str(error) or isinstance(error, UsageError)
        )
        return REFUSED if printable else _fault(said, f"a message that is not one line of text: {error!r}")
    except BaseException:
        return _fault(said, traceback.format_exc())


def _fault(said: Path, text: str) -> int:
    said.write_text(text, errors="backslashreplace")
    return FAULT


def _read(path: Path, folder: Path, flags: int) -> None:
    from warpsight.replay import script
    from warpsight.replay.capsule import browsing
    from warpsight.replay.capsule.store import Capsule
    from warpsight.replay.reproducer import export
    from warpsight.replay.schedules.sequence import sequence

    capsule = Capsule.open(path)
    whole = browsing.overview(capsule)
    for part in whole.memory[:3]:
        if capsule.manifest.values == "all" and part.changed_bytes is not None:
            browsing.contents(capsule, part, "after", 0, 256)
    for form in ("python", "cuda"):
        export(capsule, form, folder / form)
    steps = sequence(capsule.manifest)
    settings = script.ScriptSettings(2, 1, flags)
    script.write(capsule, steps, settings, folder)


def execute(program: Path, folder: Path, standin: Path, commands: bytes = b"") -> str:
    """Run the script of a folder on the stand-in for the driver: what is wrong with its end, empty when nothing is."""
    try:
        done = subprocess.run(
            [str(program), str(folder / "script"), str(folder / "data"), str(folder)], input=commands, capture_output=True,
            env={"LD_LIBRARY_PATH": str(standin), "ASAN_OPTIONS": "exitcode=66:detect_leaks=0:allocator_may_return_null=1"
                 ":hard_rss_limit_mb=4000", "UBSAN_OPTIONS": "exitcode=66:print_stacktrace=1"},
            timeout=10, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""  # as many runs, or as late ones, as were asked for
    return (
        ""
        if 0 <= done.returncode <= 6
        else f"exit code {done.returncode}\n{done.stderr.decode(errors='replace')}"
    )


def preload() -> None:
    """Import what children need."""
    import warpsight.replay.capsule.browsing
    import warpsight.replay.reproducer
    import warpsight.replay.schedules.sequence
    import warpsight.replay.script  # noqa: F401
