"""Completing a recording that its launcher left unfinished: the segments in `raw` become a trace."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warpsight.capture import arena_files
from warpsight.capture.converter import Converter
from warpsight.errors import TraceError
from warpsight.model import private_files
from warpsight.model.storage import manifest


def recover(root: Path, progress: Callable[[int], None] = lambda kernels: None) -> dict[str, Any]:
    """Convert the rest of a recording and complete its trace; returns the converter's summary.

    Repeating it, even after an interruption, gives the same trace: converted rows are not converted again.

    Raises:
        TraceError: when there is nothing to recover, or the recording is still being written.
        OSError: when the trace cannot be written; nothing is lost, and it can be tried again.
    """
    raw = root / "raw"
    if (root / manifest.FILE).is_file():
        content = manifest.read(root)
        shutil.rmtree(raw, ignore_errors=True)  # a crash between the manifest and the clean-up
        (root / "recording.json").unlink(missing_ok=True)
        return {"rows": content.get("rows", {}), "loss": content.get("loss", []), "recovered": False}
    if not raw.is_dir():
        raise TraceError(f"{root} is not a recording: it has neither {manifest.FILE} nor raw data")
    private_files.check_plain(root)
    _check_ended(root)
    in_memory = _adopt(root)
    converter = Converter(root)
    try:
        progress(converter.convert(enough_bytes=0)["kernels"])
        note = {
            "source": "launcher",
            "cause": "the launcher ended before the trace was complete; it was recovered",
            "severity": "note",
        }
        return {
            **converter.finish(
                processes=_unknown_ends(raw), loss=[note, *in_memory], settings=_settings(root)
            ),
            "recovered": True,
        }
    finally:
        converter.close()


def _check_ended(root: Path) -> None:
    """Refuse while the launcher runs, or while a program that outlived it is still writing."""
    pid = _recording(root).get("pid")
    if isinstance(pid, int) and _is_recorder(pid):
        raise TraceError(f"{root} is still being recorded by process {pid}; stop that first")
    for writer in _writers(root / "raw"):
        raise TraceError(
            f"{root} is still being written by process {writer}, which outlived its launcher; "
            "wait for it to end"
        )


def _adopt(root: Path) -> list[dict[str, Any]]:
    """Write the rows that launcher and programs still had in memory when they exited; note a loss if that fails."""
    recording = _recording(root)
    arenas = recording.get("arenas")
    if isinstance(arenas, str) and arenas:
        arena_files.adopt(Path(arenas), root / "raw")
        _remove_socket(recording.get("socket"), arenas)
    if arenas != "":
        return []
    cause = (
        "there was no space in memory that outlives a process: the last rows of a process that was killed with "
        "the launcher are missing"
    )
    return [{"source": "launcher", "cause": cause, "severity": "lost"}]


def _remove_socket(path: object, arenas: str) -> None:
    """Remove the socket of a dead launcher, and its folder, which has a link to the recording's arenas."""
    if not isinstance(path, str):
        return
    with contextlib.suppress(OSError, ValueError):
        link = Path(path).with_name("arenas")
        if os.readlink(link) == arenas and link.lstat().st_uid == os.geteuid() and Path(path).is_socket():
            Path(path).unlink()
            link.unlink()
            link.parent.rmdir()


def _recording(root: Path) -> dict[str, Any]:
    try:
        content = json.loads((root / "recording.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _settings(root: Path) -> dict[str, Any]:
    settings = _recording(root).get("settings")
    return settings if isinstance(settings, dict) else {}


def _is_recorder(pid: int) -> bool:
    """Whether the process is still running and is warpsight, not another one that reused its pid."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"warpsight" in command and pid != os.getpid()


def _writers(raw: Path) -> Iterator[int]:
    """Processes that have a segment file open for writing."""
    opened = {str(path.resolve()) for path in raw.glob("*/*.open")}
    if not opened:
        return
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if int(process.name) != os.getpid() and opened.intersection(links):
            yield int(process.name)


def _unknown_ends(raw: Path) -> list[dict[str, Any]]:
    return [{"arena": folder.name, "exit": "unknown"} for folder in raw.iterdir() if folder.is_dir()]
