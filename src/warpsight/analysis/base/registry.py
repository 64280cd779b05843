"""The analyses available by name (`warpsight analyze TRACE NAME`): one line here and one module each."""

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
    """One analysis: `function(trace, rows) -> Result` in `module`, and a one-line description of the question it answers."""

    module: str
    function: str
    meaning: str

    def run(self, trace: StoredTrace, rows: Rows) -> Result:
        """Run it on the selected rows; the module is imported on demand."""
        function: Callable[[StoredTrace, Rows], Result] = getattr(
            importlib.import_module(self.module), self.function
        )
        return function(trace, rows)


#: Name, module below `warpsight.analysis` (with `:function` unless it is called like the analysis), meaning; in reading order.
_LISTED = """
utilization      stats.utilization       How busy each device and stream was: 0 to 1, what overlaps counted once.
concurrency      stats.utilization       How much work ran at once, and for how long.
breakdown        stats.utilization       What each device did over time: compute, communication, copies, idle.
overlap          stats.overlap           How far computation, communication and copies hid behind each other.
ranges           ranges.open             GPU time by the NVTX range it was launched in, with the ranges inside it.
range-instances  ranges.instances      Every range as the GPU saw it, how far behind the host, and the pace of ranges of one name.
range-kernels    ranges.instances        The kernels of each range: how often, how long.
sequences        steps.sequences         Kernels that operators launch one after another again and again: what to fuse first.
kernel-times     stats.kernels           Times of every kernel name: count, total, average, percentiles.
kernel-durations stats.kernels           How kernel durations are distributed.
launch-latency   stats.launches          How long kernels waited after their launch call, and for what.
queue-depth      stats.launches          How much launched work waited for each stream and device, over time.
launch-bound     stats.launches          Stretches in which the device waited for every single launch.
launch-overhead  stats.launches          Shares of short kernels, of calls longer than their kernel, of graphs.
iterations       steps.iterations        The turns of the main loop, which of them are the steady state, and which stand out.
findings         rules                   Everything the rules find, with its share of the time or its saving, and advice.
memory           memory.use              Memory over time, its peak and holders, leaks, wrong frees, fragmentation.
phases           steps.phases            Device time of forward, backward, optimiser, communication and data loading.
critical-path    path.critical_path      What the recorded time was spent on, along the chain of what released what.
account          account.questions:spans Every nanosecond of every device, once: what it computed and copied, and why it was idle.
gaps             account.questions       Why the devices were idle: every gap, cut along time by cause.
states           stats.states            How long each stream was running, waiting, queued, complete, idle.
state-history    stats.states            Every stretch of every stream in one state.
copies           stats.copies            Copies: sizes, speed against the link's, pageable and redundant ones, peers.
communication    stats.communication     Collectives: time, how much of it stood alone, bandwidth by size.
clocks           stats.clocks            Clocks, power, throttling beside the kernels; time lost to low clocks.
occupancy        occupancy.kernels       Theoretical occupancy, waves and tail of every kernel and shape.
"""


def _analyses() -> dict[str, Analysis]:
    found = {}
    for line in _LISTED.strip().splitlines():
        name, place, meaning = line.split(None, 2)
        module, _, function = place.partition(":")
        found[name] = Analysis(f"warpsight.analysis.{module}", function or name.replace("-", "_"), meaning)
    return found


ANALYSES: dict[str, Analysis] = _analyses()


def analysis(name: str) -> Analysis:
    """The analysis of this name.

    Raises:
        UsageError: when there is none; the message names similar ones, or all.
    """
    if name not in ANALYSES:
        near = difflib.get_close_matches(name, ANALYSES, 1)
        hint = f"did you mean {near[0]}?" if near else f"analyses: {', '.join(ANALYSES)}"
        raise UsageError(f"there is no analysis {name!r}; {hint}")
    return ANALYSES[name]
