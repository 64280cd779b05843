"""Timed host stacks of any text format as columns, and their conversion to rows of a trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.formats.target import Target

Column = NDArray[Any]
#: Functions of CUDA's and HIP's runtimes and drivers that launch kernels or graphs.
LAUNCHES = re.compile(r"^(cuda|cu|hip)(Module|Ext|ExtModule)?(Launch|GraphLaunch)")
#: Other functions of them.
CALLS = re.compile(r"^(cuda|cu|hip)[A-Z]\w*$")
#: The largest time that fits in 64 bits, in ns.
_LAST = str((1 << 63) - 1)
_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds|_spt)+$")
_DECORATION = re.compile(r"(\+0x[0-9a-f]+|@plt|@@?[\w.]+| \[inlined\])+$")


@dataclass(frozen=True)
class Samples:
    """Timed stacks. `stack` indexes `stacks` (frames, outermost first), `label` indexes `labels`.

    A label says what was sampled: the function with the probe, or the event. Times are ns on
    the file's clock, int64[n]; `skipped` counts lines that do not have the format.
    """

    time: Column
    pid: Column
    tid: Column
    stack: Column
    label: Column
    stacks: Sequence[tuple[Frame, ...]]
    labels: Sequence[str]
    comm: Sequence[str | None]
    skipped: int = 0
    #: Correlation of the call in which each stack was taken, -1 for none; None if the source has no such ids.
    correlation: Column | None = None

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.time)


def is_time(digits: pa.Array) -> pa.BooleanArray:
    """Which digit strings (an Arrow array, at most 19 digits each) are ns values that fit 64 bits."""
    import pyarrow.compute as pc

    return pc.or_(pc.less(pc.utf8_length(digits), len(_LAST)), pc.less_equal(digits, _LAST))


@lru_cache(maxsize=1 << 16)
def called(function: str) -> str:
    """A function's name as the API spells it: without version and per-thread suffixes, offsets and leading underscores."""
    return _VERSION.sub("", _DECORATION.sub("", function.strip())).lstrip("_")


def is_launch(function: str) -> bool:
    """Whether a function (named as :func:`called` returns it) launches device work."""
    return bool(LAUNCHES.match(function))


def function_of(frames: Sequence[Frame]) -> str:
    """The API function nearest to the innermost frame of a stack, or empty."""
    for frame in reversed(frames[-8:]):
        if "cu" in frame[0] or "hip" in frame[0]:
            name = called(frame[0])
            if CALLS.match(name):
                return name
    return ""


def place(target: Target, samples: Samples) -> None:
    """Add samples: calls of a GPU runtime as `launch` and `api` rows (instants), all others as `sample` rows."""
    if not len(samples):
        return
    processes, threads = _process_and_thread(target, samples)
    stacks = np.array([target.stack(list(frames), "unwinder") or 0 for frames in samples.stacks], np.int64)
    functions = _functions(samples)
    listed = sorted(set(functions.tolist()))
    kinds = {
        name: "launch" if is_launch(name) else "api" if CALLS.match(name) else "sample" for name in listed
    }
    kind = np.array([kinds[name] for name in functions.tolist()]) if len(functions) else np.empty(0, "U6")
    for table in ("launch", "api", "sample"):
        rows = np.flatnonzero(kind == table)
        if not len(rows):
            continue
        found = stacks[samples.stack[rows]]
        columns: dict[str, Any] = {
            "thread": threads[rows],
            "process": processes[rows],
            "stack": _nullable(found),
        }
        if table == "sample":
            state = ["R"] * len(rows)
            target.add(
                "sample",
                {**columns, "time": samples.time[rows], "state": state, "gil": np.zeros(len(rows), bool)},
            )
            continue
        columns |= {"start": samples.time[rows], "duration": np.zeros(len(rows), np.int64)}
        columns["function"] = functions[rows].tolist()
        if table == "launch":
            columns["captured"] = np.zeros(len(rows), bool)
        target.add(table, columns)
    if (kind != "sample").any():
        target.note(
            "calls are instants: a probe at a function's entry does not show how long it took", "launch"
        )


def _functions(samples: Samples) -> Column:
    """The API function of each sample: its label's, otherwise the one in its stack."""
    labels = [called(label) for label in samples.labels]
    of_label = np.array([label if CALLS.match(label) else "" for label in labels] or [""], object)
    of_stack = np.array([function_of(frames) for frames in samples.stacks] or [""], object)
    named = of_label[samples.label]
    probes = np.array(
        [":" in label or bool(CALLS.match(called(label))) or not label for label in samples.labels] or [True]
    )
    from_stack = np.where(probes[samples.label], of_stack[samples.stack], "")
    found: Column = np.where(named != "", named, from_stack)
    return found


def _process_and_thread(target: Target, samples: Samples) -> tuple[Column, Column]:
    """Process and thread id of every sample."""
    pairs = np.stack([samples.pid, samples.tid], axis=1)
    distinct, first, where = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    processes, threads = [], []
    for (pid, tid), row in zip(distinct.tolist(), first.tolist(), strict=True):
        comm = samples.comm[row] if len(samples.comm) else None
        process = target.process(pid, **({"command": comm, "executable": comm} if comm else {}))
        processes.append(process)
        threads.append(target.thread(process, tid, comm))
    return np.array(processes, np.int32)[where.ravel()], np.array(threads, np.int32)[where.ravel()]


def _nullable(ids: Column) -> pa.Array:
    import pyarrow as pa

    return pa.array(ids.astype(np.int32), mask=ids == 0)
