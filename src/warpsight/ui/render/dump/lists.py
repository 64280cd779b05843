"""Lists of a core dump for people: its warps, its modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from warpsight.ui.render import numbers


def show_warps(warps: list[dict[str, Any]], stream: IO[str]) -> None:
    """One line for each warp: place, lanes, PC, what it waits for."""
    head = ("dev", "sm", "warp", "grid", "block", "active", "diverged", "exited", "pc", "")
    rows = [
        (
            str(warp.get("device")), str(warp.get("sm")), str(warp["warp"]), str(warp.get("grid")),
            ",".join(map(str, warp.get("block") or ())), warp["active"], warp["diverged"], warp["exited"],
            warp["pc"] or "", _remark(warp),
        )
        for warp in warps
    ]  # fmt: skip
    _table(head, rows, stream)


def _remark(warp: dict[str, Any]) -> str:
    remarks = []
    if warp["exception"]:
        remarks.append(f"{warp['exception']} at {warp['error_pc'] or 'an unknown PC'}")
    if warp["waits_for"]:
        remarks.append(f"waits for {warp['waits_for']}")
    if warp["barrier"]:
        remarks.append(warp["barrier"])
    return "; ".join(remarks)


def show_modules(modules: list[dict[str, Any]], stream: IO[str]) -> None:
    """One line for each module of code."""
    head = ("module", "handle", "arch", "bytes", "lines", "functions")
    rows = [
        (
            str(module["index"]), module["handle"], module["architecture"] or "?",
            numbers.count(module['bytes'], stream) if module["bytes"] is not None else "not in the dump",
            "yes" if module["line_information"] else "no",
            _functions(module["functions"]),
        )
        for module in modules
    ]  # fmt: skip
    _table(head, rows, stream)


def _functions(names: list[str]) -> str:
    shown = ", ".join(names[:2])
    return shown + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], stream: IO[str]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    for row in [head, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        stream.write("  ".join([*cells, row[-1]]).rstrip() + "\n")
