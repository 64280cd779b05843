"""Recording a running process: one started dormant, or CPython 3.14 and newer."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.recorder.drain import listener
from warpsight.recorder.environment import SOCKET
from warpsight.recorder.find import environment

_DORMANT = "WARPSIGHT"
_ANSWER_S = 15.0
#: sys.remote_exec came with this version.
_REMOTE_EXEC = (3, 14)
_SCRIPT = """import contextlib, ctypes, os
with contextlib.suppress(OSError): os.unlink({path!r})
os.environ.setdefault({variable!r}, {library!r})
ctypes.CDLL({library!r}).ws_start({socket!r})
"""


def _check_allowed(pid: int) -> None:
    """Refuse processes that could attack us: those of another user, because root would run files that the user can write.

    Neither could they connect: the recording's socket is for its own user.

    Raises:
        WarpsightError: when the process is gone, another user's, or changes users itself.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        users = {int(uid) for line in lines if line.startswith("Uid:") for uid in line.split()[1:]}
    except (FileNotFoundError, ProcessLookupError):
        raise WarpsightError(f"there is no process {pid}") from None
    if users != {os.geteuid()}:
        owner = next(iter(sorted(users - {os.geteuid()})))
        raise WarpsightError(
            f"process {pid} is another user's: attach as that user (sudo -u '#{owner}' warpsight attach {pid})"
        )


def _same_file_system(pid: int) -> bool:
    """Whether a process sees our files, not those of a container."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt") and os.path.samefile(
            f"/proc/{pid}/root", "/"
        )
    except OSError:
        return False


def door(pid: int) -> Path | None:
    """The socket on which a dormant process listens, or None."""
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
    inside = Path(f"/proc/{pid}/root/tmp/warpsight-attach-{owner}/{_inner_pid(pid)}")
    try:
        # no links: in a container they would lead to places outside of it
        own = stat.S_ISDIR(inside.parent.lstat().st_mode) and inside.parent.lstat().st_uid == owner
        return inside if own and stat.S_ISSOCK(inside.lstat().st_mode) else None
    except OSError:
        return None


def knock(path: Path, message: str) -> str:
    """Send a request to a dormant process; returns its answer.

    Raises:
        WarpsightError: when the process does not answer or refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, _short(path) as short:
            connection.settimeout(_ANSWER_S)
            connection.connect(short)
            connection.send(message.encode())
            answer = connection.recv(4096).decode("utf-8", "replace")
    except OSError as error:
        raise WarpsightError(
            f"the process does not answer at {path}: {(error.strerror or str(error)).lower()}"
        ) from None
    if not answer.startswith("ok"):
        raise WarpsightError(
            f"the process cannot be recorded: {answer.removeprefix('no ') or 'it gave no reason'}"
        )
    return answer.removeprefix("ok").strip()


@contextlib.contextmanager
def _short(path: Path):  # type: ignore[no-untyped-def]
    """A socket name short enough for an address, which holds 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def start(pid: int, launcher: str) -> str:
    """Make a process connect to the launcher listening on a socket; returns the method used.

    Raises:
        WarpsightError: when that is impossible; the message says what would make it possible.
    """
    _check_allowed(pid)
    waiting = door(pid)
    if waiting is not None:
        knock(waiting, f"record 1 {launcher}")
        return "it was started dormant"
    version = python_version(pid)
    if version is None:
        raise WarpsightError(_advice(pid, "it was not started with the recorder in it"))
    if version < _REMOTE_EXEC:
        found = ".".join(map(str, version))
        raise WarpsightError(
            _advice(pid, f"its Python is {found}, and other processes can run code in it only from 3.14 on")
        )
    if not _same_file_system(pid):
        raise WarpsightError(_advice(pid, "it runs in a container: attach from inside it"))
    remote_exec(pid, launcher)
    return "through sys.remote_exec"


def launcher_of(pid: int) -> str:
    """The socket of the recording that a process was attached to.

    Raises:
        WarpsightError: when it is not being recorded.
    """
    waiting = door(pid)
    if waiting is not None:
        found = knock(waiting, "status 1")
    else:
        try:
            word = _word(pid)
            found = os.readlink(word) if word.parent.lstat().st_uid == os.geteuid() else ""
        except OSError:
            found = ""
    if not found or not listener.reachable(found):
        raise WarpsightError(f"process {pid} is not attached to a recording")
    return found


def detach(pid: int) -> Path:
    """End the recording of a process, and return the folder with its rows.

    Raises:
        WarpsightError: when it is not recorded.
    """
    launcher = environment(pid).get(SOCKET)
    if not (launcher and listener.reachable(launcher)):
        launcher = launcher_of(pid)
    return Path(listener.ask(launcher, {"do": "detach", "pid": pid}, 30)["folder"])


def python_version(pid: int) -> tuple[int, int] | None:
    """Version of the CPython in a process, by the name of its library or executable, or None."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"/(?:lib)?python3\.(\d+)[^/\s]*$", text, re.MULTILINE)
    return (3, int(match[1])) if match else None


def remote_exec(pid: int, launcher: str) -> None:
    """Run the few lines that start a recording inside CPython 3.14 or newer, through its remote execution.

    They run when its main thread next reaches a call or a loop in Python.

    Raises:
        WarpsightError: when the interpreter refuses.
    """
    library = str(_native.library_path())
    with tempfile.NamedTemporaryFile("w", prefix="warpsight-attach-", suffix=".py", delete=False) as file:
        path = Path(file.name)
        file.write(
            _SCRIPT.format(
                path=str(path), variable=_native.ENVIRONMENT, library=library, socket=launcher.encode()
            )
        )
    try:
        code = f"import sys; sys.remote_exec({pid}, {str(path)!r})"
        # both sides must be of the same version: its own executable is
        done = subprocess.run(
            [f"/proc/{pid}/exe", "-I", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
        why = (done.stderr.strip().splitlines() or ["no reason"])[-1] if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        why = str(error)
    if why:
        path.unlink(missing_ok=True)
        raise WarpsightError(f"sys.remote_exec in process {pid} failed: {why}")


def announce(pid: int, launcher: str) -> Path | None:
    """Leave a note that tells `detach` where a process without its own socket is recorded; :func:`withdraw` removes it."""
    if door(pid) is not None:
        return None
    place = _word(pid)
    with contextlib.suppress(OSError):  # then only Ctrl-C and the process's end detach it
        place.parent.mkdir(mode=0o700, exist_ok=True)
        made = place.parent.lstat()
        if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid():  # somebody else was first
            return None
        place.unlink(missing_ok=True)
        place.symlink_to(launcher)
        return place
    return None


def withdraw(place: Path | None) -> None:
    """Remove the note left by :func:`announce`."""
    if place is not None:
        place.unlink(missing_ok=True)


def _word(pid: int) -> Path:
    return Path(f"/tmp/warpsight-attach-{os.geteuid()}/{pid}.launcher")


def _inner_pid(pid: int) -> int:
    """The process's own pid inside its PID namespace."""
    try:
        line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("NSpid:"))
        return int(line.split()[-1])
    except (OSError, StopIteration, ValueError):
        return pid


def _advice(pid: int, why: str) -> str:
    library = _native.library_path() or "libwarpsight.so"
    environment(
        pid
    )  # separates a process that does not exist, or is not ours, from one that cannot be attached to
    return (f"process {pid} cannot be attached to: {why}. Programs started with {_DORMANT}=dormant and "
            f"CUDA_INJECTION64_PATH={library} in the environment wait for it, at no cost")  # fmt: skip
