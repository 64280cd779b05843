"""GPU core dumps: arming them, finding the driver's pipe in a process, requesting a dump, detecting when it is complete.

Variables, defaults and flags are described in CUDA-GDB's documentation and cuda.h (CUcoredumpSettings).
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warpsight import _native
from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.find import environment as environment_of

MEMORY = ("none", "stack", "shared", "all")
_PIPE, _FILE, _FLAGS = "CUDA_COREDUMP_PIPE", "CUDA_COREDUMP_FILE", "CUDA_COREDUMP_GENERATION_FLAGS"
_ON_EXCEPTION, _ON_REQUEST = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"
_PROGRESS = "CUDA_COREDUMP_SHOW_PROGRESS"
_SKIP = {"none": ("global", "shared", "local", "constbank"), "stack": ("global", "shared", "constbank"),
         "shared": ("global", "constbank"), "all": ()}  # fmt: skip
_DEFAULT_PIPES = ("corepipe.cuda.{host}.{pid}", "corepipe.{host}.{pid}")
_DEFAULT_FILES = ("core.cuda.{host}.{pid}", "core_*_{host}_{pid}.nvcudmp")
#: Room for the dump that must be free: registers and code of a full device; with all memory, the device's.
_LEAST_FREE = 512 << 20
_SETTLE_S = 0.3
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class _Armed:
    """Variables that arm a program, and notes about them."""

    variables: dict[str, str]
    notes: tuple[str, ...]


def arm(base: Mapping[str, str], folder: Path, memory: str, *, on_request: bool) -> _Armed:
    """Variables that direct a program's dumps to `folder`. Values set by the user take precedence.

    Raises:
        UsageError: for a template in the folder's own name, for which the driver would create neither folder nor file.
        WarpsightError: when there is no disk space for a dump.
    """
    if "%" in str(folder):
        raise UsageError(f"--dump-dir {folder}: the driver would take the % in it as a template")
    wanted = {_ON_EXCEPTION: "1", _PROGRESS: "1", _FILE: str(folder / "core.%h.%p.%t"),
              _FLAGS: ",".join(["skip_nonrelocated_elf_images", *(f"skip_{part}_memory" for part in _SKIP[memory])])}  # fmt: skip
    if on_request:
        wanted |= {_ON_REQUEST: "1", _PIPE: str(folder / "pipe.%h.%p.%t")}
    own = [name for name in wanted if base.get(name)]
    notes = [f"{name}={base[name]} of your environment is kept" for name in own]
    if base.get(_ON_EXCEPTION) == "0":
        notes.append("no dump will be written at an exception, as your environment says")
    free = shutil.disk_usage(folder).free
    needed = _LEAST_FREE * (64 if memory == "all" else 1)
    if free < needed:
        notes.append(f"only {free >> 20} MB are free for dumps in {folder}; one may need {needed >> 20} MB")
    if free < 16 << 20:
        raise WarpsightError(
            f"{folder} has {free >> 20} MB left: no dump fits; choose another place with --dump-dir"
        )
    return _Armed({name: value for name, value in wanted.items() if name not in own}, tuple(notes))


def preload(base: Mapping[str, str]) -> dict[str, str]:
    """The variable that makes launches be recorded without CUPTI; empty if this installation lacks the library.

    The driver takes no core dumps of a process that uses CUPTI, and everything else is recorded with CUPTI.
    """
    library = _native.library_path()
    path = library.with_name("libwarpsight_preload.so") if library is not None else None
    if path is None or not path.is_file():
        return {}
    return {"LD_PRELOAD": ":".join(filter(None, (base.get("LD_PRELOAD", ""), str(path))))}


def expanded(template: str, pid: int) -> str:
    """A driver's template as a glob pattern for one process: %h host, %p pid, %t time."""
    pieces = re.split(r"(%[hpt])", template)
    known = {"%h": glob.escape(socket.gethostname()), "%p": str(pid), "%t": "*"}
    return "".join(known.get(piece, glob.escape(piece)) for piece in pieces)


def file_template(environment: Mapping[str, str]) -> str:
    """The absolute template of dumps for a program started here with an environment; empty if dumps are not armed."""
    if environment.get(_ON_EXCEPTION) != "1" and environment.get(_ON_REQUEST) != "1":
        return ""
    return str(Path.cwd() / (environment.get(_FILE) or "core.cuda.%h.%p"))


def any_process(template: str) -> str:
    """A template as a glob pattern that matches any process."""
    pieces = re.split(r"(%[hpt])", template)
    known = {"%h": glob.escape(socket.gethostname()), "%p": "*", "%t": "*"}
    return "".join(known.get(piece, glob.escape(piece)) for piece in pieces)


def pipe_of(pid: int) -> Path | None:
    """The pipe that the driver reads in a process, if this process can open it, or None.

    It is opened through the process's descriptor, because its name contains a time and may meanwhile belong to another file.
    """
    names = _patterns(pid, _PIPE, _DEFAULT_PIPES)
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)
            if not target.startswith("/") or not stat.S_ISFIFO(descriptor.stat().st_mode):
                continue
        except OSError:
            continue
        if any(re.fullmatch(_as_regex(os.path.basename(name)), os.path.basename(target)) for name in names):
            return descriptor
    return None


