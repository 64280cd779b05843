"""Instruction histograms, CUTracer's CSV `warp_id,region_id,instruction,count`: writing and reading.

A clock read (`CS2R … SR_CLOCKLO`) begins a region of its warp, the next one ends it. The clock read that begins a region counts
among its instructions, the one that ends it does not. A region still open at the end of the trace counts up to there.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.source import Source

HEADER = ("warp_id", "region_id", "instruction", "count")
#: (warp, region) → instruction → count.
Histogram = Mapping[tuple[int, int], Mapping[str, int]]
Array = npt.NDArray[Any]


def is_clock(sass: str) -> bool:
    """Whether an instruction reads the clock that delimits regions."""
    return "CS2R" in sass and "SR_CLOCKLO" in sass


def mnemonic(sass: str) -> str:
    """The instruction's name with its dots, after an optional predicate."""
    words = [word for word in sass.replace(";", " ").split() if not word.startswith("@")]
    return words[0] if words else ""


def count(warps: Array, instructions: Array, texts: Iterable[str]) -> dict[tuple[int, int], dict[str, int]]:
    """Histogram of ordered events: each one's warp, and its index into `texts`."""
    listed = list(texts)
    names, places = np.unique([mnemonic(text) for text in listed], return_inverse=True)
    order = np.argsort(warps, kind="stable")
    warp, instruction = np.asarray(warps)[order], np.asarray(instructions)[order]
    if not len(warp):
        return {}
    clock = np.array([is_clock(text) for text in listed], bool)[instruction]
    begins = np.flatnonzero(np.concatenate([[True], warp[1:] != warp[:-1]]))
    reads = np.cumsum(clock)
    before = (reads - clock)[begins]  # of the warps that come earlier in the order
    own = reads - np.repeat(before, np.diff([*begins, len(warp)]))
    inside = own % 2 == 1
    rows = np.stack([warp[inside], own[inside] // 2, places[instruction[inside]]], axis=1)
    out: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for (number, region, name), total in zip(*_counted(rows), strict=True):
        out[number, region][str(names[name])] = total
    return dict(out)


def _counted(rows: Array) -> tuple[list[list[int]], list[int]]:
    distinct, totals = np.unique(rows, axis=0, return_counts=True)
    return distinct.tolist(), totals.tolist()


def write(histogram: Histogram, stream: IO[str]) -> int:
    """Write the CSV, ordered by warp, region and instruction; returns how many rows."""
    stream.write(",".join(HEADER) + "\n")
    rows = 0
    for (warp, region), counts in sorted(histogram.items()):
        for instruction, total in sorted(counts.items()):
            quoted = instruction.replace('"', '""')
            stream.write(f'{warp},{region},"{quoted}",{total}\n')
            rows += 1
    return rows


def read(path: Path | str) -> dict[tuple[int, int], dict[str, int]]:
    """(warp, region) → instruction → count.

    Raises:
        FormatError: for a file without these columns or a count that is not a number.
    """
    out: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    with Source(path) as source, source.open() as file:
        rows = csv.DictReader(line.decode("utf-8", "replace") for line in file)
        if not rows.fieldnames or not set(HEADER) <= set(rows.fieldnames):
            raise source.error(f"no instruction histogram: expected the columns {','.join(HEADER)}", line=1)
        for number, row in enumerate(rows, 2):
            try:
                key = int(row["warp_id"]), int(row["region_id"])
                counts = out[key]
                counts[row["instruction"]] = counts.get(row["instruction"], 0) + int(row["count"])
            except (TypeError, ValueError):
                raise source.error("a warp, region or count is not a number", line=number) from None
    return dict(out)
