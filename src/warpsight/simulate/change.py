"""What-ifs as text: `kernel:NAME/2`, `launch/2`, `graphs`, `sync:NAME`, `host:NAME=none`, `device:H100`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from warpsight.errors import UsageError

#: Possible subjects of a change, and what the part after the colon selects.
SUBJECTS = {
    "kernel": "kernels whose name matches",
    "copy": "copies of this kind (HtoD, DtoH, …) and fills (memset)",
    "launch": "launch calls whose function matches",
    "sync": "calls whose function matches no longer wait for the device",
    "host": "host code in ranges whose name matches",
    "graphs": "launches in ranges whose name matches go into CUDA graphs; without a name all do",
    "fuse": "all device work launched in one range whose name matches becomes one kernel",
    "overlap": "copies (or kernels whose name matches) no longer hold up the other work of their stream",
    "streams": "kernels whose name matches run in a stream of their own",
    "batch": "kernels and copies scale with the batch, except those launched in ranges whose name matches",
    "device": "another device, by name",
}
#: Subjects that need a change of time, those that take none, and those that need a pattern.
_TIMED, _UNTIMED = (
    ("kernel", "copy", "launch", "host", "batch"),
    ("sync", "graphs", "overlap", "streams", "device"),
)
_NAMED = ("kernel", "host", "fuse", "device", "streams")
_CHANGE = re.compile(
    r"(?:(?P<sign>[/*])(?P<factor>\d+(?:\.\d*)?|\.\d+)|=(?P<value>none|\d+(?:\.\d*)?(?:ns|us|µs|ms|s)))$"
)
_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class Change:
    """One what-if.

    Attributes:
        text: As it was written.
        subject: One of :data:`SUBJECTS`.
        pattern: Regular expression; empty: everything.
        factor: Factor by which times are multiplied.
        nanoseconds: The time that each takes instead; None: use `factor`.
    """

    text: str
    subject: str
    pattern: str = ""
    factor: float = 1.0
    nanoseconds: int | None = None

    def matches(self, name: str) -> bool:
        """Whether the pattern matches part of a name, ignoring case."""
        return re.search(self.pattern, name, re.IGNORECASE) is not None

    def scaled(self, time: float) -> int:
        """A time after the change, ns."""
        return self.nanoseconds if self.nanoseconds is not None else round(time * self.factor)


def parse(text: str) -> Change:
    """Read a what-if.

    Raises:
        UsageError: when it has no known subject, or lacks a part that its subject needs.
    """
    found = _CHANGE.search(text)
    rest = text[: found.start()] if found else text
    subject, _, pattern = rest.partition(":")
    if subject not in SUBJECTS:
        raise UsageError(f"{text!r} is not a what-if: it begins with one of {', '.join(SUBJECTS)}")
    if subject in _TIMED and found is None:
        raise UsageError(f"{text!r} states no change: end it with /2, *1.5, =10us or =none")
    if subject in _UNTIMED and found is not None and not (subject == "sync" and found["value"] == "none"):
        raise UsageError(f"{text!r}: {subject} takes no time or factor")
    if subject in _NAMED and not pattern:
        raise UsageError(f"{text!r} needs a name: {subject}:NAME")
    _check(text, pattern)
    return Change(text, subject, pattern, *_amount(found, text))


def _check(text: str, pattern: str) -> Literal[True]:
    try:
        re.compile(pattern)
    except re.error as problem:
        raise UsageError(f"{text!r}: {pattern!r} is not a regular expression: {problem}") from None
    return True


def _amount(found: re.Match[str] | None, text: str) -> tuple[float, int | None]:
    if found is None:
        return 1.0, None
    if found["value"] == "none":
        return 0.0, 0
    if found["value"] is not None:
        unit = next(unit for unit in ("ns", "us", "µs", "ms", "s") if found["value"].endswith(unit))
        return 1.0, round(float(found["value"].removesuffix(unit)) * _UNITS[unit])
    factor = float(found["factor"])
    if found["sign"] == "/":
        if factor == 0:
            raise UsageError(f"{text!r} divides by 0: write =none to remove it")
        factor = 1 / factor
    return factor, None
