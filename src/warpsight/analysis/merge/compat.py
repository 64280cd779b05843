"""The output of an older script, byte for byte, for comparison with existing results.

That script matches every stack with the launch whose start is nearest in absolute time, regardless of process and thread and of
how many stacks chose it before, and counts launches. Use :func:`warpsight.analysis.merge.merge.merge` to know which stack
launched what.

It differs only in speed: the nearest launch is looked up in a sorted list. Of equally near ones the first in the file is taken,
as in the script.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpsight.formats.errors import FormatError

_DROPPED = ("", "<no-symbol>", "_start", "__libc_start_main")


@dataclass
class _ScriptOutput:
    """What the script prints, and the folded lines it writes."""

    lines: list[str] = field(default_factory=list)
    folded: str = ""


@dataclass(frozen=True)
class _Kernel:
    name: str
    start: int
    end: int
    correlation: int


def merge(cpu: str, gpu: str, output: str, tolerance_ms: float, summary: bool) -> _ScriptOutput:
    """Merge two files as the script does.

    Args:
        cpu: Path of extended folded stacks.
        gpu: Path of a Chrome JSON object with `traceEvents`.
        output: Path that the messages name; nothing is written here.
        tolerance_ms: How far a stack's time may be from its launch's start.
        summary: Add the statistics of `-s`.

    Raises:
        FormatError: for a GPU file that is not such a JSON object.
    """
    output_text = _ScriptOutput()
    say = output_text.lines.append
    say(f"Parsing CPU uprobe trace (extended folded format): {cpu}")
    stacks = _stacks(cpu, say)
    say(f"Parsed {len(stacks)} CPU stack traces from cudaLaunchKernel hooks")
    say(f"Parsing GPU CUPTI trace: {gpu}")
    kernels, launches = _events(gpu)
    say(f"Parsed {len(kernels)} GPU kernel events")
    launched = sum(1 for _ in launches[1])
    say(f"Parsed {launched} cudaLaunchKernel runtime events")
    say("Correlating CPU stacks with GPU kernels...")
    merged = _merged(stacks, kernels, launches[0], int(tolerance_ms * 1_000_000), say)
    say(f"Total unique stacks: {len(merged)}")
    say(f"Writing folded output to: {output}")
    output_text.folded = "".join(f"{stack} {count}\n" for stack, count in sorted(merged.items()))
    say(f"Wrote {len(merged)} unique stacks ({sum(merged.values())} total samples)")
    if summary:
        _summary(stacks, kernels, launches[0], say)
    say("\nTo generate flamegraph:")
    say(f"  flamegraph.pl {output} > merged_flamegraph.svg")
    say("\nOr use online viewer:")
    say(f"  https://www.speedscope.app/ (upload {output})")
    return output_text


def _stacks(path: str, say: Callable[[str], None]) -> list[tuple[int, list[str]]]:
    """Time and cleaned frames of every line with six fields and integers in the right places."""
    found = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for raw in file.readlines():
            parts = raw.strip().split(None, 5)
            if len(parts) < 6:
                continue
            try:
                time, _, _, _ = int(parts[0]), int(parts[2]), int(parts[3]), int(parts[4])
            except ValueError as error:
                say(f"Warning: Failed to parse line: {raw.strip()[:100]}... Error: {error}")
                continue
            frames = _frames(parts[5])
            if frames:
                found.append((time, frames))
    return found


def _frames(text: str) -> list[str]:
    """The frames with the launch function, whatever name it has, exactly once."""
    frames = []
    launched = False
    for part in text.split(";"):
        frame = part.strip()
        if frame in _DROPPED:
            continue
        if "cudaLaunchKernel" in frame or "__device_stub__" in frame:
            if launched:
                continue
            launched, frame = True, "cudaLaunchKernel"
        frames.append(frame)
    return frames


def _events(path: str) -> tuple[list[_Kernel], tuple[dict[int, tuple[int, int]], list[int]]]:
    """Kernels sorted by correlation; launches by correlation, and the correlation of each launch event."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        try:
            data = json.load(file)
        except ValueError as error:
            raise FormatError(path, f"is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("traceEvents", []), list):
        raise FormatError(path, "has no object with a list traceEvents at its top, which --compat expects")
    kernels: list[_Kernel] = []
    launches: dict[int, tuple[int, int]] = {}
    events: list[int] = []
    for event in data.get("traceEvents", []):
        try:
            name, category = event.get("name", ""), event.get("cat", "")
            correlation = event.get("args", {}).get("correlationId", 0)
            is_launch = category == "CUDA_Runtime" and "LaunchKernel" in name
            if not is_launch and category != "GPU_Kernel" and not name.startswith("Kernel:"):
                continue
            start, length = event.get("ts", 0), event.get("dur", 0)
            if not (start > 0 and length > 0 and correlation > 0):
                continue
        except (AttributeError, TypeError):
            raise FormatError(
                path, f"an event that --compat cannot read: {json.dumps(event)[:100]}"
            ) from None
        begin, end = int(start * 1000), int((start + length) * 1000)
        if is_launch:
            launches[correlation] = (begin, end)
            events.append(correlation)
        else:
            kernels.append(_Kernel(name.replace("Kernel: ", ""), begin, end, correlation))
    kernels.sort(key=lambda kernel: kernel.correlation)
    return kernels, (launches, events)


def _merged(
    stacks: list[tuple[int, list[str]]], kernels: list[_Kernel], launches: dict[int, tuple[int, int]],
    tolerance: int, say: Callable[[str], None],
) -> dict[str, int]:  # fmt: skip
    first: dict[int, str] = {}
    for kernel in kernels:
        first.setdefault(kernel.correlation, kernel.name)
    correlations = list(launches)
    nearest = _nearest([time for time, _ in stacks], [begin for begin, _ in launches.values()], tolerance)
    merged: dict[str, int] = {}
    matched = 0
    for (_, frames), place in zip(stacks, nearest, strict=True):
        name = first.get(correlations[place]) if place >= 0 else None
        matched += name is not None
        line = ";".join([*frames, "[GPU_Launch_Pending]" if name is None else f"[GPU_Kernel]{name}"])
        merged[line] = merged.get(line, 0) + 1
    say(f"Matched {matched} CPU stacks with GPU kernels")
    say(f"Unmatched: {len(stacks) - matched}")
    return merged


def _nearest(times: list[int], starts: list[int], tolerance: int) -> list[int]:
    """For each time, the index of the nearest start less than `tolerance` away, or -1."""
    if not times or not starts:
        return [-1] * len(times)
    begin, at = np.array(starts, np.int64), np.array(times, np.int64)
    order = np.argsort(begin, kind="stable")  # equal starts: the first in the file comes first
    ranked = begin[order]
    right = np.searchsorted(ranked, at)
    left = np.searchsorted(ranked, ranked[np.maximum(right - 1, 0)])  # the first of equal ones
    right = np.minimum(right, len(ranked) - 1)
    near_left, near_right = np.abs(at - ranked[left]), np.abs(at - ranked[right])
    earlier = np.where(near_left == near_right, order[left] < order[right], near_left < near_right)
    chosen = np.where(earlier, left, right)
    distance = np.minimum(near_left, near_right)
    found: list[int] = np.where(distance < tolerance, order[chosen], -1).tolist()
    return found


def _summary(
    stacks: list[tuple[int, list[str]]],
    kernels: list[_Kernel],
    launches: dict[int, Any],
    say: Callable[[str], None],
) -> None:
    say("\n=== Summary Statistics ===")
    if stacks:
        times = [time for time, _ in stacks]
        say(f"CPU trace duration: {(max(times) - min(times)) / 1_000_000:.2f} ms")
        say(f"CPU stacks captured: {len(stacks)}")
    if not kernels:
        return
    say(f"\nGPU kernels executed: {len(kernels)}")
    say(f"CUDA launch events: {len(launches)}")
    say(f"Total kernel execution time: {sum(k.end - k.start for k in kernels) / 1_000_000:.2f} ms")
    counts: dict[str, int] = {}
    for kernel in kernels:
        counts[kernel.name] = counts.get(kernel.name, 0) + 1
    say("\nKernel execution counts:")
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        say(f"  {name}: {count}")
