"""Finding the recording that a process, a launcher or a folder belongs to."""

from __future__ import annotations

import os
from pathlib import Path

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder import output
from warpsight.recorder.environment import SOCKET


def socket_of(what: str) -> str:
    """The socket of the recording named by a process id (of a recorded process or its launcher) or by its folder.

    Raises:
        WarpsightError: when there is none, or it is not accessible.
    """
    path = Path(what)
    if what.isdigit() and not path.exists():
        return socket_of_process(int(what))
    if not path.is_dir():
        raise UsageError(f"{what} is neither a process id nor the folder of a recording")
    live = output.announced(path)
    if live is None or not live.alive():
        raise WarpsightError(f"{path} is not being recorded")
    return live.socket


def socket_of_process(pid: int) -> str:
    """The socket of the recording that a process belongs to.

    Raises:
        WarpsightError: when it does not exist, is not accessible, or is not recorded.
    """
    for candidate in (pid, *_children(pid)):
        found = environment(candidate).get(SOCKET)
        if found:
            return found
    raise WarpsightError(
        f"process {pid} is not recorded: neither it nor a child of it has {SOCKET} in its environment"
    )


def environment(pid: int) -> dict[str, str]:
    """The initial environment of a process.

    Raises:
        WarpsightError: when it does not exist or belongs to somebody else.
    """
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise WarpsightError(f"there is no process {pid}") from None
    except PermissionError:
        if os.geteuid() == 0:
            raise WarpsightError(f"process {pid} cannot be inspected, even by root: it is protected, or in another "
                                 "user namespace") from None  # fmt: skip
        raise WarpsightError(f"process {pid} is another user's: run this as its user or as root") from None
    pairs = (os.fsdecode(part).partition("=") for part in data.split(b"\0") if b"=" in part)
    return {name: value for name, _, value in pairs}


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except (OSError, ValueError):
        pass
    return found
