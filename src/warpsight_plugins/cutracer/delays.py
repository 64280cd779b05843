"""Delay configurations: which instructions of which kernels wait, and how long (JSON, version 1.0), read, checked and written.

The layout is CUTracer's, including `cluster_seed` of its cluster modes, so its recorder can replay these files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from warpsight.errors import UsageError
from warpsight.formats.source import Source

_MOST_NS = 2**32 - 1
#: The largest file that is read: a configuration of a million points.
_MOST_BYTES = 256 << 20
_Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NS)]
#: Where a race between producers and consumers shows: loads, stores, asynchronous copies, barriers and tensor-core work.
PATTERNS = (
    "SYNCS.EXCH", "SYNCS.PHASECHK", "SYNCS.ARRIVE", "BAR.", "MEMBAR", "UTMASTG", "UTMALDG", "UTMAREDG", "WARPGROUP.DEPBAR",
    "UTCQMMA", "UTCHMMA", "UTCIMMA", "UTCOMMA", "UTCBAR", "LDG", "LDS", "LDTM", "STG", "STS", "STTM", "ATOM", "RED",
)  # fmt: skip


class DelayPoint(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One instruction that may wait."""

    pc: Annotated[int, msgspec.Meta(ge=0)]
    sass: str
    delay: _Nanoseconds
    on: bool
    cluster_seed: _Nanoseconds = 0


class DelayedKernel(msgspec.Struct, forbid_unknown_fields=True):
    """The points of one kernel, by offset as a string."""

    kernel_name: str
    kernel_checksum: str
    timestamp: str
    instrumentation_points: dict[str, DelayPoint]


class Delays(msgspec.Struct, forbid_unknown_fields=True):
    """A whole configuration; kernels by mangled name and checksum."""

    version: Literal["1.0"]
    delay_ns: _Nanoseconds
    kernels: dict[str, DelayedKernel]

    @property
    def points(self) -> int:
        """How many instructions it names."""
        return sum(len(kernel.instrumentation_points) for kernel in self.kernels.values())

    @property
    def enabled(self) -> int:
        """How many of them wait."""
        return sum(
            point.on for kernel in self.kernels.values() for point in kernel.instrumentation_points.values()
        )


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a configuration."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Delays)}


def is_delays(head: bytes) -> bool:
    """Whether a file begins like a configuration: an object with `kernels` or `delay_ns`, not a line of a trace."""
    return head.lstrip().startswith(b"{") and b'"type"' not in head[:4096] and (
        b'"kernels"' in head or b'"delay_ns"' in head
    )  # fmt: skip


def read(path: Path | str) -> Delays:
    """Read and check a configuration.

    Raises:
        FormatError: for an invalid configuration, with the place of the error.
    """
    with Source(path) as source, source.open() as file:
        data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise source.error(f"a delay configuration of more than {_MOST_BYTES >> 20} MB is not read")
        try:
            found = msgspec.json.decode(data, type=Delays)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise source.error(f"no delay configuration: {error}") from None
        for kernel, described in found.kernels.items():
            for key, point in described.instrumentation_points.items():
                if key != str(point.pc):
                    raise source.error(f"kernel {kernel}: point {key!r} says that its pc is {point.pc}")
    return found


def text(delays: Delays) -> str:
    """The configuration as JSON text."""
    return json.dumps(msgspec.to_builtins(delays), indent=2) + "\n"


def choose(
    name: str,
    checksum: str,
    instructions: Iterable[tuple[int, str]],
    *,
    delay_ns: int,
    patterns: Sequence[str] = PATTERNS,
    probability: float = 0.5,
    seed: int = 0,
) -> Delays:
    """A configuration for one kernel: instructions (offset, text) that contain a pattern, each on with a probability.

    `*` as the only pattern means every instruction. The same seed gives the same choice.

    Raises:
        UsageError: for a delay or probability out of range, or when no instruction matches.
    """
    if not 0 <= delay_ns <= _MOST_NS:
        raise UsageError(f"a delay is 0 to {_MOST_NS} ns, not {delay_ns}")
    if not 0 <= probability <= 1:
        raise UsageError(f"a probability is 0 to 1, not {probability:g}")
    chance = random.Random(seed)
    points = {
        str(pc): DelayPoint(pc, sass, delay_ns, chance.random() < probability)
        for pc, sass in sorted(instructions)
        if tuple(patterns) == ("*",) or any(pattern in sass for pattern in patterns)
    }
    if not points:
        raise UsageError(f"no instruction of {name} contains one of: {', '.join(patterns)}")
    stamp = datetime.now().isoformat(timespec="milliseconds")
    return Delays("1.0", delay_ns, {f"{name}_{checksum}": DelayedKernel(name, checksum, stamp, points)})
