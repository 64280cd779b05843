"""Hot lines for people, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import PurePath
from typing import IO

from warpsight.device_code.debug_info.inline_chain import Frame, source_line
from warpsight.sass.code_place import COLUMNS, CodePlace
from warpsight.sass.hotspots import Hotspots, SampleCounts, SampledKernel, Spot
from warpsight.ui.render import numbers

#: Stall reasons shown of one place, and the least share of its samples for one.
_REASONS, _LEAST = 3, 0.05
_SOURCE_WIDTH = 100


def show(found: Hotspots, stream: IO[str], kernels: int, top: int, sources: Sequence[str] = ()) -> None:
    """Print kernels with their hottest places.

    Args:
        found: the answer.
        stream: where to print.
        kernels: largest number of kernels; 0 for all.
        top: largest number of places of each; 0 for all.
        sources: folders in which to look for source files, too.
    """
    stream.write(_head(found) + "\n")
    for kernel in found.kernels[: kernels or None]:
        stream.write("\n" + _kernel(kernel, found.samples) + "\n")
        for level, spots in kernel.levels.items():
            for spot in spots[: top or None]:
                stream.writelines(line + "\n" for line in _spot(spot, level, kernel, tuple(sources)))
            left = len(spots) - (top or len(spots))
            if left > 0:
                stream.write(f"          … {left:,} more ({level}); --top 0 shows all\n")
    left = len(found.kernels) - (kernels or len(found.kernels))
    if left > 0:
        rest = sum(kernel.samples for kernel in found.kernels[kernels:])
        stream.write(
            f"\n… {left:,} more kernels with {_share(rest, found.samples)} of the samples; --kernels 0 shows all\n"
        )


def _head(found: Hotspots) -> str:
    lost = f"; {found.dropped:,} dropped" if found.dropped else ""
    other = (
        f"; {found.unattributed:,} more of code that CUPTI does not show (the driver's)"
        if found.unattributed
        else ""
    )
    period = f", one of each multiprocessor in {found.period:,} cycles" if found.period else ""
    return (
        f"{found.samples:,} samples in {numbers.duration(found.sampled_ns)}{period}{lost}{other}; collecting them took "
        f"{numbers.duration(found.cost_ns)} of processor time"
    )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f}%"


def _kernel(kernel: SampledKernel, samples: int) -> str:
    ran = f", {kernel.launches:,} launches, {numbers.duration(kernel.device_ns)}" if kernel.launches else ""
    head = f"{_share(kernel.samples, samples):>6}  {kernel.demangled} ({kernel.samples:,} samples{ran})"
    return f"{head}\n        {_reasons(kernel)}"


def _reasons(counts: SampleCounts) -> str:
    """`long_scoreboard 71%, barrier 12%; not issued 80%`."""
    ordered = counts.ordered()
    reasons = [f"{reason} {100 * samples / max(counts.samples, 1):.0f}%" for reason, samples, _ in ordered[:_REASONS]
            if samples >= _LEAST * counts.samples]  # fmt: skip
    return f"{', '.join(reasons)}; not issued {100 * counts.not_issued / max(counts.samples, 1):.0f}%"


def _spot(spot: Spot, level: str, kernel: SampledKernel, sources: tuple[str, ...]) -> list[str]:
    share = _share(spot.samples, kernel.samples)
    return place_lines(spot, level, kernel.demangled, f"{share:>6}", _reasons(spot), sources)


def place_lines(
    place: CodePlace, level: str, kernel: str, number: str, figures: str, sources: tuple[str, ...] = ()
) -> list[str]:
    """A place with its number in the margin, its figures and the surrounding calls."""
    indent = " " * (len(number) + 4)
    first = where(place.frames[0], kernel) if place.frames else ""
    if level == "line":
        frame = place.frames[0]
        source = (source_line(frame.file, frame.line, sources) or "")[:_SOURCE_WIDTH]
        lines = [first + ("  " + source if source else "")]
    else:
        lines = [
            f"PTX line {place.ptx_line}  {place.ptx}" if level == "ptx" else f"+{place.pc:#06x}  {place.sass}"
        ]
        lines += [first] if first else []
    lines += [figures] if figures else []
    for inner, outer in zip(place.frames, place.frames[1:], strict=False):
        lines.append(f"{'inlined into' if inner.file else 'called from'} {where(outer, kernel)}")
    return [f"  {number}  {lines[0]}", *(indent + line for line in lines[1:])]


def where(frame: Frame, kernel: str) -> str:
    """`kernel.cu:24 in function`, without the function inside the kernel itself; only the function if the file is unknown."""
    if not frame.file:
        return frame.function
    inside = f" in {frame.function}" if frame.function and frame.function != kernel else ""
    return f"{PurePath(frame.file).name}:{frame.line}{inside}"


def write_csv(found: Hotspots, stream: IO[str]) -> None:
    """A row for each place and stall reason."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["kernel", "level", *COLUMNS, "reason", "samples", "not_issued"])
    for kernel in found.kernels:
        for level, spots in kernel.levels.items():
            for spot in spots:
                place = (kernel.demangled, level, *spot.cells())
                writer.writerows([*place, *row] for row in spot.ordered())
