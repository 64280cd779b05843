"""The accuracy of this host's wall clock, from the kernel's NTP or PTP state (adjtimex)."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
import time
from pathlib import Path
from typing import Any

#: struct timex of 64-bit Linux: modes, offset, freq, maxerror, esterror (µs), status, …; 208 bytes.
_TIMEX = struct.Struct("=Ixxxxqqqqi")
_TIMEX_BYTES = 208
_NOT_SYNCHRONIZED = 0x40
#: A clock this far from the given offset was read on another boot or host, ns.
_ANOTHER = 1_000_000_000


def state(offset_ns: int) -> dict[str, Any]:
    """Entries for a manifest's clocks; empty when `offset_ns` (wall clock minus CLOCK_MONOTONIC) is not this boot's.

    `boot` is the boot's id; `wall` has `synchronized`, `max_error` and `estimated_error` (ns), errors only if a daemon keeps the
    clock synchronized.
    """
    if (
        not sys.platform.startswith("linux")
        or abs(time.time_ns() - time.monotonic_ns() - offset_ns) > _ANOTHER
    ):
        return {}
    out: dict[str, Any] = {}
    with contextlib.suppress(OSError):
        out["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        result = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError):
        return out
    if result < 0:
        return out
    _, _, _, most, estimated, status = _TIMEX.unpack_from(buffer.raw)
    kept = not status & _NOT_SYNCHRONIZED
    out["wall"] = {"synchronized": kept}
    if kept:
        out["wall"] |= {"max_error": most * 1000, "estimated_error": estimated * 1000}
    return out
