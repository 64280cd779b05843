"""Advice for each class of the account."""

from __future__ import annotations

from dataclasses import dataclass

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
from warpsight.analysis.account.pieces import AFTER, MIGRATION
from warpsight.model.naming import api_names
from warpsight.model.naming.kernel_names import WHOLE_GRAPH

_TEXTS = {
    COMPUTE: "Whatever makes this kernel faster makes the program faster: profile it by itself next.",
    COMMUNICATION: "Overlap it: begin it earlier, in smaller pieces (gradient buckets, prefetched parameters){stream}; if "
    "ranks wait for a slow one, that rank is the cause.",
    HOST: "Do this work while the GPU is busy: launch before it, move it to another thread or process, or do less of it.",
    LAUNCH: "Launch less often: fuse kernels, batch more work into each, or replay the sequence as a graph.",
    OTHER_STREAM: "Look at what the event waits for: start that work earlier, or remove the dependency.",
    RECORDER: "Record less (fewer ranges, no host samples): this time is not the program's.",
    UNKNOWN: "Record from the program's start and all of its GPU work: what this work waited for, or who launched it, is not "
    "in the trace.",
}
#: Prefixes of torch's functions that wait for a batch.
_LOADERS = {
    "enumerate(DataLoader)#_MultiProcessing": "The loader's processes do not keep up: give it more of them (num_workers), keep "
    "them between epochs (persistent_workers), or do less for each sample.",
    "enumerate(DataLoader)#_SingleProcess": "Load batches in other processes while the GPU is busy (DataLoader(num_workers=…)), "
    "or do less for each sample.",
}
_KERNELS = "Look at each of these kernels by itself next (`warpsight stats kernels`): they share a template, not their work."
#: Launches into an idle device take microseconds; those that take a tenth of a millisecond or more load code.
LOADS_CODE_NS = 100_000
_LOADING = (
    "Launches that take this long load the code of kernels that run for the first time, or set something up: launch them once "
    "before it matters, load code eagerly or beside other work, and keep caches of compiled kernels."
)
_WAIT = "Wait later and less often: read results once per several steps, and let the host run ahead of the device."
_WHOLE_GRAPH = (
    "Record the graph's kernels instead of whole launches, to see which of them take the time: `nsys profile "
    "--cuda-graph-trace=node`, `warpsight record --graph node`."
)
_MIGRATION = (
    "Prefetch managed memory to where it is used next (cudaMemPrefetchAsync), or copy it: else the first access to each page "
    "waits for its migration."
)
_HELD_BACK = (
    "The launch returned long before its work began: look at what else uses this GPU (another process, a display, work from "
    "before the recording), and whether the driver submits launches in batches, as on Windows and WSL."
)
#: Advice for kernels during which pages of managed memory move.
PAGED = (
    "Pages of managed memory migrate while it runs, and it waits for those that it touches: prefetch them "
    "(cudaMemPrefetchAsync), or copy them to device memory, before it starts."
)
#: Advice for calls that copy in a recording without copies.
UNSEEN_COPIES = (
    "Record copies too: how long the copies of these calls took, and in which direction, is not in the trace."
)
_BLOCKING_COPY = "Copy asynchronously, with pinned memory, and wait only where the data is used."
_ALLOCATION = "Allocate once and reuse, or allocate from a pool: this call waits for the device or for the operating system."


@dataclass(frozen=True)
class Transfers:
    """Copies, fills or collectives that no kernel hides.

    Attributes:
        own_stream: Most of their time is on streams that run next to no kernels; None where the devices run no kernels.
        small: Half of the time is in copies of a few bytes.
    """

    own_stream: bool | None = None
    small: bool = False


_NOTHING_KNOWN = Transfers()


def _of_copies(name: str, found: Transfers) -> str:
    """Advice for copies and fills, by the name that takes most of the time."""
    if name.endswith(", managed"):
        return _MIGRATION
    pinned = f" {'to' if 'DtoH' in name else 'from'} pinned memory" if name.endswith(", pageable") else ""
    todo = ["keep unchanged data on the device"]
    if name == "memset":
        todo = ["let the kernel that follows write the zeros"]
    elif "DtoD" in name:
        todo = ["write results where they are needed (in place, into views), which saves the copy"]
    elif found.own_stream:
        todo.insert(0, f"begin them earlier{pinned and ','}{pinned}")
    elif found.own_stream is not None:
        todo.insert(0, f"copy{pinned} on a stream of its own beside the kernels")
    elif pinned:
        todo.insert(0, f"copy{pinned}")
    if found.small:
        todo.append("collect small copies into large ones")
    several = len(todo) > 2 or (len(todo) > 1 and "," in todo[0])
    text = f"{', '.join(todo[:-1])}, and {todo[-1]}." if several else f"{' and '.join(todo)}."
    if found.own_stream and "begin" in text:
        return f"The copies have a stream of their own, but no kernel runs beside them: {text}"
    return text[0].upper() + text[1:]


def of(kind: int, name: str, usual: int = 0, count: int = 2, found: Transfers = _NOTHING_KNOWN) -> str:
    """Advice for a class: for `count` kernels or blocking calls by purpose, for launches by their `usual` length (ns)."""
    if kind == COMPUTE and name.startswith(WHOLE_GRAPH):
        return _WHOLE_GRAPH
    if kind == COMPUTE and count > 1:
        return _KERNELS
    if kind == LAUNCH and usual >= LOADS_CODE_NS:
        return _LOADING
    if kind == COPY:
        return _of_copies(name, found)
    if kind == COMMUNICATION:
        return _TEXTS[kind].format(stream="" if found.own_stream else ", on a stream of its own")
    if kind == UNKNOWN and name == MIGRATION:
        return _MIGRATION
    if kind == UNKNOWN and name.startswith(AFTER):
        return _HELD_BACK
    if kind == HOST:
        loader = (text for prefix, text in _LOADERS.items() if name.startswith(prefix))
        return next(loader, _TEXTS[HOST])
    if kind != BLOCKED_CALL:
        return _TEXTS[kind]
    if api_names.waits(name) or "synchronization" in name:
        return _WAIT
    if api_names.blocks(name) and any(word in name for word in ("alloc", "Alloc", "Free")):
        return _ALLOCATION
    if "emcpy" in name:
        return _BLOCKING_COPY
    return f"Call it {'before it matters' if count == 1 else 'once, before the loop'}, or beside the device's work."
