"""The two sides of a merge as columns: stacks from outside, and a trace's calls with the device work they launched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.reading.samples import Samples, called, function_of, is_launch
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Calls other than launches whose device work can be merged.
_COPIES = ("cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset", "hipMemcpy", "hipMemset")


@dataclass(frozen=True)
class LaunchingCalls:
    """Calls that launched device work.

    `start` is their begin (ns), `process` an id of the trace, `function` a place in `functions`.
    """

    start: Column
    thread: Column
    process: Column
    correlation: Column
    function: Column
    functions: list[str]

    def __len__(self) -> int:
        """Number of calls."""
        return len(self.start)


@dataclass(frozen=True)
class LaunchedWork:
    """Device work: the call that launched it (an index into `LaunchingCalls`, -1 if none), its label, ns and bytes."""

    call: Column
    label: Column
    labels: list[str]
    duration: Column
    bytes: Column

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.call)


def calls_of(trace: StoredTrace) -> LaunchingCalls:
    """Launches, and copies and sets with a correlation."""
    copies = " OR ".join(f"starts_with(function, '{name}')" for name in _COPIES)
    source = f"""SELECT start, thread, process, coalesce(correlation, -1) AS correlation, function FROM launch_ids
        WHERE NOT captured
        UNION ALL SELECT start, thread, process, correlation, function FROM api
        WHERE correlation IS NOT NULL AND ({copies})"""
    data = trace.sql(f"SELECT * FROM ({source}) ORDER BY start").to_arrow_table()
    encoded = data["function"].combine_chunks().dictionary_encode()
    raw = encoded.dictionary.to_pylist()
    names = [called(name.removeprefix("Runtime: ").removeprefix("Driver: ")) for name in raw]
    wanted = ("start", "thread", "process", "correlation")
    start, thread, process, correlation = (data[name].to_numpy().astype(np.int64) for name in wanted)
    listed = sorted(set(names))
    place = np.array([listed.index(name) for name in names] or [0], np.int64)
    return LaunchingCalls(
        start,
        thread,
        process,
        correlation,
        place[encoded.indices.to_numpy()] if len(data) else np.empty(0, np.int64),
        listed,
    )


def work_of(trace: StoredTrace, calls: LaunchingCalls) -> LaunchedWork:
    """Kernels, copies and sets, joined with their calls by process and correlation."""
    data = trace.sql("""
        SELECT process, coalesce(correlation, -1) AS correlation, duration, 0 AS bytes, short AS name, 'Kernel' AS kind
          FROM kernel WHERE start IS NOT NULL
        UNION ALL SELECT process, coalesce(correlation, -1), duration, bytes, kind, 'Memcpy' FROM memcpy
        UNION ALL SELECT process, coalesce(correlation, -1), duration, bytes, memory_kind, 'Memset' FROM memset
        """).to_arrow_table()
    import pyarrow.compute as pc

    label = pc.binary_join_element_wise("[GPU_", data["kind"], "]", pc.coalesce(data["name"], "?"), "")
    encoded = label.combine_chunks().dictionary_encode()
    process, correlation = (data[n].to_numpy().astype(np.int64) for n in ("process", "correlation"))
    duration = pc.fill_null(data["duration"], 0).to_numpy().astype(np.int64)
    place = joined(calls, process, correlation)
    indices = encoded.indices.to_numpy().astype(np.int64)
    labels = [text.replace(";", ":") for text in encoded.dictionary.to_pylist()]
    return LaunchedWork(place, indices, labels, duration, data["bytes"].to_numpy().astype(np.int64))


def joined(calls: LaunchingCalls, process: Column, correlation: Column) -> Column:
    """The call of each piece of work, or -1; if two calls share an id, the later one (the driver's)."""
    if not len(calls) or not len(process):
        return np.full(len(process), -1, np.int64)
    callers = np.unique(calls.process)
    if len(callers) == 1 and not np.isin(process, callers).any():
        process = np.full(len(process), callers[0])  # a dialect that lists devices as processes
    processes = np.unique(np.concatenate([calls.process, process]))
    both = np.stack([np.searchsorted(processes, np.concatenate([calls.process, process])),
                     np.concatenate([calls.correlation, correlation])], axis=1)  # fmt: skip
    low, span = both[:, 1].min(), int(both[:, 1].max() - both[:, 1].min()) + 1
    if span > (1 << 62) // (len(processes) + 1):
        _, ids = np.unique(both[:, 1], return_inverse=True)
        key = both[:, 0] * (len(ids) + 1) + ids.ravel()
    else:
        key = both[:, 0] * span + (both[:, 1] - low)
    ours, theirs = key[: len(calls)], key[len(calls) :]
    order = np.argsort(ours, kind="stable")
    place = np.searchsorted(ours[order], theirs, "right") - 1
    found: Column = np.where(place >= 0, order[np.maximum(place, 0)], -1)
    wrong = (found >= 0) & ((ours[np.maximum(found, 0)] != theirs) | (correlation < 0))
    found[wrong] = -1
    return found


def pids_of(trace: StoredTrace) -> dict[int, int]:
    """Process ids of the trace by pid."""
    return {pid: process for process, pid in trace.sql("SELECT process, pid FROM process").fetchall()}


def probed(samples: Samples) -> tuple[Column, list[str]]:
    """The API function at which each sample was taken (an index into the list; `` if unknown)."""
    of_label = [called(label.rpartition(":")[2]) for label in samples.labels]
    by_label = [name if is_launch(name) or name.startswith(_COPIES) else "" for name in of_label]
    by_stack = [function_of(frames) for frames in samples.stacks]
    listed = sorted({*by_label, *by_stack, ""})
    place = {name: i for i, name in enumerate(listed)}
    label = np.array([place[name] for name in by_label] or [0], np.int64)[samples.label]
    stack = np.array([place[name] for name in by_stack] or [0], np.int64)[samples.stack]
    return np.where(label != place[""], label, stack), listed


def load_samples(path: str | os.PathLike[str]) -> Samples:
    """Load stacks from any text format that has them, or from a trace's launches and samples.

    Raises:
        FormatError: when the file has none of these formats, or no stack with a time.
    """
    from warpsight.formats import registry
    from warpsight.formats.errors import FormatError
    from warpsight.formats.importing import is_trace, open_any
    from warpsight.formats.source import Source

    text = os.fspath(path)
    if not is_trace(text):
        with Source(path) as source:
            form = registry.sniff(source)
            parse = registry.reader(form).stacks_parser() if form else None
            if parse is not None:
                with source.open() as file:
                    samples = parse(file.read())
                if not len(samples):
                    raise source.error(
                        f"has no stack with a time ({samples.skipped:,} lines were not understood)"
                    )
                return samples
    with open_any(path) as trace:
        samples = _from_trace(trace)
        if not len(samples):
            raise FormatError(text, "has no stacks: neither its calls nor its samples have any")
        return samples


def _from_trace(trace: StoredTrace) -> Samples:
    """The stacks of a trace's calls, or of its samples if no call has a stack."""
    columns = "start, process, thread, stack, function, coalesce(correlation, -1) AS correlation"
    called_in = f"""SELECT {columns} FROM launch_ids WHERE stack IS NOT NULL
        UNION ALL SELECT {columns} FROM api WHERE stack IS NOT NULL"""
    sampled = """SELECT time AS start, process, thread, stack, '' AS function, -1 AS correlation
        FROM sample WHERE stack IS NOT NULL"""
    query = """SELECT c.start, p.pid, c.thread, c.stack, c.function, c.correlation
        FROM ({}) c JOIN process p USING (process) ORDER BY 1"""
    data = trace.sql(query.format(called_in)).to_arrow_table()
    if not len(data):
        data = trace.sql(query.format(sampled)).to_arrow_table()
    ids, place = np.unique(data["stack"].to_numpy(), return_inverse=True)
    names = dict(trace.sql("SELECT id, function FROM frame").fetchall())
    tree = {
        i: (parent, frame) for i, parent, frame in trace.sql("SELECT id, parent, frame FROM stack").fetchall()
    }
    encoded = data["function"].combine_chunks().dictionary_encode()
    start, pid, thread, correlation = (
        data[n].to_numpy().astype(np.int64) for n in ("start", "pid", "thread", "correlation")
    )
    return Samples(
        start, pid, thread, place.astype(np.int64), encoded.indices.to_numpy().astype(np.int64),
        [_chain(int(i), tree, names) for i in ids], encoded.dictionary.to_pylist() or [""], [],
        correlation=correlation if (correlation >= 0).any() else None,
    )  # fmt: skip


def _chain(stack: int, tree: dict[int, tuple[int | None, int]], names: dict[int, str]) -> tuple[Frame, ...]:
    """The frames of a stack, outermost first."""
    chain: list[Frame] = []
    at: int | None = stack
    while at is not None and at in tree:
        at, frame = tree[at]
        chain.append((names[frame], None, None, None, "native", None))
    return tuple(reversed(chain))


def by_id(samples: Samples, calls: LaunchingCalls, process: Column, at: Column, names: list[str]) -> Column:
    """The call of each sample by process and correlation, -1 without one.

    Ids count only if both files use the same ones: nearly all that are found must be calls of the same function.
    """
    none = np.full(len(samples), -1, np.int64)
    if samples.correlation is None or not len(calls):
        return none
    found = joined(calls, process, np.where(process >= 0, samples.correlation, -1))
    hits = np.flatnonzero(found >= 0)
    if not len(hits):
        return none
    place = {name: i for i, name in enumerate(calls.functions)}
    expected = np.array([place.get(name, -1) for name in names], np.int64)[at[hits]]
    has_thread = expected >= 0
    same = expected[has_thread] == calls.function[found[hits[has_thread]]]
    twice = np.bincount(found[hits], minlength=len(calls)) > 1
    if not has_thread.any() or float(same.mean()) < 0.95:
        return none
    found[hits[twice[found[hits]]]] = -1
    return found
