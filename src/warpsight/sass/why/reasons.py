"""Stall reasons of PC sampling, and the rule that blames each kind.

The names are the hardware's (`smsp__pcsamp_warps_issue_stalled_NAME`) without prefix. A sample counts a warp at the instruction
it would issue next. `selected` is not a stall: the warp issued.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _Reason:
    """A stall reason.

    Attributes:
        rule: how its cause is found: `scoreboard` (the setters of the barriers the instruction waits for), `fixed` (the producer
            whose fixed time the stall counts cover), `barrier` (the barrier in front), `branch` (the branch in front), `queue`
            (what filled the queue), `warpgroup`, `stores` (what is not written yet), `self`.
        text: for people.
    """

    rule: str
    text: str


REASONS = {
    "barrier": _Reason("barrier", "waits for other warps at a barrier"),
    "branch_resolving": _Reason("branch", "waits until a branch's target is known"),
    "dispatch_stall": _Reason("self", "the dispatcher holds it back"),
    "drain": _Reason("stores", "waits at exit until its stores are written"),
    "imc_miss": _Reason("self", "waits for a constant that missed its cache"),
    "lg_throttle": _Reason("queue", "the queue for global and local memory is full"),
    "long_scoreboard": _Reason("scoreboard", "waits for global, local or texture memory, or an mbarrier"),
    "math_pipe_throttle": _Reason("self", "the arithmetic pipe is busy"),
    "membar": _Reason("stores", "waits at a memory fence"),
    "mio_throttle": _Reason("queue", "the queue for shared memory and special functions is full"),
    "misc": _Reason("self", "another hardware reason"),
    "no_instructions": _Reason("self", "waits for instructions to be fetched"),
    "not_selected": _Reason("self", "could issue, but another warp was chosen"),
    "selected": _Reason("self", "issues"),
    "short_scoreboard": _Reason("scoreboard", "waits for shared memory, a special function or an exchange"),
    "sleeping": _Reason("self", "sleeps"),
    "tex_throttle": _Reason("queue", "the texture queue is full"),
    "wait": _Reason("fixed", "waits the fixed time of an earlier instruction"),
    "warpgroup_arrive": _Reason("warpgroup", "waits for the warpgroup or its matrix products"),
    "gmma": _Reason("warpgroup", "waits for the warpgroup's matrix products"),
}
#: Not stalls: the warp issued, or was ready to.
NO_STALL = ("selected",)
_PREFIXES = ("smsp__pcsamp_warps_issue_stalled_", "stalled_", "stall_")


def plain(name: str) -> str:
    """A reason's name without the hardware's prefixes."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def reason(name: str) -> _Reason:
    """The rule for a reason; unknown reasons of later hardware stay where they were sampled."""
    return REASONS.get(name) or _Reason("self", name.replace("_", " "))
