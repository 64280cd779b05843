"""`python -m warpsight.recorder.inspect PID…`: the state of every thread of those processes, as JSON on standard output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.model.sharing import secrets
from warpsight.recorder.inspect.native_stacks import NotTraceable, Unwinder
from warpsight.recorder.inspect.python_stacks import PythonStacks


def main(arguments: list[str]) -> int:
    """Look at the processes named."""
    pids = [int(argument) for argument in arguments]
    missing, frames = _python(pids)
    json.dump([_process(pid, missing[pid], frames) for pid in pids], sys.stdout)
    return 0


def _python(pids: list[int]) -> tuple[dict[int, str], dict[Any, Any]]:
    """The Python stacks of a process, and the reason if some are missing."""
    try:
        python = PythonStacks()
        return {pid: python.sample(pid) for pid in pids}, python.stacks()
    except (WarpsightError, OSError) as error:
        return dict.fromkeys(pids, str(error)), {}


def _process(pid: int, no_python: str, frames: dict[Any, Any]) -> dict[str, Any]:
    folder = Path(f"/proc/{pid}")
    unwinder = Unwinder(pid)
    threads = []
    for task in sorted(_tasks(folder), key=lambda path: int(path.name)):
        thread = _thread(task)
        chain, gil = frames.get((pid, thread["thread"]), ([], False))
        thread |= {"python": [_shown(asdict(frame)) for frame in chain], "gil": gil}
        try:
            thread["native"] = [_shown(asdict(frame)) for frame in unwinder.stack(thread["thread"])]
        except NotTraceable as error:
            thread |= {"native": [], "problem": str(error)}
        threads.append(thread)
    command = " ".join(secrets.arguments(_read(folder / "cmdline").split("\0"))).strip()
    return {"pid": pid, "command": command, "no_python": no_python, "threads": threads}


def _shown(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame with secrets removed, since paths may contain some."""
    return {
        key: secrets.secretless(value) if isinstance(value, str) else value for key, value in frame.items()
    }


def _thread(task: Path) -> dict[str, Any]:
    fields = _read(task / "stat").rpartition(")")[2].split()
    cpu = sum(map(int, fields[11:13])) if len(fields) > 12 else 0
    return {"thread": int(task.name), "name": _read(task / "comm").strip(), "state": fields[0] if fields else "?",
            "cpu_ticks": cpu, "kernel": _read(task / "wchan").strip()}  # fmt: skip


def _tasks(folder: Path) -> list[Path]:
    try:
        return list((folder / "task").iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
