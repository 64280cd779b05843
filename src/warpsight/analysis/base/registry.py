"""The analyses that can be asked for by name (`warpsight analyze TRACE NAME`): one line here and one module each."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Result
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows


@dataclass(frozen=True)
class Analysis:
    """One analysis: `function(trace, rows) -> Result` in `module`, and what it answers, in one line."""

    module: str
    function: str
    meaning: str

    def run(self, trace: StoredTrace, rows: Rows) -> Result:
        """Run it on the rows that count; the module is imported now."""
        function: Callable[[StoredTrace, Rows], Result] = getattr(
            importlib.import_module(self.module), self.function
        )
        return function(trace, rows)


#: Name → analysis, in the order in which people read them.
ANALYSES: dict[str, Analysis] = {
    "utilization": Analysis(
        "warpsight.analysis.stats.utilization",
        "utilization",
        "How busy each device and stream was: 0 to 1, what overlaps counted once.",
    ),
    "concurrency": Analysis(
        "warpsight.analysis.stats.utilization", "concurrency", "How much work ran at once, and for how long."
    ),
    "breakdown": Analysis(
        "warpsight.analysis.stats.utilization",
        "breakdown",
        "What each device did over time: compute, communication, copies, idle.",
    ),
    "overlap": Analysis(
        "warpsight.analysis.stats.overlap",
        "overlap",
        "How far computation, communication and copies hid behind each other.",
    ),
    "ranges": Analysis(
        "warpsight.analysis.ranges.open",
        "ranges",
        "GPU time by the NVTX range it was launched in, with the ranges inside it.",
    ),
    "range-instances": Analysis(
        "warpsight.analysis.ranges.instances",
        "range_instances",
        "Every range as the GPU saw it, how far behind the host, and the pace of ranges of one name.",
    ),
    "range-kernels": Analysis(
        "warpsight.analysis.ranges.instances",
        "range_kernels",
        "The kernels of each range: how often, how long.",
    ),
    "sequences": Analysis(
        "warpsight.analysis.steps.sequences",
        "sequences",
        "Kernels that operators launch one after another again and again: what to fuse first.",
    ),
    "kernel-times": Analysis(
        "warpsight.analysis.stats.kernels",
        "kernel_times",
        "Times of every kernel name: count, total, average, percentiles.",
    ),
    "kernel-durations": Analysis(
        "warpsight.analysis.stats.kernels", "kernel_durations", "How kernel durations are distributed."
    ),
    "launch-latency": Analysis(
        "warpsight.analysis.stats.launches",
        "launch_latency",
        "How long kernels waited after their launch call, and for what.",
    ),
    "queue-depth": Analysis(
        "warpsight.analysis.stats.launches",
        "queue_depth",
        "How much launched work waited for each stream and device, over time.",
    ),
    "launch-bound": Analysis(
        "warpsight.analysis.stats.launches",
        "launch_bound",
        "Stretches in which the device waited for every single launch.",
    ),
    "launch-overhead": Analysis(
        "warpsight.analysis.stats.launches",
        "launch_overhead",
        "Shares of short kernels, of calls longer than their kernel, of graphs.",
    ),
    "iterations": Analysis(
        "warpsight.analysis.steps.iterations",
        "iterations",
        "The turns of the main loop, which of them are the steady state, and which stand out.",
    ),
    "findings": Analysis(
        "warpsight.analysis.rules",
        "findings",
        "Everything the rules find, with its share of the time or what it saves, and what to do.",
    ),
    "memory": Analysis(
        "warpsight.analysis.memory.use",
        "memory",
        "Memory over time, its peak and holders, leaks, wrong frees, fragmentation.",
    ),
    "phases": Analysis(
        "warpsight.analysis.steps.phases",
        "phases",
        "Device time of forward, backward, optimiser, communication and data loading.",
    ),
    "critical-path": Analysis(
        "warpsight.analysis.path.critical_path",
        "critical_path",
        "What the recorded time was spent on, along the chain of what released what.",
    ),
    "account": Analysis(
        "warpsight.analysis.account.questions",
        "spans",
        "Every nanosecond of every device, once: what it computed and copied, and why it was idle.",
    ),
    "gaps": Analysis(
        "warpsight.analysis.account.questions",
        "gaps",
        "Why the devices were idle: every gap, cut along time by cause.",
    ),
    "states": Analysis(
        "warpsight.analysis.stats.states",
        "states",
        "How long each stream was running, waiting, queued, complete, idle.",
    ),
    "state-history": Analysis(
        "warpsight.analysis.stats.states", "state_history", "Every stretch of every stream in one state."
    ),
    "copies": Analysis(
        "warpsight.analysis.stats.copies",
        "copies",
        "Copies: sizes, speed against the link's, pageable and redundant ones, peers.",
    ),
    "communication": Analysis(
        "warpsight.analysis.stats.communication",
        "communication",
        "Collectives: time, how much of it stood alone, bandwidth by size.",
    ),
    "clocks": Analysis(
        "warpsight.analysis.stats.clocks",
        "clocks",
        "Clocks, power, throttling beside the kernels; time lost to low clocks.",
    ),
    "occupancy": Analysis(
        "warpsight.analysis.occupancy.kernels",
        "occupancy",
        "Theoretical occupancy, waves and tail of every kernel and shape.",
    ),
}


def analysis(name: str) -> Analysis:
    """The analysis of this name.

    Raises:
        UsageError: when there is none; the message names the nearest, or all.
    """
    if name not in ANALYSES:
        near = difflib.get_close_matches(name, ANALYSES, 1)
        hint = f"did you mean {near[0]}?" if near else f"analyses: {', '.join(ANALYSES)}"
        raise UsageError(f"there is no analysis {name!r}; {hint}")
    return ANALYSES[name]
