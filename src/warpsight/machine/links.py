"""Bandwidth between host and devices and between devices, measured with copies and stored for the analyses."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.machine.cuda import cuda_driver
from warpsight.machine.cuda.cuda_session import CudaSession
from warpsight.machine.opencl_session import OpenclSession

_COPY_BYTES = 64 << 20
_REPEATS = 8


@dataclass(frozen=True)
class Link:
    """One direction of a path. `memory` is the host side's kind: pinned, pageable, or device."""

    platform: str
    source: str
    destination: str
    memory: str
    bytes: int
    bytes_per_second: float

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return asdict(self)


def _results_path() -> Path:
    """The file for results, in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsight" / "links.json"


def measure(size: int = _COPY_BYTES, platform: str = "auto") -> list[Link]:
    """Measure every path of a platform: cuda, opencl, or auto for the best one on this machine.

    Raises:
        WarpsightError: when there is no device.
    """
    if platform == "auto":
        platform = "cuda" if cuda_driver.devices() else "opencl"
    return _cuda_links(size) if platform == "cuda" else _opencl_links(size)


def keep(links: list[Link], path: Path | None = None) -> Path:
    """Write results for later analyses and return the file's path."""
    target = path or _results_path()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    document = {
        "time": int(time.time()),
        "host": os.uname().nodename,
        "links": [link.to_json() for link in links],
    }
    partial = target.with_suffix(".part")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(document, file, indent=1)
    partial.replace(target)
    return target


def kept(path: Path | None = None) -> list[Link]:
    """The results of the last measurement, or empty."""
    try:
        document = json.loads((path or _results_path()).read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise WarpsightError(
            f"{path or _results_path()} cannot be read ({error}); run warpsight bench --links again"
        ) from error
    return [Link(**link) for link in document["links"]]


def _rate(copy: Callable[[], None], wait: Callable[[], None], size: int) -> float:
    """Bytes per second: the best of several copies after a warm-up."""
    copy()
    wait()
    best = float("inf")
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        copy()
        wait()
        best = min(best, time.perf_counter() - begin)
    return size / best


def _opencl_links(size: int) -> list[Link]:
    session = OpenclSession()
    host, one, other = ctypes.create_string_buffer(size), session.buffer(size), session.buffer(size)
    name = session.device.name
    paths = [
        ("host", name, "pageable", lambda: session.write(one, host, size)),
        (name, "host", "pageable", lambda: session.read(one, host, size)),
        (name, name, "device", lambda: session.copy(one, other, size)),
    ]
    return [Link("opencl", a, b, kind, size, _rate(copy, session.finish, size)) for a, b, kind, copy in paths]


def _cuda_links(size: int) -> list[Link]:
    cuda_driver.require()
    found: list[Link] = []
    sessions = [CudaSession(d.ordinal) for d in cuda_driver.devices()]
    names = [d.uuid for d in cuda_driver.devices()]
    memories = []
    for session in sessions:
        session.enter()
        memories.append(session.allocate(size))
        found += _host_links(session, names[session.ordinal], memories[-1], size)
    for a in sessions:
        for b in sessions:
            if a is not b:
                found.append(_peer_link(a, b, names, memories, size))
    for session, memory in zip(sessions, memories, strict=True):
        session.enter()
        session.free(memory)
        session.close()
    return found


def _host_links(session: CudaSession, name: str, memory: ctypes.c_uint64, size: int) -> list[Link]:
    found, count = [], ctypes.c_size_t(size)
    pinned, other = session.pinned(size), session.allocate(size)
    pageable = ctypes.create_string_buffer(size)
    for kind, host in (("pinned", pinned), ("pageable", pageable)):
        paths: list[tuple[str, str, Callable[[], None]]] = [
            ("host", name, lambda host=host: session.do("cuMemcpyHtoD_v2", memory, host, count)),  # type: ignore[misc]
            (name, "host", lambda host=host: session.do("cuMemcpyDtoH_v2", host, memory, count)),  # type: ignore[misc]
        ]
        found += [
            Link("cuda", a, b, kind, size, _rate(copy, session.synchronize, size)) for a, b, copy in paths
        ]
    rate = _rate(lambda: session.do("cuMemcpyDtoD_v2", other, memory, count), session.synchronize, size)
    session.free(other)
    session.do("cuMemFreeHost", pinned)
    return [*found, Link("cuda", name, name, "device", size, rate)]


def _peer_link(a: CudaSession, b: CudaSession, names: list[str], memories: list[Any], size: int) -> Link:
    """One direction between two devices; direct if the hardware allows, otherwise through the host."""
    direct = ctypes.c_int()
    a.do("cuDeviceCanAccessPeer", ctypes.byref(direct), a.ordinal, b.ordinal)
    a.enter()
    if direct.value:
        cuda_driver_library = cuda_driver.library()
        assert cuda_driver_library is not None
        cuda_driver_library.cuCtxEnablePeerAccess(b.context, 0)  # "already enabled" is fine

    def copy() -> None:
        a.do(
            "cuMemcpyPeer",
            memories[b.ordinal],
            b.context,
            memories[a.ordinal],
            a.context,
            ctypes.c_size_t(size),
        )

    rate = _rate(copy, a.synchronize, size)
    return Link(
        "cuda", names[a.ordinal], names[b.ordinal], "peer" if direct.value else "through host", size, rate
    )
