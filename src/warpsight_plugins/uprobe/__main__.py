"""The separate program behind `record --backend uprobe`: places probes, runs perf, removes the probes.

    python -m warpsight_plugins.uprobe --output FILE
        [--pid N [--duration S]] [--library PATH]… [--call-graph fp|dwarf] [-- CMD…]

It ends with the program's exit code. It removes only the probes of this run, even if it is interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpsight_plugins.uprobe import probes

_FIELDS = "comm,pid,tid,cpu,time,event,ip,sym,dso"


class _Refused(Exception):
    """Recording is impossible; the message explains why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one recording and return the exit code."""
    options = _options(list(sys.argv[1:] if argv is None else argv))
    group = f"warpsight{os.getpid()}"
    try:
        found = _targets(options)
        with _probes(group, found) as events:
            return _record(options, events)
    except _Refused as error:
        print(f"uprobe: {error}", file=sys.stderr)
        return 1


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="uprobe", description="Stacks of GPU runtime calls through perf's uprobes."
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--pid", type=int, default=0, help="a running process, with all its threads")
    parser.add_argument("--duration", type=float, default=0.0, help="seconds, with --pid")
    parser.add_argument(
        "--library", action="append", default=[], help="a file with the functions; repeatable"
    )
    parser.add_argument("--call-graph", default="fp", help="how perf walks stacks: fp or dwarf[,BYTES]")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    options.program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if bool(options.pid) == bool(options.program):
        parser.error("either --pid N or -- CMD")
    if options.duration and not options.pid:
        parser.error("--duration needs --pid: a program is recorded to its end")
    return options


def _targets(options: argparse.Namespace) -> dict[str, dict[str, int]]:
    for path in options.library:
        if not os.path.isfile(path):
            raise _Refused(f"--library {path}: there is no such file")
    if options.pid:
        try:
            paths = probes.libraries_of(options.pid)
        except FileNotFoundError:
            raise _Refused(f"there is no process {options.pid}") from None
        except PermissionError:
            raise _Refused(
                f"process {options.pid} cannot be inspected: run as root or as its owner"
            ) from None
    else:
        paths = probes.libraries_for(options.program)
    found = probes.targets(dict.fromkeys([*map(os.path.realpath, options.library), *paths]))
    if not found:
        what = f"process {options.pid} has" if options.pid else "the program links to"
        raise _Refused(
            f"{what} no library with CUDA's or HIP's functions; name one with --backend-args '--library PATH'"
        )
    return found


@contextlib.contextmanager
def _probes(group: str, found: dict[str, dict[str, int]]) -> Iterator[list[str]]:
    """Place probes on all functions and remove them at the end. Reports those that could not be placed."""
    folder = probes.tracefs()
    if folder is None:
        raise _Refused(
            "tracefs is missing or not writable: as root, mount -t tracefs nodev /sys/kernel/tracing"
        )
    events: list[str] = []
    failed: list[str] = []
    reason = ""
    try:
        for number, (path, functions) in enumerate(found.items()):
            for name, offset in functions.items():
                try:
                    _write_probe(folder, f"p:{group}_{number}/{name} {path}:{offset:#x}")
                    events.append(f"{group}_{number}:{name}")
                except OSError as error:
                    failed.append(f"{name} in {path}")
                    reason = error.strerror or str(error)
        if not events:
            raise _Refused(f"no probe could be placed: {reason}")
        _warn_missing(failed)
        yield [*events, *probes.tracepoints()[0]]
    finally:
        for event in events:
            with contextlib.suppress(OSError):
                _write_probe(folder, f"-:{event.replace(':', '/')}")


def _write_probe(folder: str, line: str) -> None:
    """Add or remove one probe."""
    descriptor = os.open(
        f"{folder}/uprobe_events", os.O_WRONLY | os.O_APPEND
    )  # a file object would seek, which fails
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


def _warn_missing(failed: list[str]) -> None:
    absent = probes.tracepoints()[1]
    if failed:
        print(f"uprobe: no probe on {', '.join(failed)}", file=sys.stderr)
    if absent:
        print(f"uprobe: tracepoints that cannot be opened here: {', '.join(absent)}", file=sys.stderr)


def _record(options: argparse.Namespace, events: list[str]) -> int:
    """Run perf record and perf script; the exit code of the program."""
    with tempfile.TemporaryDirectory(prefix="warpsight-") as folder:
        data, pid_file = os.path.join(folder, "perf.data"), os.path.join(folder, "pid")
        command = ["perf", "record", "-q", "-k", "mono", "--call-graph", options.call_graph, "-o", data]
        command += [a for event in events for a in ("-e", event)]
        if options.pid:
            command += ["-p", str(options.pid)]
            command += ["--", "sleep", f"{options.duration:g}"] if options.duration else []
        else:
            # A probe that perf opens for one process does not cover its children: probe all, and choose ours afterwards.
            command += ["-a", "--", "/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', pid_file, *options.program]
        child = subprocess.Popen(command)
        with _interrupting(child):
            code = child.wait()
        if not os.path.exists(data):
            raise _Refused(f"perf record left no data (it ended with code {code})")
        chosen = (
            []
            if options.pid
            else ["--pid", ",".join(map(str, _family(data, int(Path(pid_file).read_text()))))]
        )
        with options.output.open("wb") as out:
            script = subprocess.run(
                ["perf", "script", "-i", data, "--ns", "-F", _FIELDS, *chosen],
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
            )
        _warn_lost(data)
        if script.returncode:
            raise _Refused(f"perf script: {script.stderr.decode(errors='replace').strip()}")
    if not options.output.stat().st_size:
        options.output.unlink()
        raise _Refused("none of the functions was called")
    if options.pid:
        return 0
    return 128 - code if code < 0 else code


def _family(data: str, pid: int) -> list[int]:
    """A process and all its descendants."""
    text = subprocess.run(
        ["perf", "script", "-i", data, "--show-task-events", "-F", "pid"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = {pid}
    for child, parent in re.findall(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)", text):
        if int(parent) in found:
            found.add(int(child))
    return sorted(found)


def _warn_lost(data: str) -> None:
    lost = subprocess.run(
        ["perf", "report", "-i", data, "--stats", "--stdio"], capture_output=True, text=True, check=False
    )
    for line in lost.stdout.splitlines():
        if "LOST" in line:
            print(f"uprobe: perf lost data: {' '.join(line.split())}", file=sys.stderr)


@contextlib.contextmanager
def _interrupting(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let SIGINT and SIGTERM end perf's recording, which then keeps its data."""

    def stop(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
