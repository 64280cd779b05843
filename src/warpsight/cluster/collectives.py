"""The collectives of one rank, in the order in which it entered them.

Table `collective` has them where a source has their sizes and groups (NCCL's profiler interface, Kineto, Nsight Systems, …). Else
NCCL's own NVTX ranges are used, which carry the communicator and the size: a communication kernel belongs to the calls of its
thread since the launch of the kernel before it. A kernel with neither is known by its name and counted by its stream; if its name
does not tell which operation its messages belong to, PyTorch's range around its launch (`nccl:all_to_all`) does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.base.tables import table
from warpsight.model import calls as host_calls
from warpsight.model import work as device_work
from warpsight.model.calls import joined
from warpsight.model.naming import collective_names
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_Row = dict[str, Any]
COLUMNS = """start:int64:ns end:int64:ns operation:string bytes:int64:B dtype:string ranks:int32 group:string sequence:int64
    members:string peer:int32 rank:int32 kernel:string algorithm:string"""
#: Operations that a rank requested and whose kernels never ended; `place` is the user's function that requested them.
UNFINISHED = """start:int64:ns operation:string bytes:int64:B dtype:string group:string sequence:int64 peer:int32 rank:int32
    place:string"""
_READ = ["start", "duration", "operation", "bytes", "dtype", "ranks", "group", "correlation", "sequence", "members", "peer",
         "rank", "algorithm", "channels", "call", "id", "process"]  # fmt: skip
#: Fields of the payloads of NCCL's NVTX ranges (`nccl/src/include/nvtx_payload_schemas.h`).
_COMMUNICATOR, _SIZE, _RANKS, _PEER = (
    "NCCL communicator ID",
    "Message size [bytes]",
    "No. of ranks",
    "Peer rank",
)


def collectives(trace: StoredTrace, process: int) -> pa.Table:
    """The collectives of a process by start, with columns :data:`COLUMNS`; unknown values are null.

    `start` and `end` are those of the operation's kernel, or of the row itself if no kernel is known.
    """
    rows = _recorded(trace, process)
    work = device_work.load(trace, Rows(processes=(process,)))
    kernels = np.flatnonzero(work.kind == COMMUNICATION)
    names = _kernel_names(trace, work, kernels)
    if rows:
        found, used = _of_table(rows, work, kernels, names)
        if any(
            row["channels"] is not None for row in rows
        ):  # NCCL does not report launches from a CUDA graph
            left = np.setdiff1d(kernels, used)
            found += _of_ranges(trace, process, work, left, names) if len(left) else []
    else:
        found = _of_ranges(trace, process, work, kernels, names)
    found.sort(key=lambda row: (row["start"], row["end"]))
    return table(COLUMNS, found)


def announced(trace: StoredTrace) -> bool:
    """Whether the trace has collectives as the program requested them, ending with their kernels."""
    return bool(trace.count("collective")) and trace.arrow("collective")["duration"].null_count > 0


def unfinished(trace: StoredTrace, process: int) -> pa.Table:
    """The operations of a process that did not end while it was recorded, with columns :data:`UNFINISHED`, in order.

    CUPTI delivers a kernel once it has ended. Rows of table `collective` without a kernel were still running or queued if they
    come after the last row of their group that has a kernel. If they come before it, the kernel's record was lost.
    """
    if not announced(trace):
        return table(UNFINISHED, [])
    rows = _recorded(trace, process)
    work = device_work.load(trace, Rows(processes=(process,)))
    ended = set(work.correlation[work.kind == COMMUNICATION].tolist())
    last: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row["duration"] is not None or row["correlation"] in ended:
            last[row["group"]] = number
    left = [row for number, row in enumerate(rows) if number > last.get(row["group"], -1)]
    asked = sorted({row["correlation"] for row in left if row["correlation"] is not None})
    sql = "SELECT correlation, stack FROM launch WHERE process = $p AND stack IS NOT NULL AND list_contains($c, correlation)"
    of_call = dict(trace.sql(sql, p=process, c=asked).fetchall()) if asked else {}
    stacks = trace.stacks(list(of_call.values()))
    for row in left:
        row["place"] = user_frames(stacks.get(of_call.get(row["correlation"], -1), ()), 1) or None
    return table(UNFINISHED, left)


def _recorded(trace: StoredTrace, process: int) -> list[_Row]:
    if not trace.count("collective"):
        return []
    listed = trace.arrow("collective").select(_READ)
    rows: list[_Row] = listed.filter(pc.equal(listed["process"], process)).to_pylist()
    return sorted(rows, key=lambda row: row["id"] or 0)


def _kernel_names(
    trace: StoredTrace, work: Work, kernels: Column
) -> dict[int, tuple[str, collective_names.CollectiveName]]:
    """The short name of each communication kernel and the collective that it implies, by name id."""
    wanted = set(np.unique(work.name_id[kernels]).tolist())
    if not wanted:
        return {}
    out = {}
    for number, full, demangled, short in trace.rows("name", "id", "name", "demangled", "short"):
        if number in wanted:
            parsed = next((t for t in map(collective_names.parse, (demangled, full)) if t is not None), None)
            out[number] = short, parsed or collective_names.CollectiveName("", "unknown")
    return out


def _of_table(
    rows: list[_Row], work: Work, kernels: Column, names: dict[int, Any]
) -> tuple[list[_Row], list[int]]:
    """Rows of table collective with the times of their kernels, one for each kernel, and those kernels."""
    correlation = np.array([-1 if r["correlation"] is None else r["correlation"] for r in rows], np.int64)
    process = np.zeros(len(rows), np.int64)
    place = joined(process, correlation, np.zeros(len(kernels), np.int64), work.correlation[kernels])
    out: list[_Row] = []
    of_kernel: dict[int, list[_Row]] = {}
    for row, at in zip(rows, place.tolist(), strict=True):
        if at >= 0:
            of_kernel.setdefault(int(kernels[at]), []).append(row)
        elif row["start"] is not None and row["duration"] is not None:
            out.append({**row, "end": row["start"] + row["duration"], "kernel": None})
    for kernel, parts in of_kernel.items():
        short, parsed = names[int(work.name_id[kernel])]
        one = parts[0] if len(parts) == 1 else _coalesced(parts)
        out.append({
            **one, "start": int(work.start[kernel]), "end": int(work.end[kernel]), "kernel": short,
            "algorithm": one["algorithm"] or parsed.algorithm or None,
        })  # fmt: skip
    return out, list(of_kernel)


def _coalesced(parts: list[_Row]) -> _Row:
    """The operations that one kernel did, as one.

    Messages to and from several ranks, or to the rank itself, are an all-to-all: what a rank sends is its size. Messages with
    one other rank have the number of the first of them.
    """
    first = dict(parts[0])
    sizes = [row["bytes"] for row in parts]
    first["bytes"] = None if None in sizes else sum(sizes)
    if any(row["operation"] not in ("send", "receive") for row in parts):
        return first
    sent = [row for row in parts if row["operation"] == "send"]
    peers = {row["peer"] for row in parts}
    asked = {row["call"] for row in parts} - {None}
    if len(peers) == 1 and not asked:
        numbers = [row["sequence"] for row in parts if row["sequence"] is not None]
        both = 0 < len(sent) < len(parts)
        return first | {
            "sequence": min(numbers, default=None),
            "operation": "send-receive" if both else first["operation"],
        }
    spread = len(peers) > 2 or (first["rank"] is not None and first["rank"] in peers)
    operation = asked.pop() if asked else "all-to-all" if spread else "send-receive"
    size = sum(row["bytes"] for row in sent) if sent and None not in sizes else first["bytes"]
    # Separate group: these have no number among the collectives.
    return first | {
        "operation": operation,
        "bytes": size,
        "peer": None,
        "sequence": None,
        "group": f"{first['group']} messages",
    }


def _of_ranges(
    trace: StoredTrace, process: int, work: Work, kernels: Column, names: dict[int, Any]
) -> list[_Row]:
    """Communication kernels with what NCCL's ranges announced before their launch, on the launching thread."""
    if not len(kernels):
        return []  # without a query, which costs a database
    called = _announced(trace, process)
    issued, call = host_calls.of_work(trace, work)
    out = []
    for kernel in kernels.tolist():
        short, parsed = names[int(work.name_id[kernel])]
        queue = work.queues[int(work.queue[kernel])]
        out.append({
            "start": int(work.start[kernel]), "end": int(work.end[kernel]), "operation": parsed.operation, "bytes": None,
            "dtype": parsed.dtype or None, "ranks": None, "group": f"stream {queue.stream}", "sequence": None, "members": None,
            "peer": None, "rank": None, "kernel": short, "algorithm": parsed.algorithm or None,
        })  # fmt: skip
    if called:
        _describe(out, called, issued, call[kernels])
    _titled(out, trace, process, issued, call[kernels])
    return out


