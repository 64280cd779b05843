"""Numbers in the sentences of findings: three digits and a unit; moments in the form that options accept."""

from __future__ import annotations


def duration(ns: float) -> str:
    """Format a duration: 12.3 ms, 45.6 µs, 890 ns, 2.31 s."""
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= limit * 0.9995:
            return f"{_digits(ns / limit)} {unit}"
    return f"{ns:.0f} ns"


def moment(ns: int, digits: int = 6) -> str:
    """A time since the trace's start in the form that `--from` and `--until` accept: 2.535819s."""
    sign, ns = "-" if ns < 0 else "", abs(ns)
    return f"{sign}{ns // 10**9}.{ns % 10**9:09d}"[: digits - 9 or None] + "s"


def size(count: float) -> str:
    """Format a size: 512 B, 1.50 KiB, 3.25 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1023.5:
            return f"{count:.0f} B" if unit == "B" else f"{_digits(count)} {unit}"
        count /= 1024
    return f"{_digits(count)} TiB"


def percent(share: float) -> str:
    """Format a share as `12%`. Only exactly 0 and 1 print as 0% and 100%."""
    text = f"{share:.0%}"
    if text == "0%" and share > 0:
        return "less than 1%"
    return "more than 99%" if text == "100%" and share < 1 else text


def counted(count: int, one: str, several: str = "") -> str:
    """A count with its noun: 1 kernel, 1,234 kernels; or with a verb: `counted(n, "copy has", "copies have")`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def times(count: int) -> str:
    """A number of times in words: once, twice, 1,234 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def operations(count: float) -> str:
    """Format a number of operations: 12.3 TFLOP, 45.6 MFLOP, 890 FLOP."""
    for limit, unit in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if abs(count) >= limit * 0.9995:
            return f"{_digits(count / limit)} {unit}"
    return f"{count:.0f} FLOP"


def _digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"
