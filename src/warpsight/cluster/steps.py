"""The steps of a job: stretches between collectives that end together on all ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.cluster.summary import codes, edges_of
from warpsight.cluster.waiting import GroupOperations, Waiting
from warpsight.model.work import numbered

Column = NDArray[Any]
#: Ranges that announce collectives: they do not delimit steps.
_NOT_STEPS = re.compile(r"^(nccl|gloo|c10d|record_param_comms)", re.IGNORECASE)
_MOST_PERIOD = 4096
#: An early step that takes this many times the usual is warm-up, if there are enough steps.
_WARM_UP, _FEW = 5, 4
#: Operations are periodic if this share of them repeats, and this share of each kind.
_REPEATED, _RARE = 0.97, 0.75


@dataclass(frozen=True)
class Steps:
    """The steps by their ends (ns, reference clock); `source` says how they were found, `begin` is the start of the first.

    `stretches[rank]` has the step number of each stretch of the rank's account, and `count` for stretches after the last step.
    """

    begin: int
    end: Column
    source: str
    stretches: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.end)

    @property
    def length(self) -> int:
        """Time from the start of the judged part to the end of the last step, ns; 0 without steps."""
        return int(self.end[-1]) - self.judged_from if len(self.end) else 0

    @property
    def judged_from(self) -> int:
        """The first collective of the first step, or the end of the warm-up.

        The warm-up, in which modules are loaded, ends with the last step among the first tenth that took many times the usual.
        """
        if len(self.end) < _FEW:
            return self.begin
        early = np.diff(np.append(self.begin, self.end))[: max(1, len(self.end) // 10)]
        long = np.flatnonzero(early > _WARM_UP * float(np.median(np.diff(self.end))))
        return int(self.end[long[-1]]) if len(long) else self.begin

    def judges(self, entry: Column) -> Column:
        """Which moments (ns, reference clock) are judged; work after the last step, such as a final barrier, is not."""
        inside: Column = entry > self.judged_from
        return inside & (entry <= self.end[-1] + _slack(self.end)) if len(self.end) >= _FEW else inside


def steps(waiting: Waiting) -> Steps:
    """Steps that the ranks announced, or else the period with which the operations of the largest group repeat."""
    joining = [met for met in waiting.groups if len(met.rows) and not met.paired.all()]
    # A barrier at the end joins no steps.
    largest = next((met for met in joining if (~met.paired).sum() >= _FEW), None)
    found = None if largest is None else _announced(waiting, largest)
    if not found and (own := _own(waiting)) is not None:
        return own
    if largest is None and (own := _messages(waiting)) is not None:
        return own
    largest = largest or next(iter(joining), None)
    if largest is None:
        return Steps(
            0, np.zeros(0, np.int64), "there are no collectives that ranks have in common", _none(waiting)
        )
    begin, end, source = found or _repeating(waiting, largest)
    placed = []
    for rank, one in enumerate(waiting.job.summaries):
        edges = waiting.job.clocks.corrected(rank, edges_of(one.collectives))
        # A stretch that ends with the step's last collective ends a little before or after it on other ranks.
        reach = np.append(edges, np.iinfo(np.int64).max)
        placed.append(np.searchsorted(end + _slack(end), reach, "left"))
    return Steps(begin, end, source, tuple(placed))


def _slack(end: Column) -> int:
    """A hundredth of the usual step: collectives end together up to much less than that."""
    return int(np.median(np.diff(end)) / 100) if len(end) > 1 else 1_000_000


def _none(waiting: Waiting) -> tuple[Column, ...]:
    return tuple(np.zeros(len(edges_of(one.collectives)) + 1, np.int64) for one in waiting.job.summaries)


def _announced(waiting: Waiting, met: GroupOperations) -> tuple[int, Column, str] | None:
    """Ends of the last collective of each iteration that the rank with the most iterations has."""
    best: tuple[int, Column, str] | None = None
    for rank, one in enumerate(waiting.job.summaries):
        label = one.steps["label"][0].as_py() if len(one.steps) else None
        if len(one.steps) < 3 or (label and _NOT_STEPS.match(label)):
            continue
        if best is None or len(one.steps) < best[0]:
            start = waiting.job.clocks.corrected(rank, one.steps["start"].to_numpy())
            best = len(one.steps), start, "the ranks' iterations"
    if best is None:
        return None
    _, start, source = best
    step = np.searchsorted(start, met.entry, "right") - 1
    final = np.flatnonzero(np.append(step[1:] != step[:-1], True) & (step >= 0))
    if len(final) < 3 or len(final) < 0.5 * len(start):
        return None
    return int(met.entry[step >= 0][0]), met.end[final], source


def _own(waiting: Waiting) -> Steps | None:
    """Each rank's own iterations, where all announce them and no collective joins them, as between the stages of a pipeline.

    A step ends where the last rank begins the next one.
    """
    starts = []
    for rank, one in enumerate(waiting.job.summaries):
        label = one.steps["label"][0].as_py() if len(one.steps) else None
        if len(one.steps) < 3 or (label and _NOT_STEPS.match(label)):
            return None
        starts.append(waiting.job.clocks.corrected(rank, one.steps["start"].to_numpy()))
    count = min(map(len, starts), default=0)
    if not count or max(map(len, starts)) > count + 1:
        return None
    last = max(int(waiting.job.clocks.corrected(rank, np.array([one.about.end]))[0])
               for rank, one in enumerate(waiting.job.summaries))  # fmt: skip
    end = np.append(np.max([start[1:count] for start in starts], axis=0), last)
    placed = []
    for rank, one in enumerate(waiting.job.summaries):
        reach = np.append(waiting.job.clocks.corrected(rank, edges_of(one.collectives)), last)
        placed.append(np.maximum(np.searchsorted(starts[rank][:count], reach, "left") - 1, 0))
    return Steps(int(min(start[0] for start in starts)), end, "the ranks' iterations", tuple(placed))


def _messages(waiting: Waiting) -> Steps | None:
    """Each rank's own periods, where nothing but messages joins the ranks and all have as many periods."""
    found = [_repeated(waiting, rank) for rank in range(len(waiting.job.summaries))]
    count = min((len(end) for end, _ in found), default=0)
    if count < _FEW or max(len(end) for end, _ in found) > count + 1:
        return None
    placed = []
    for rank, (end, _) in enumerate(found):
        reach = np.append(
            waiting.job.clocks.corrected(rank, edges_of(waiting.job.summaries[rank].collectives)), end[-1] + 1
        )
        placed.append(np.minimum(np.searchsorted(end[:count], reach, "left"), count))
    return Steps(
        waiting.job.window[0],
        np.max([end[:count] for end, _ in found], axis=0),
        "the messages' period",
        tuple(placed),
    )


