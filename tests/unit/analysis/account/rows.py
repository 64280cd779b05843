"""Rows of hand-written traces, and pieces of idle time as tests read them. Times in µs where a name says so."""

from __future__ import annotations

from typing import Any

from warpsight.analysis.account import Account, account
from warpsight.analysis.account.classes import CLASSES
from warpsight.model import StoredTrace
from warpsight.model.selection import Rows

US = 1_000
THREAD = 100


def call(start: int, duration: int | None, function: str, **more: Any) -> dict[str, Any]:
    """A row of table api by thread 100 of process 0."""
    return {
        "start": start,
        "duration": duration,
        "function": function,
        "thread": THREAD,
        "process": 0,
        **more,
    }


def marker(start: int, duration: int, name_id: int, **more: Any) -> dict[str, Any]:
    """A range that a person put around code of thread 100."""
    return {"start": start, "duration": duration, "kind": "push/pop", "open": False, "name_id": name_id, "source": "nvtx",
            "thread": THREAD, "process": 0, **more}  # fmt: skip


def operator(start: int, duration: int, name_id: int, **more: Any) -> dict[str, Any]:
    """An operator of a framework, on thread 100."""
    return {"start": start, "duration": duration, "name_id": name_id, "thread": THREAD, "process": 0, **more}


def sample(time: int, stack: int, thread: int = THREAD, **more: Any) -> dict[str, Any]:
    """A sample of a thread's stack."""
    return {"time": time, "thread": thread, "stack": stack, "state": "R", "gil": True, "process": 0, **more}


def sync(start: int, duration: int, kind: str, **more: Any) -> dict[str, Any]:
    """A row of table sync."""
    return {
        "start": start,
        "duration": duration,
        "kind": kind,
        "context": 1,
        "stream": 7,
        "process": 0,
        **more,
    }


def overhead(start: int, duration: int, kind: str, **more: Any) -> dict[str, Any]:
    """A row of table overhead."""
    return {"start": start, "duration": duration, "kind": kind, "process": 0, **more}


def frame(function: str, file: str, line: int) -> tuple[Any, ...]:
    """A Python frame of a stack."""
    return (function, file, line, None, "python", None)


def pieces(trace: StoredTrace, rows: Rows = Rows()) -> list[tuple[str, str, int, int]]:
    """The pieces of idle time in order of time: class, name, begin, end; the host's own time has no name here."""
    found = account(trace, rows)
    return listed(found)


def listed(found: Account) -> list[tuple[str, str, int, int]]:
    """The pieces of an account's idle time in order of time."""
    parts = found.pieces
    out = [
        (CLASSES[parts.kind[i]], parts.names[parts.name[i]], int(parts.begin[i]), int(parts.end[i]))
        for i in range(len(parts))
    ]
    return sorted(out, key=lambda piece: (piece[2], piece[3], piece[0]))


def entries(trace: StoredTrace, *classes: str) -> dict[tuple[str, str], int]:
    """Time of each row of the account of some classes (all by default)."""
    return {
        (e.class_name, e.name): e.time
        for e in account(trace).entries
        if not classes or e.class_name in classes
    }
