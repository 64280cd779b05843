"""Queries a vendor's tool: an argument vector, a time limit, no output on any error."""

from __future__ import annotations

import json
import shutil
import subprocess

SECONDS = 10.0


def output(program: str, *arguments: str) -> str | None:
    """A program's output; None if it is not installed, fails, or takes over ten seconds."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def document(program: str, *arguments: str) -> object:
    """The JSON a program prints, or None. Text before the document (warnings) is skipped."""
    text = output(program, *arguments)
    if text is None:
        return None
    begin = min((place for sign in "{[" if (place := text.find(sign)) >= 0), default=-1)
    try:
        return json.loads(text[begin:]) if begin >= 0 else None
    except ValueError:
        return None


def installed(*programs: str) -> bool:
    """Whether one of these programs is on PATH."""
    return any(shutil.which(program) for program in programs)


def missing(there: bool, readable: bool, unknown: str, *programs: str) -> str | None:
    """Why the devices, or the facts in `unknown` that a vendor's program reports, are not known."""
    if installed(*programs):
        return None
    absent = (
        f"{programs[0]} is not installed"
        if len(programs) == 1
        else f"neither {' nor '.join(programs)} is installed"
    )
    if not readable:
        return f"not looked for: no sysfs here, and {absent}"
    return f"{unknown} are not known: {absent}" if there else None
