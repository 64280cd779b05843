"""Advice for each class of the account."""

from __future__ import annotations

from warpsight.analysis.account.classes import (
    BLOCKED_CALL,
    COMMUNICATION,
    COMPUTE,
    COPY,
    HOST,
    LAUNCH,
    OTHER_STREAM,
    RECORDER,
    UNKNOWN,
)
from warpsight.analysis.account.pieces import MIGRATION
from warpsight.model.naming import api_names

_TEXTS = {
    COMPUTE: "Whatever makes this kernel faster makes the program faster: profile it by itself next.",
    COMMUNICATION: "Overlap it: smaller or earlier gradient buckets, prefetching of parameters, a stream of its own; where "
    "ranks wait for a slow one, the slow one is the cause.",
    COPY: "Copy on a stream of its own beside the kernels, keep on the device what does not change, and collect small copies "
    "into large ones.",
    HOST: "Do this work while the GPU is busy: launch before it, move it to another thread or process, or do less of it.",
    LAUNCH: "Launch less often: fuse kernels, batch more work into each, or replay the sequence as a graph.",
    OTHER_STREAM: "Look at what the event waits for: start that work earlier, or remove the dependency.",
    RECORDER: "Record less (fewer ranges, no host samples): this time is not the program's.",
    UNKNOWN: "Record from the program's start and all of its GPU work: what this work waited for, or who launched it, is not "
    "in the trace.",
}
_KERNELS = "Look at each of these kernels by itself next (`warpsight stats kernels`): they share a template, not their work."
#: Launches into an idle device take microseconds; such as take a tenth of a millisecond or more load code.
LOADS_CODE_NS = 100_000
_LOADING = (
    "Launches that take this long load the code of kernels that run for the first time, or set something up: launch them once "
    "before it matters, load code eagerly or beside other work, and keep caches of compiled kernels."
)
_WAIT = "Wait later and less often: read results once per several steps, and let the host run ahead of the device."
_MIGRATION = (
    "Prefetch managed memory to where it is used next (cudaMemPrefetchAsync), or copy it: else the first access to each page "
    "waits for its migration."
)
_ALLOCATION = "Allocate once and reuse, or allocate from a pool: this call waits for the device or for the operating system."


def of(kind: int, name: str, usual: int = 0, count: int = 2) -> str:
    """Advice for a class: for `count` kernels or blocking calls by purpose, for launches by their `usual` length (ns)."""
    if kind == COMPUTE and count > 1:
        return _KERNELS
    if kind == LAUNCH and usual >= LOADS_CODE_NS:
        return _LOADING
    if kind == COPY and name.endswith(", pageable"):
        return _TEXTS[COPY].replace("Copy", "Copy from pinned memory", 1)
    if kind == UNKNOWN and name == MIGRATION:
        return _MIGRATION
    if kind != BLOCKED_CALL:
        return _TEXTS[kind]
    if api_names.waits(name) or "synchronization" in name:
        return _WAIT
    if api_names.blocks(name) and any(word in name for word in ("alloc", "Alloc", "Free")):
        return _ALLOCATION
    return f"Call it {'before it matters' if count == 1 else 'once, before the loop'}, or beside the device's work."
