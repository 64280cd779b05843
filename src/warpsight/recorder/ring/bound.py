"""`--ring 30s`, `--ring 500MB`, `--ring 30s,500MB`: how much history to keep."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.errors import UsageError

#: Bytes of raw data that a window given in seconds may take at most, unless a size is given too.
_DEFAULT_BYTES = 4_000_000_000
#: Seconds that a window given as a size may reach back.
LONGEST_S = 86_400.0
_PART = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|kB|KB|MB|GB|kb|mb|gb)?$")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, None: 1.0}
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9}
_LEAST_S, _LEAST_BYTES = 1.0, 4_000_000


@dataclass(frozen=True)
class Bound:
    """The window: limits in seconds and bytes of raw data, whichever is reached first."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"{self.seconds:g} s" if self.seconds < LONGEST_S else f"{self.bytes / 1e6:g} MB"


def parse(text: str) -> Bound:
    """Read `--ring`.

    Raises:
        UsageError: when it is neither a time nor a size, or too small to hold anything.
    """
    seconds: float | None = None
    size: float | None = None
    for part in text.split(","):
        match = _PART.match(part.strip())
        if match is None:
            raise UsageError(f"--ring takes a time, a size or both (30s, 500MB, 30s,500MB), not {text!r}")
        unit = match[2]
        if unit in _SECONDS:
            seconds = float(match[1]) * _SECONDS[unit]
        else:
            size = float(match[1]) * _BYTES[str(unit).lower()]
    if seconds is not None and not _LEAST_S <= seconds <= LONGEST_S:
        raise UsageError(f"--ring keeps from {_LEAST_S:g} s to {LONGEST_S / 3600:g} h, not {text!r}")
    if size is not None and size < _LEAST_BYTES:
        raise UsageError(f"--ring keeps at least {_LEAST_BYTES // 1_000_000} MB, not {text!r}")
    return Bound(LONGEST_S if seconds is None else seconds, _DEFAULT_BYTES if size is None else int(size))
