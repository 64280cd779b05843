"""Exact counts and rooflines for people, and counts as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO

from warpsight.sass.code_place import COLUMNS
from warpsight.sass.counts.kernels import CountedKernel, Counts
from warpsight.sass.counts.roofline import Roofline
from warpsight.ui.render import numbers
from warpsight.ui.render.sass.hotspots import place_lines

_WARP = 32
#: Operations shown of a kernel.
_OPERATIONS = 8


def show(
    kernels: Sequence[CountedKernel], roofs: Sequence[Roofline], stream: IO[str], most: int, top: int
) -> None:
    """Print kernels with their places, most executions first.

    Args:
        kernels: the answer.
        roofs: rooflines of some of them.
        stream: where to print.
        most: largest number of kernels; 0 for all.
        top: largest number of places of each; 0 for all.
    """
    by_name = {roof.name: roof for roof in roofs}
    for number, kernel in enumerate(kernels[: most or None]):
        stream.write(("\n" if number else "") + "\n".join(_head(kernel)) + "\n")
        if kernel.name in by_name:
            stream.writelines(f"        {line}\n" for line in _roofline(by_name[kernel.name]))
        for level, places in kernel.levels.items():
            for place in places[: top or None]:
                shown = place_lines(
                    place,
                    level,
                    kernel.demangled,
                    f"{numbers.count(place.executions, stream):>14}",
                    _threads(place),
                )
                stream.writelines(line + "\n" for line in shown)
            left = len(places) - (top or len(places))
            if left > 0:
                stream.write(f"          … {left:,} more ({level}); --top 0 shows all\n")
    left = len(kernels) - (most or len(kernels))
    if left > 0:
        stream.write(f"\n… {left:,} more kernels; --kernels 0 shows all\n")


def _head(kernel: CountedKernel) -> list[str]:
    launched = f", {kernel.launches:,} launches" if kernel.launches else ""
    lines = [f"{kernel.demangled} ({kernel.executions:,} executed by warps{launched})"]
    lines += [f"        {text}" for text in (_threads(kernel), _mix(kernel), _work(kernel)) if text]
    return lines


def _threads(counts: Counts) -> str:
    """`31.2 of 32 lanes, 4% of them switched off; 8.0 sectors an access, 1.0 ideal`."""
    parts = []
    if counts.lanes is not None:
        off = counts.predicated_off
        share = f", {100 * off / counts.threads:.0f}% of them switched off" if off and counts.threads else ""
        parts.append(f"{counts.lanes:.3g} of {_WARP} lanes{share}")
    divergent = counts.values.get("branch_targets_threads_divergent")
    if divergent:
        parts.append(f"{divergent:,} divergent branches")
    if counts.sectors:
        parts.append(f"{counts.sectors:,} sectors{_ideal(counts.sectors, counts.ideal_sectors)}")
    waves = counts.values.get("l1tex_pipe_lsu_wavefronts_mem_shared")
    if waves:
        ideal = counts.values.get("l1tex_pipe_lsu_wavefronts_mem_shared_ideal")
        parts.append(f"{waves:,} shared-memory wavefronts{_ideal(waves, ideal)}")
    local = counts.values.get("sectors_mem_local")
    if local:
        parts.append(f"{local:,} sectors of local memory")
    return "; ".join(parts)


def _ideal(value: int, ideal: int | None) -> str:
    return f" ({value / ideal:.3g} × ideal)" if ideal and value != ideal else ""


def _mix(kernel: CountedKernel) -> str:
    ordered = sorted(kernel.operations.items(), key=lambda item: (-item[1].executions, item[0]))
    shown = [
        f"{name} {100 * counts.executions / max(kernel.executions, 1):.0f}%"
        for name, counts in ordered[:_OPERATIONS]
    ]
    return ", ".join(shown)


def _work(kernel: CountedKernel) -> str:
    """`12.6 GFLOP fp32; 4.2 MB asked of global memory, 8.4 MB through L1`."""
    parts = [f"{numbers.operations(number)} {kind}{' matrix' if matrix else ''}"
             for (kind, matrix), number in sorted(kernel.arithmetic.items(), key=lambda item: -item[1])]  # fmt: skip
    parts += [f"{numbers.size(count)} asked of {space} memory" for space, count in kernel.requested.items()]
    if kernel.l1_bytes:
        parts.append(f"{numbers.size(kernel.l1_bytes)} of sectors")
    return "; ".join(parts)


def _roofline(roof: Roofline) -> list[str]:
    intensity = ", ".join(f"{value:.3g} per byte of {memory}" for memory, value in roof.intensity.items())
    lines = [
        f"{numbers.duration(roof.seconds * 1e9)} a launch without counting; {numbers.operations(roof.rate)}/s; {intensity}"
    ]
    if roof.roofs:
        shares = ", ".join(f"{one.name} {100 * one.seconds / roof.seconds:.0f}%" for one in roof.roofs)
        lines.append(f"roof: {roof.roofs[0].name}; of the device's peak: {shares}")
    return lines


def write_csv(kernels: Sequence[CountedKernel], stream: IO[str]) -> None:
    """A row for each place, a column for each metric."""
    metrics = sorted({metric for kernel in kernels for metric in kernel.values})
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["kernel", "level", *COLUMNS, *metrics])
    for kernel in kernels:
        for level, places in kernel.levels.items():
            for place in places:
                counted = (place.values.get(metric, "") for metric in metrics)
                writer.writerow([kernel.demangled, level, *place.cells(), *counted])