def _titled(
    out: list[_Row], trace: StoredTrace, process: int, issued: host_calls.Calls, call: Column
) -> None:
    """Take the operation from PyTorch's range around the launch if the kernel's name does not identify it."""
    open_ = np.array([row["operation"] in collective_names.OPEN for row in out], bool) & (call >= 0)
    if not open_.any():
        return
    sql = f"""SELECT thread, start, start + duration AS stop, name FROM marker
        WHERE process = {int(process)} AND starts_with(name, 'nccl:') AND duration > 0 ORDER BY start"""
    ranges = trace.sql(sql).fetchnumpy()
    for thread in np.unique(issued.thread[call[open_]]).tolist():
        mine = np.flatnonzero(ranges["thread"] == thread)
        rows = np.flatnonzero(open_)[issued.thread[call[open_]] == thread]
        launched = issued.start[call[rows]]
        last = np.searchsorted(ranges["start"][mine], launched, "right") - 1
        for row, at, when in zip(rows.tolist(), last.tolist(), launched.tolist(), strict=True):
            if at >= 0 and when <= ranges["stop"][mine[at]]:
                title = collective_names.titled(str(ranges["name"][mine[at]]))
                out[row]["operation"] = title or out[row]["operation"]


def _announced(trace: StoredTrace, process: int) -> list[_Row]:
    """Calls of NCCL with their payloads, by thread and begin; the sizes of communicators come from their creation."""
    sql = f"""SELECT thread, start, name, attributes FROM marker
        WHERE process = {int(process)} AND name LIKE 'nccl%' AND attributes IS NOT NULL ORDER BY thread, start"""
    size: dict[Any, int] = {}
    out = []
    for thread, start, name, attributes in trace.sql(sql).fetchall():
        parsed = json.loads(attributes)
        communicator = parsed.get(_COMMUNICATOR)
        if communicator is None:
            continue
        if isinstance(parsed.get(_RANKS), int):
            size[communicator] = parsed[_RANKS]
        operation = collective_names.CALLS.get(name)
        if operation is not None:
            out.append({"thread": thread, "start": start, "operation": operation, "group": f"{communicator:#x}"
                        if isinstance(communicator, int) else str(communicator), "communicator": communicator,
                        "bytes": parsed.get(_SIZE), "peer": parsed.get(_PEER)})  # fmt: skip
    for row in out:
        row["ranks"] = size.get(row["communicator"])
        if row["operation"] in collective_names.IN_PARTS and row["ranks"] and isinstance(row["bytes"], int):
            row["bytes"] *= row["ranks"]
    return out


