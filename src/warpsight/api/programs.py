"""Verbs that run a program or look at one, from Python.

Functions that supervise a program do so in a separate process, as `ws.run` does, where they can own signals and the terminal.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight._display import HtmlShown
from warpsight.api.run import Run
from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.child import python_command
from warpsight.recorder.options.settings import Settings

if TYPE_CHECKING:
    from warpsight.debug.sanitizer import SanitizerRun
    from warpsight.recorder.trial.bench import Bench


@dataclass(frozen=True)
class HangReport(HtmlShown):
    """What a process was doing; prints as `warpsight dump` does. `document` is what `warpsight dump --json` prints."""

    document: dict[str, Any]

    def __str__(self) -> str:
        """The report as text."""
        from warpsight.ui.render.dump import hang_page

        return hang_page.text(self.document)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self.document


@dataclass(frozen=True)
class WatchedRun:
    """A watched run: how the program ended (128 + signal, 127, 126), and a report of each hang or crash in order.

    `path` holds the reports as pages, texts and JSON, with the last seconds as a trace; None where nothing happened.
    """

    path: Path | None
    returncode: int
    reports: tuple[HangReport, ...]


def watch(
    command: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    hang_after: float = 60.0,
    kernel_timeout: float = 0.0,
    no_data_timeout: float = 0.0,
    on_hang: str = "report",
    dumps: bool = False,
    dump_memory: str = "stack",
    dump_dir: str | os.PathLike[str] | None = None,
    gzip: bool = False,
    ring: str = "30s",
    stacks: str = "python",
    environment: Mapping[str, str] | None = None,
) -> WatchedRun:
    """Run a program, and report what it was doing when it hangs or crashes; it uses this terminal.

    Args:
        command: The program and its arguments.
        path: The folder of reports to make; a new temporary one by default.
        force: Replace an existing folder of reports.
        hang_after: Seconds without progress that count as a hang; 0: never.
        kernel_timeout: End the program when a kernel runs this many seconds; 0: never.
        no_data_timeout: End it when a kernel runs and nothing is recorded for this many seconds; 0: never.
        on_hang: `report`, `dump` (a GPU core dump too, which ends the stuck kernel) or `kill` (dump, then end the program).
        dumps: Arm GPU core dumps for crashes, too; device work is not recorded then.
        dump_memory: none, stack, shared or all.
        dump_dir: Folder for dumps; by default that of the reports.
        gzip: Compress dumps.
        ring: How much the trace of a report holds, as a time or size.
        stacks: Host stacks of launches: python, native, both or off.
        environment: The program's environment; by default, this process's.

    Raises:
        UsageError: when the options are invalid, or `path` exists.
    """
    folder = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="warpsight-watch-")) / "reports"
    numbers = {
        "--hang-after": hang_after,
        "--kernel-timeout": kernel_timeout,
        "--no-data-timeout": no_data_timeout,
    }
    words = {"--on-hang": on_hang, "--dump-memory": dump_memory, "--ring": ring, "--stacks": stacks}
    _check_watch(command, on_hang, dump_memory, numbers)
    Settings(ring=ring, stacks=stacks)
    if path is not None and folder.exists() and not force:
        raise UsageError(f"{folder} exists: force=True replaces it")
    arguments = ["watch", "-q", "-o", str(folder), *(["-f"] if force else [])]
    arguments += [f"{name}={value}" for name, value in (*numbers.items(), *words.items())]
    arguments += [flag for flag, wanted in (("--dumps", dumps), ("--gzip", gzip)) if wanted]
    arguments += [f"--dump-dir={os.fspath(dump_dir)}"] if dump_dir is not None else []
    code = _verb([*arguments, "--", *(os.fspath(part) for part in command)], environment)
    found = sorted(folder.glob("report*.json"), key=lambda file: (len(file.name), file.name))
    reports = tuple(HangReport(json.loads(file.read_text(encoding="utf-8"))) for file in found)
    if path is None and not folder.exists():
        folder.parent.rmdir()
    return WatchedRun(folder if folder.exists() else None, code, reports)


def _check_watch(
    command: Sequence[Any], on_hang: str, dump_memory: str, seconds: Mapping[str, float]
) -> None:
    from warpsight.recorder.watch import coredump
    from warpsight.recorder.watch.watch import ON_HANG

    if not command:
        raise UsageError("no program to watch: give its name and arguments")
    for name, value, known in (("on_hang", on_hang, ON_HANG), ("dump_memory", dump_memory, coredump.MEMORY)):
        if value not in known:
            raise UsageError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    for name, length in seconds.items():
        if not 0 <= length < 1e6:
            raise UsageError(
                f"{name[2:].replace('-', '_')} must be a number of seconds, 0 or more, not {length:g}"
            )


def attach(
    pid: int,
    path: str | os.PathLike[str] | None = None,
    *,
    seconds: float,
    force: bool = False,
    sample: float = 100.0,
    counters: str = "10",
    ring: str = "",
) -> Run:
    """Record a running process for some seconds or until it ends; calling :func:`detach` in another thread ends it, too.

    The process must have started dormant (`WARPSIGHT=dormant`, and `CUDA_INJECTION64_PATH`), or be CPython 3.14 or newer.

    Args:
        pid: The process.
        path: The folder to make; a new temporary one by default.
        seconds: How long to record.
        force: Replace an existing trace.
        sample: Samples of host threads per second; 0: none.
        counters: GPU counters: `off`, samples per second, or names.
        ring: Keep only the last `30s`, `500MB` or both.

    Raises:
        UsageError: when `seconds` is not positive.
        WarpsightError: when the process cannot be recorded; the message says why.
    """
    if not 0 < seconds < 1e9:
        raise UsageError(f"seconds, the length of the recording, must be above 0, not {seconds:g}")
    target = (
        Path(path)
        if path is not None
        else Path(tempfile.mkdtemp(prefix="warpsight-attach-")) / f"pid-{pid}.warp"
    )
    arguments = ["-q", "attach", str(pid), "-o", str(target), *(["-f"] if force else []), f"--for={seconds}"]
    Settings(sample=sample, counters=counters, ring=ring)
    _answer([*arguments, f"--sample={sample}", f"--counters={counters}", f"--ring={ring}"])
    if not target.exists():
        raise WarpsightError(
            f"process {pid} is recorded by the `warpsight record` that started it; detach({pid}) says where its rows are"
        )
    return Run(target, 0)


def detach(pid: int) -> Path:
    """End the recording of an attached process, and return where its rows are; the process runs on.

    Raises:
        WarpsightError: when the process is not recorded.
    """
    from warpsight.recorder import attach as attaching

    return attaching.detach(pid)


def dump(pid: int, *, gpu: bool = False, gzip: bool = False) -> HangReport:
    """Look at what a running process and its children are doing, on the host and, with `gpu`, on the GPU.

    `gpu` takes GPU core dumps, compressed with `gzip`; this ends running kernels, and the process must have been started with
    CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, as `watch(on_hang="dump")` does.

    Raises:
        WarpsightError: when the process does not exist or is not ours.
    """
    arguments = ["-q", "dump", str(pid), "--json", *(["--gpu"] if gpu else []), *(["--gzip"] if gzip else [])]
    return HangReport(json.loads(_answer(arguments)))


def sanitize(
    command: Sequence[str | os.PathLike[str]],
    tool: str = "memcheck",
    *,
    limit: int = 10_000,
    options: Sequence[str] = (),
    keep: str | os.PathLike[str] | None = None,
) -> SanitizerRun:
    """Run a program under NVIDIA's Compute Sanitizer and return its findings; it uses this terminal.

    Args:
        command: The program and its arguments.
        tool: memcheck, racecheck, initcheck or synccheck.
        limit: Records at most; 0: all.
        options: Further options for compute-sanitizer, such as `--leak-check=full`.
        keep: Folder for the tool's own reports.

    Raises:
        UsageError: for an unknown tool, or without a program.
        WarpsightError: when compute-sanitizer or the program cannot be started.
    """
    from warpsight.debug import sanitizer

    if tool not in sanitizer.TOOLS:
        raise UsageError(f"tool must be one of {', '.join(sanitizer.TOOLS)}, not {tool!r}")
    if not command:
        raise UsageError("no program to check: give its name and arguments")
    return sanitizer.sanitize(
        tool, [os.fspath(part) for part in command], limit, options, Path(keep) if keep else None
    )


def bench(launches: int = 0, device: str = "auto") -> Bench:
    """Measure what recording costs on this machine: `launches` real kernels, bare and recorded in turn.

    Args:
        launches: How many; 0: enough for repeatable figures.
        device: auto, cuda or opencl.

    Raises:
        WarpsightError: without a device, or when the recording fails.
    """
    from warpsight import machine
    from warpsight.recorder.trial import bench as trial

    if device not in ("auto", "cuda", "opencl"):
        raise UsageError(f"device must be auto, cuda or opencl, not {device!r}")
    platform = machine.detect_platform() if device == "auto" else device
    if platform == "cpu":
        raise WarpsightError("there is no device to launch on: doctor() says what to install")
    return trial.run(platform, launches or trial.LAUNCHES)


def _answer(arguments: Sequence[str]) -> str:
    """The output of a command run in a separate process; its error message is raised if it fails."""
    child = python_command("warpsight.ui.cli", *arguments, site=True)
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise WarpsightError(
            (said[-1] if said else f"exit code {done.returncode}").removeprefix("warpsight: ")
        )
    return done.stdout


def _verb(arguments: Sequence[str], environment: Mapping[str, str] | None) -> int:
    """Run a verb in a separate process on this terminal; returns its exit code."""
    child = python_command("warpsight.ui.cli", *arguments, site=True)
    return subprocess.run(
        child, env=None if environment is None else dict(environment), check=False
    ).returncode