def _repeating(waiting: Waiting, met: GroupOperations) -> tuple[int, Column, str]:
    end, period = _repeated(waiting, met.group.ranks[0])
    return (
        min(int(met.entry[0]), int(end[0])),
        end,
        f"every {period} collectives, which repeat" if period > 1 else "every collective",
    )


def _repeated(waiting: Waiting, rank: int) -> tuple[Column, int]:
    """Ends of the last operation of each period with which a rank's operations in all its groups repeat, and the period."""
    listed = waiting.job.summaries[rank].collectives
    known = [codes(listed[name])[0] for name in ("group", "members", "operation")]
    numbers = [listed[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("bytes", "peer")]
    code, _ = numbered([*known, *numbers])
    period, first = _period(code)
    # Operations before the repetition, such as a framework's warm-up, form a step of their own.
    final = np.arange(first - 1 if first else period - 1, len(code), period)
    if not len(final):
        final = np.arange(len(code))[-1:]
    return np.sort(waiting.job.clocks.corrected(rank, listed["end"].to_numpy()[final])), period


def _period(code: Column) -> tuple[int, int]:
    """The shortest period at which nearly all codes repeat, rare ones included, and where the repetition starts.

    That is the first place where it can be, else one in the first half; a period of 1 from the first on where there is none.
    """
    half = len(code) // 2
    for most in (0, half):
        for period in range(1, min(half, _MOST_PERIOD) + 1):
            same = code[period:] == code[:-period]
            first = _regular_from(same, min(most, len(same) - period))
            if first >= 0 and _all_repeat(code[first:], same[first:], period):
                return period, first
    return 1, 0


def _regular_from(same: Column, most: int) -> int:
    """The first position, at most `most`, after which the sequence is nearly regular; -1 if there is none."""
    if float(same.mean()) >= _REPEATED:
        return 0
    if most <= 0 or float(same[most:].mean()) < _REPEATED:
        return -1
    share = np.cumsum(same[::-1])[::-1] / np.arange(len(same), 0, -1)
    first = int(np.flatnonzero((share >= _REPEATED) & same)[0])
    return first if first <= most else -1


def _all_repeat(code: Column, same: Column, period: int) -> bool:
    """Whether each frequent code repeats mostly."""
    count = np.bincount(code)
    often = count >= _FEW
    beside = np.bincount(code[period:], same, len(count))[often]
    return bool(
        (beside >= _RARE * (count[often] - np.bincount(code[:period], minlength=len(count))[often])).all()
    )