def _describe(out: list[_Row], announced: list[_Row], issued: host_calls.Calls, call: Column) -> None:
    """Give each kernel the announced calls between the launch before it on its thread and its own."""
    known = np.flatnonzero(call >= 0)
    thread, launched = issued.thread[call[known]], issued.start[call[known]]
    for one in {row["thread"] for row in announced}:
        mine = np.flatnonzero(thread == one)
        mine = mine[np.argsort(launched[mine], kind="stable")]
        calls = [row for row in announced if row["thread"] == one]
        place = np.searchsorted(launched[mine], [row["start"] for row in calls])
        of_kernel: dict[int, list[_Row]] = {}
        for row, at in zip(calls, place.tolist(), strict=True):
            if at < len(mine):
                of_kernel.setdefault(int(known[mine[at]]), []).append(row)
        for kernel, parsed in of_kernel.items():
            out[kernel] |= _joined(parsed, out[kernel]["operation"])


def _joined(parsed: list[_Row], by_name: str) -> dict[str, Any]:
    """What several calls that one kernel did have in common."""
    operations = {row["operation"] for row in parsed}
    sizes = [row["bytes"] for row in parsed]
    only = operations.pop() if len(operations) == 1 else by_name
    if operations and only == "send-receive" and len(parsed) > 2:
        only = "all-to-all"
    return {
        "operation": only,
        "bytes": sum(sizes) if all(isinstance(size, int) for size in sizes) else None,
        "group": parsed[0]["group"],
        "ranks": parsed[0]["ranks"],
        "peer": parsed[0]["peer"] if len(parsed) == 1 else None,
    }
