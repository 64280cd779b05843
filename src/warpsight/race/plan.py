"""Delay plans: which warps wait, where and for how long, in one self-contained JSON file.

The delay of each occurrence follows from the plan alone (:mod:`warpsight.race.counter`), so the same plan gives the same delays.
A plan is on disk before the run that uses it begins, so a hang cannot lose it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from warpsight.errors import WarpsightError
from warpsight.formats.errors import FormatError
from warpsight.model import private_files
from warpsight.model.sharing import secrets

VERSION = 1
#: The longest delay: what 32 bits of nanoseconds hold, rounded.
LONGEST_NS = 4_000_000_000
_LARGEST_FILE = 256 << 20

Name = Annotated[str, Meta(min_length=1)]
_Checksum = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Count32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Nanoseconds = Annotated[int, Meta(ge=0, le=LONGEST_NS)]
#: From the first to before the second.
Range = tuple[_Count32, _Count32]
Warp = Annotated[int, Meta(ge=0, le=31)]
Rank = Annotated[int, Meta(ge=0, le=15)]


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instruction before or after which warps wait; the latter for kinds named `…_release` and `mbarrier_attempt`.

    Attributes:
        kernel: mangled name of the function.
        code: SHA-256 of the function's machine code, in hexadecimal digits.
        pc: bytes from the function's start.
        kind: class of event, such as `global` or `barrier` (:data:`warpsight.formats.events.kinds.BY_NAME`), or `launch`: the
            host waits before it launches the kernel.
        opcode: opcode of the instruction, such as `LDG.E`; empty if unknown.
        source: `file:line` of the instruction and of the calls that it was inlined through, innermost first.
    """

    kernel: Name
    code: _Checksum
    pc: _Count32
    kind: Name
    opcode: str = ""
    source: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """32 bits that identify the point in random numbers; they depend only on code and offset."""
        digest = hashlib.sha256(f"{self.code}:{self.pc}".encode()).digest()
        return int.from_bytes(digest[:4], "little")


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which warps wait; None: all.

    Attributes:
        ctas: ranges of CTAs, by their linear number in the grid, x fastest.
        warps: warps of a CTA, by linear number; ranks: CTAs of a cluster.
        streams: streams of a context, numbered in the order in which they first launched a kernel with points.
    """

    ctas: Annotated[tuple[Range, ...], Meta(min_length=1)] | None = None
    warps: Annotated[tuple[Warp, ...], Meta(min_length=1)] | None = None
    ranks: Annotated[tuple[Rank, ...], Meta(min_length=1)] | None = None
    streams: Annotated[tuple[_Count32, ...], Meta(min_length=1)] | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A delay plan.

    Attributes:
        version: version of this layout.
        mode: `random`: a delay is uniform from floor to ceiling; `fixed`: it is the ceiling, which equals the floor; `pct`: each
            warp waits by its priority, which changes at random steps; `memory`: no warp waits, kernels beside the program's
            hammer memory, each as long as a delay.
        seed: seed of all random numbers; probability: probability that an occurrence waits; 0 patches the code but delays
            nothing. floor_ns, ceiling_ns: the shortest and longest delay. depth, steps: for `pct`: the depth of bugs to find, one
            more than the number of priority changes; and the steps of a warp to draw from. points, where: instructions and warps
            that wait.
        code: checksums of all code seen under the name of each function with points; other code is refused.
        versions: versions of the plan's maker and its dependencies, by name: warpsight, driver, sanitizer, …
        command: the program that the points belong to.
    """

    version: int = VERSION
    mode: Literal["random", "fixed", "pct", "memory"]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    floor_ns: Nanoseconds
    ceiling_ns: Nanoseconds
    depth: Annotated[int, Meta(ge=0, le=16)] = 0
    steps: _Count32 = 0
    points: tuple[Point, ...]
    where: Where = Where()
    code: dict[Name, tuple[_Checksum, ...]] = {}
    versions: dict[str, str] = {}
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what concerns several fields."""
        if self.floor_ns > self.ceiling_ns:
            raise ValueError(f"floor_ns {self.floor_ns} is above ceiling_ns {self.ceiling_ns}")
        if self.mode == "fixed" and self.floor_ns != self.ceiling_ns:
            raise ValueError("mode fixed has one delay: floor_ns and ceiling_ns must be equal")
        if (self.mode == "pct") != bool(self.depth and self.steps) or bool(self.depth) != bool(self.steps):
            raise ValueError("only mode pct has a depth and steps")
        if self.mode == "pct" and self.probability not in (0, 1):
            raise ValueError("mode pct has a probability of 1, or 0 for no delay")
        if self.mode == "memory" and self.points:
            raise ValueError("mode memory has no points")
        if len({(p.kernel, p.code, p.pc, p.kind) for p in self.points}) != len(self.points):
            raise ValueError("points lists a point twice")
        if any(begin >= end for begin, end in self.where.ctas or ()):
            raise ValueError("where.ctas has an empty range")


class _Versioned(msgspec.Struct):
    version: int


def read(path: Path | str) -> Plan:
    """Read a plan. Secrets in its program's command line have been replaced with asterisks.

    Raises:
        FormatError: when the file is damaged, is not a plan, or has a version unknown to this warpsight.
        WarpsightError: when it cannot be read.
    """
    name = os.fspath(path)
    if problem := private_files.unreadable(path):
        raise FormatError(name, problem)
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise WarpsightError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(data) > _LARGEST_FILE:
        raise FormatError(name, f"is larger than a delay plan can be ({_LARGEST_FILE >> 20} MiB)")
    try:
        found = msgspec.json.decode(data, type=_Versioned)
        if found.version != VERSION:
            raise FormatError(
                name, f"is a delay plan of version {found.version}; this warpsight reads version {VERSION}"
            )
        return msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(name, f"is damaged, or not a delay plan: {error}") from None


def write(plan: Plan, path: Path | str) -> None:
    """Write a plan, atomically replacing the file; on return it is durable.

    Secrets in the command line of its program and in the names of source files are left out.

    Raises:
        WarpsightError: when it cannot be written.
    """
    points = tuple(map(_secretless, plan.points))
    plan = msgspec.structs.replace(plan, points=points, command=tuple(secrets.arguments(list(plan.command))))
    replace(Path(path), msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def _secretless(point: Point) -> Point:
    source = tuple(map(secrets.secretless, point.source))
    return point if source == point.source else msgspec.structs.replace(point, source=source)


def replace(path: Path, data: bytes) -> None:
    """Atomically replace a private file's content; on return it is durable.

    Raises:
        WarpsightError: when it cannot be written.
    """
    temporary = path.with_name(f".warpsight.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with private_files.unfinished(temporary):
            with os.fdopen(private_files.create(temporary, new=True), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, which a rename alone does not do. Does nothing if folders cannot be synchronized."""
    if os.name != "posix":
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
