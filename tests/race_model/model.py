"""The race detector of the device on this machine: its core compiled for the host, which takes events one by one."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from warpsight.formats.events.kinds import BY_NAME, CHECKED
from warpsight.sass.events.trace import EventTrace, TracedLaunch

NATIVE = Path(__file__).parents[2] / "native"
SOURCES = (Path(__file__).with_name("model.cpp"), NATIVE / "sanitizer" / "code_facts.cpp")
ATOMIC, PROXY_FENCE, COPY, BULK = 1 << 13, 1 << 18, 1 << 19, 2 << 19
BLOCK, DEVICE = 1, 2
_BULK = ("bulk_load", "bulk_store", "bulk_reduce")


def facts(
    site: int = 0, scope: int = 0, releases: int = 0, acquires: int = 0, more: int = 0, arrives: Sequence[int] = ()
) -> int:  # fmt: skip
    """The word of an instruction (native/sanitizer/race_layout.h)."""
    behind = sum(1 << (20 + barrier) for barrier in arrives)
    return site | scope << 11 | releases << 14 | acquires << 16 | more | behind


class _Told(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("address", "count")),
        *((name, ctypes.c_uint32) for name in ("reason", "earlier_site", "site", "earlier_block", "earlier_thread", "block",
                                               "thread", "shared")),
    )  # fmt: skip


@dataclass(frozen=True)
class Told:
    """A race as the device would tell it."""

    address: int
    count: int
    reason: int
    earlier_site: int
    site: int
    earlier_block: int
    earlier_thread: int
    block: int
    thread: int
    shared: bool


def library(folder: Path) -> ctypes.CDLL:
    """The core, compiled into a folder; skips the test without a compiler."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made = folder / "libracemodel.so"
    command = [
        compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{NATIVE}", "-o", str(made),
        *map(str, SOURCES),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.model_new.restype = ctypes.c_void_p
    loaded.model_unwatched.restype = ctypes.c_uint64
    return loaded


class Model:
    """A device's state; launches follow each other."""

    def __init__(self, core: ctypes.CDLL) -> None:
        """Take the compiled core."""
        self._core = core
        self._model = ctypes.c_void_p(core.model_new())

    def __del__(self) -> None:
        self._core.model_free(self._model)

    def launch(
        self, grid: Sequence[int] = (1, 1, 1), threads: int = 32, cluster: Sequence[int] = (1, 1, 1), one_way: int = 0
    ) -> None:  # fmt: skip
        """Begin a launch."""
        self._core.model_launch(self._model, (ctypes.c_uint32 * 6)(*grid, *cluster), threads, one_way)

    def skip_rows(self, rows: int) -> None:
        """As if launches of so many warps had been."""
        self._core.model_skip_rows(self._model, ctypes.c_uint64(rows))

    def event(
        self, kind: str | int, block: int, warp: int, word: int, *, lanes: int = 0xFFFFFFFF, flags: int = 0, size: int = 4,
        a: Any = 0, b: Any = 0, barrier: int = 0, arrivals: int = 0,
    ) -> None:  # fmt: skip
        """An event of a warp: `a` and `b` for all lanes, or one for each of 32; `arrivals`: of a phase of the mbarrier."""
        number = BY_NAME[kind].number if isinstance(kind, str) else kind
        first, second = (np.broadcast_to(np.asarray(x, np.uint64), 32).copy() for x in (a, b))
        self._core.model_event(
            self._model, block, warp, lanes, word, number, flags, size, first.ctypes.data_as(ctypes.c_void_p),
            second.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(barrier), ctypes.c_uint64((0x100000 - arrivals) << 1),
        )  # fmt: skip

    def told(self) -> list[Told]:
        """The races so far."""
        found = (_Told * 4096)()
        count = self._core.model_told(self._model, found, 4096)
        names = [name for name, _ in _Told._fields_]
        return [Told(**{name: getattr(one, name) for name in names}) for one in found[: min(count, 4096)]]

    def unwatched(self, cause: int) -> int:
        """How much was left out."""
        return int(self._core.model_unwatched(self._model, cause))

    def facts_of(self, code: bytes, architecture: int) -> tuple[npt.NDArray[np.uint32], int]:
        """What the library reads in a function's code, by instruction, and its one-way barriers."""
        words = np.zeros(len(code) // 16, np.uint32)
        one_way = self._core.model_facts(
            code, ctypes.c_uint64(len(code)), architecture, words.ctypes.data_as(ctypes.c_void_p)
        )
        return words, int(one_way)

    def replay(self, trace: EventTrace, launch: TracedLaunch, arrivals: int = 0) -> list[Told]:
        """Give it a recorded launch, in the order of the record; the races of that launch.

        The record does not say how many arrivals end an mbarrier's phase: `arrivals`, or as many as its first one makes.
        """
        before = len(self.told())
        place = trace.places(launch, np.array([int(launch.said["pc"]) & 0xFFFFFFFF], np.uint32))[0]
        cubin = trace.cubin(place.module)
        assert cubin is not None
        section = cubin.section_of(place.function)
        assert section is not None
        words, one_way = self.facts_of(cubin.instructions(section), cubin.architecture)
        self.launch(launch.grid, launch.threads, [max(size, 1) for size in launch.cluster], one_way)
        events = trace.of_launch(launch.number)
        a, b = events.operand(0), events.operand(1)
        barriers: dict[int, int] = {}
        used: dict[tuple[int, int], int] = {}
        arrives = (events.kind == BY_NAME["mbarrier"].number) & (events.flags == 2)
        for row in np.flatnonzero(arrives).tolist():
            barriers.setdefault(int(events.first_operand(0)[row]), arrivals or int(b[row].sum()))
        for row in range(len(events)):
            kind, flags, size = int(events.kind[row]), int(events.flags[row]), int(events.size[row])
            if kind not in CHECKED:
                continue
            at = trace.places(launch, events.pc[row : row + 1])[0]
            first, second, barrier = a[row], b[row], 0
            who = int(events.block[row]), int(events.warp[row])
            lane = int(events.lanes[row]).bit_length() - 1
            if kind in (BY_NAME["mbarrier"].number, BY_NAME["mbarrier_attempt"].number):
                used[who] = barrier = int(first[lane])
                second = b[row].sum() if flags == 2 else second
            if kind in [BY_NAME[name].number for name in _BULK]:
                size = int(second[lane]) >> 32 << 4
                second, barrier = second & np.uint64(0xFFFFFFFF), used.get(who, 0)
            self.event(kind, *who, int(words[at.offset // 16]), lanes=int(events.lanes[row]), flags=flags, size=size,
                       a=first, b=second, barrier=barrier, arrivals=barriers.get(barrier, 0))  # fmt: skip
        return self.told()[before:]