def file_patterns(pid: int) -> list[str]:
    """Glob patterns of a process's dumps; only known while it is alive."""
    return _patterns(pid, _FILE, _DEFAULT_FILES)


def existing(patterns: list[str]) -> list[Path]:
    """The dumps that exist."""
    return sorted(path for path in _existing(patterns) if path.is_file())


def _patterns(pid: int, variable: str, defaults: tuple[str, ...]) -> list[str]:
    """Glob patterns of absolute paths."""
    try:
        template = environment_of(pid).get(variable)
        folder = os.readlink(f"/proc/{pid}/cwd")
    except (WarpsightError, OSError):
        return []
    if template:
        return [expanded(template if template.startswith("/") else f"{folder}/{template}", pid)]
    host = glob.escape(socket.gethostname())
    return [f"{glob.escape(folder)}/{name.format(host=host, pid=pid)}" for name in defaults]


def _as_regex(pattern: str) -> str:
    return "".join(
        ".*" if part == "*" else re.escape(part)
        for part in re.split(r"(\*)", re.sub(r"\[(.)\]", r"\1", pattern))
    )


@dataclass
class CoreDump:
    """The result of asking one process for a dump."""

    pid: int
    path: Path | None = None
    problem: str = ""
    seconds: float = 0.0
    progress: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """For the report."""
        return {"pid": self.pid, "path": str(self.path) if self.path else None, "problem": self.problem or None,
                "seconds": round(self.seconds, 3)}  # fmt: skip


def take(pid: int, seconds: float, say: Callable[[str], None]) -> CoreDump:
    """Ask the driver in a process for a dump and wait until it is complete. This kills the running kernels.

    `say` gets the progress as the file's growth, because the driver's own lines go to the program's standard error.
    """
    dump = CoreDump(pid)
    pipe = pipe_of(pid)
    if pipe is None:
        dump.problem = ("the driver listens on no pipe in it: it was not started with CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, "
                        "or has made no CUDA context")  # fmt: skip
        return dump
    files = _patterns(pid, _FILE, _DEFAULT_FILES)
    before = set(_existing(files))
    began = time.monotonic()
    if problem := _write_byte(pipe):
        dump.problem = problem
        return dump
    _await(dump, files, before, began, seconds, say)
    dump.seconds = time.monotonic() - began
    return dump


def _write_byte(pipe: Path) -> str:
    """Write one byte, which is the request; returns an empty string or the error."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return f"nobody reads {pipe}: the driver's thread is gone"
        return f"{pipe} cannot be written: {(error.strerror or str(error)).lower()}"
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return f"{pipe} is no longer a pipe"
        os.write(descriptor, b"1")
    except OSError as error:
        return f"{pipe} cannot be written: {(error.strerror or str(error)).lower()}"
    finally:
        os.close(descriptor)
    return ""


def _existing(patterns: list[str]) -> list[Path]:
    return [Path(path) for pattern in patterns for path in glob.glob(pattern) if not os.path.islink(path)]


def _await(
    dump: CoreDump,
    files: list[str],
    before: set[Path],
    began: float,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    shown_at, size, since = 0, -1, began
    while time.monotonic() - began < seconds:
        new = [path for path in _existing(files) if path not in before]
        if new:
            dump.path = new[-1]
            now = dump.path.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
                if now - shown_at > 32 << 20:
                    shown_at = now
                    say(f"GPU core dump of process {dump.pid}: {now >> 20} MB so far")
            elif complete(dump.path) and time.monotonic() - since > _SETTLE_S:
                return
        if not Path(f"/proc/{dump.pid}").exists() and time.monotonic() - since > 1:
            break
        time.sleep(0.02)
    if dump.path is None:
        dump.problem = f"the driver wrote no dump within {seconds:g} s"
    elif not complete(dump.path):
        dump.problem = f"the dump was not complete after {seconds:g} s; the part written so far is kept"


def complete(path: Path) -> bool:
    """Whether an ELF file is complete up to the end of its section table, which the driver writes last."""
    try:
        with path.open("rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:4] != _ELF:
                return False
            (table,) = struct.unpack_from("<Q", header, 40)
            entry, count = struct.unpack_from("<2H", header, 58)
            if not table:
                return False
            if count == 0:  # more than 65,279 sections: the first header holds the count
                file.seek(table)
                first = file.read(64)
                count = struct.unpack_from("<Q", first, 32)[0] if len(first) == 64 else 0
            return bool(count > 0 and os.fstat(file.fileno()).st_size >= table + entry * count)
    except OSError:
        return False


def compress(path: Path) -> Path:
    """Replace a dump by FILE.gz; returns it.

    Raises:
        OSError: when it cannot be written; the dump is kept.
    """
    import gzip

    target = path.with_name(path.name + ".gz")
    target.unlink(missing_ok=True)  # never through a link that somebody left there
    private = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with (
        path.open("rb") as source,
        os.fdopen(private, "wb") as file,
        gzip.open(file, "wb", compresslevel=1) as packed,
    ):
        shutil.copyfileobj(source, packed, 1 << 20)
    path.unlink()
    return target
