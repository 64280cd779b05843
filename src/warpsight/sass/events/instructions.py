"""The instructions that a trace's events executed: counted by region, and chosen for delays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.errors import UsageError
from warpsight.formats.errors import FormatError
from warpsight.sass.records.imported import ImportedRecords
from warpsight.sass.records.origin import is_trace
from warpsight_plugins.cutracer import delays, histogram
from warpsight_plugins.cutracer.trace_file import TraceFile

Array = npt.NDArray[Any]


def histogram_of(path: Path | str) -> tuple[dict[tuple[int, int], dict[str, int]], list[str]]:
    """Instructions of every region between two clock reads of a warp; and notes on losses.

    Raises:
        UsageError: when no instruction reads the clock, or the trace lacks executed instructions.
    """
    warps, sass, notes = _executed(path)
    texts, places = np.unique(sass, return_inverse=True)
    listed = [str(text) for text in texts]
    if not any(map(histogram.is_clock, listed)):
        raise UsageError(
            f"{path}: no event reads the clock (CS2R … SR_CLOCKLO), so the kernel has no regions"
        )
    return histogram.count(warps, places, listed), notes


def _executed(path: Path | str) -> tuple[Array, Array, list[str]]:
    """Warp and instruction of every event that has both, in order."""
    if is_trace(path):
        with ImportedRecords(path) as opened:
            executed = opened.executed()
        if not len(executed[0]):
            raise UsageError(f"{path} has no events whose instruction is known")
        return *executed, []
    file = TraceFile(path)
    pieces, notes = [table for _, table in file.chunks(("warp", "sass"))], file.notes
    warps: list[Array] = []
    sass: list[Array] = []
    for table in pieces:
        known = table.select(["warp", "sass"]).drop_null()
        warps.append(known["warp"].to_numpy())
        sass.append(known["sass"].cast("string").to_numpy().astype(object))
    if not sum(map(len, warps)):
        raise UsageError(f"{path} has no events whose instruction is known")
    return np.concatenate(warps), np.concatenate(sass), notes


def delays_of(
    path: Path | str, *, delay_ns: int, patterns: Sequence[str], probability: float, seed: int
) -> delays.Delays:
    """A delay configuration for the kernel of a trace file.

    Raises:
        UsageError: when the trace does not describe its kernel, or no instruction matches.
        FormatError: when the place of an instruction is damaged.
    """
    if is_trace(path):
        raise UsageError(
            f"{path} is an imported trace; a configuration needs the trace file, which has the kernel's checksum"
        )
    file = TraceFile(path)
    offsets: dict[int, int] = {}
    for _, table in file.chunks(("opcode_id", "pc")):
        for row in (
            table.select(["opcode_id", "pc"])
            .group_by(["opcode_id", "pc"])
            .aggregate([])
            .drop_null()
            .to_pylist()
        ):
            try:
                offsets[row["opcode_id"]] = int(row["pc"], 16)
            except ValueError:
                raise FormatError(
                    os.fspath(path), f"is damaged: pc {row['pc'][:40]!r} is not a hexadecimal number"
                ) from None
    kernel = file.header.kernel
    if not kernel or not file.header.sass:
        raise UsageError(f"{path} does not describe its kernel and its instructions")
    known = [(offsets[opcode], sass) for opcode, sass in file.header.sass.items() if opcode in offsets]
    return delays.choose(
        str(kernel.get("mangled_name")), str(kernel.get("kernel_checksum")), known,
        delay_ns=delay_ns, patterns=patterns or delays.PATTERNS, probability=probability, seed=seed,
    )  # fmt: skip
