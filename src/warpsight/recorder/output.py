"""The folder a recording is written to: private, never through links, never replacing anything by accident."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from warpsight.errors import UsageError, WarpsightError
from warpsight.model.storage import manifest

RECORDING = "recording.json"
RAW = "raw"


class OutputError(WarpsightError):
    """The output folder cannot be made or used."""


@dataclass(frozen=True)
class _RecordingOwner:
    """Who writes a recording: the content of `recording.json`."""

    pid: int
    #: Start time of that process in clock ticks since boot: distinguishes reused process ids.
    ticks: int
    boot: str
    socket: str
    #: Identity of the job the recording belongs to (torchrun, Slurm, MPI); empty outside of one.
    job: str
    start: float
    #: The folder in memory with the arenas of the recorded processes, or empty.
    arenas: str = ""

    def alive(self) -> bool:
        """Whether that process still runs on this machine."""
        return self.boot == boot_id() and self.ticks == process_ticks(self.pid)


def create(path: Path, *, force: bool = False) -> Path:
    """Create an empty folder for a recording (mode 0700) with `raw/` in it, and return its absolute path.

    Raises:
        OutputError: when it exists without `force`, may not be replaced, lies in a trace, or cannot be created.
        UsageError: when the path is empty.
    """
    if not path.name:
        raise UsageError(f"{str(path)!r} is not a name for an output folder")
    _check_parent(path.parent)
    if (trace := manifest.around(path)) is not None:
        raise OutputError(
            f"{path} is in the trace {trace.name}, which holds its own files only: choose another folder with -o"
        )
    if _exists(path):
        _replace(path, force)
    try:
        path.mkdir(mode=0o700)
        (path / RAW).mkdir(mode=0o700)
    except OSError as error:
        raise OutputError(f"{path} cannot be created: {_reason(error)}") from None
    return path.absolute()


def create_file(path: Path, *, force: bool) -> Path:
    """Create an empty file next to a recording (mode 0600), and return its absolute path.

    Raises:
        OutputError: when it exists without `force`, is a link or not a regular file, or cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if force else flags | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OutputError(f"{path} exists; -f replaces it") from None
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else _reason(error)
        raise OutputError(f"{path} cannot be written: {why}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OutputError(f"{path} is not a regular file; choose another name")
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
    return path.absolute()


def announce(folder: Path, socket: str, job: str, arenas: Path | None = None) -> None:
    """Write `recording.json`, which announces that this process records into the folder."""
    pid = os.getpid()
    shared = os.fsdecode(arenas) if arenas is not None else ""
    record = _RecordingOwner(pid, process_ticks(pid), boot_id(), socket, job, time.time(), shared)
    try:
        manifest.write_json(folder / RECORDING, asdict(record))
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {_reason(error)}") from None


def announced(folder: Path) -> _RecordingOwner | None:
    """The process that records into a folder, or None."""
    try:
        return _RecordingOwner(**json.loads((folder / RECORDING).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _is_recording(folder: Path) -> bool:
    """Whether a folder is a trace or an unfinished recording, rather than something of the user's."""
    return any((folder / name).exists() for name in (manifest.FILE, RECORDING, RAW))


def boot_id() -> str:
    """An id of this boot of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_ticks(pid: int) -> int:
    """The start of a process in clock ticks since boot; 0 without one (or for a zombie)."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # a program's name may be any bytes
    except OSError:
        return 0
    parts = line.rpartition(")")[2].split()
    return 0 if parts[0] in "ZX" else int(parts[19])


def _exists(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(f"{path} cannot be used: {_reason(error)}") from None
    if stat.S_ISLNK(mode):
        raise OutputError(
            f"{path} is a symbolic link; recordings are not written through links: remove it or use another name"
        )
    return True


def _check_parent(parent: Path) -> None:
    if not parent.exists():
        raise OutputError(f"{parent} does not exist; make it first: mkdir -p {parent}")
    if not parent.is_dir():
        raise OutputError(f"{parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        try:
            read_only = bool(os.statvfs(parent).f_flag & os.ST_RDONLY)
        except OSError:
            read_only = False
        why = "its file system is read-only" if read_only else "permission denied"
        raise OutputError(f"{parent} cannot be written ({why}); choose another place with -o")


def _replace(path: Path, force: bool) -> None:
    live = announced(path) if path.is_dir() else None
    if live is not None and live.alive():
        raise OutputError(
            f"{path} is being recorded by process {live.pid}; wait for it or use another name with -o"
        )
    if not path.is_dir() or (any(path.iterdir()) and not _is_recording(path)):
        raise OutputError(f"{path} exists and is not a trace; remove it or choose another name with -o")
    if not force:
        raise OutputError(f"{path} exists; -f replaces it, -o chooses another name")
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be replaced: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "its file system is read-only; choose another place with -o"
    if error.errno == errno.ENOSPC:
        return "no space left on the device; choose another place with -o"
    return (error.strerror or str(error)).lower()


def discard(folder: Path) -> None:
    """Remove the folder of a recording that never began."""
    shutil.rmtree(folder, ignore_errors=True)
