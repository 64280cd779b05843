"""API calls of a report: CUDA's runtime and driver, cuBLAS and cuDNN, the operating system's libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.nsys.report import INT, duration
from warpsight.formats.nsys.stacks import ChainStacks

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report
    from warpsight.formats.reading.databases import ForeignRows

Array = npt.NDArray[Any]
#: Calls whose GPU work is kernels: cudaLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch, …, but no host functions.
LAUNCHES = re.compile(r"^_*cu(da)?(Graph)?Launch(?!HostFunc|Attribute)")
_ASYNCHRONOUS = re.compile(r"^cu(da)?Mem(cpy|set|Prefetch).*Async")
_CALL = {
    "start": INT, "end": INT, "globalTid": INT, "correlationId": INT, "nameId": INT, "returnValue": INT, "callchainId": INT,
}  # fmt: skip
#: Tables of calls, and the table of their stacks.
_LIBRARIES = {
    "CUBLAS_EVENTS": None,
    "CUDNN_EVENTS": None,
    "NVMEDIA_EVENTS": None,
    "OSRT_API": "OSRT_CALLCHAINS",
    "SYSCALL": None,
}


#: What a call waits for, by the end of its name.
_WAITS = {
    "event": re.compile(r"^cu(da)?EventSynchronize"), "stream": re.compile(r"^cu(da)?StreamSynchronize"),
    "context": re.compile(r"^cu(da(Device|Thread)|Ctx)Synchronize"), "stream wait event": re.compile(r"^cu(da)?StreamWaitEvent"),
}  # fmt: skip


class WaitingCalls:
    """The meaning of waiting calls by name, because exports of different years number the kinds differently."""

    def __init__(self, report: Report) -> None:
        """Read the runtime table once for the correlation ids of calls that wait."""
        keys, kinds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number, pattern in enumerate(_WAITS.values()):
            only = ("nameId", report.matching(pattern))
            columns = {"globalTid": INT, "correlationId": INT}
            for rows in report.tables.read("CUPTI_ACTIVITY_KIND_RUNTIME", columns, only):
                keys.append(_keys(rows.numbers("globalTid"), rows.numbers("correlationId")))
                kinds.append(np.full(len(rows), number))
        self._keys, first = np.unique(np.concatenate(keys), return_index=True)
        self._kinds = np.concatenate(kinds)[first]

    def kinds(self, rows: ForeignRows, otherwise: pa.Array) -> pa.Array:
        """The kind of each wait by its call, or that of `otherwise` if the report lacks the call."""
        keys = _keys(rows.numbers("globalPid"), rows.numbers("correlationId", -1))
        at = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        known = self._keys[at] == keys if len(self._keys) else np.zeros(len(keys), bool)
        if not known.any():
            return otherwise
        named = pa.array(list(_WAITS)).take(pa.array(self._kinds[at]))
        return pa.compute.if_else(pa.array(known), named, otherwise.cast(pa.string())).dictionary_encode()


class AsynchronousCalls:
    """Which copies and fills an asynchronous call issued: Nsight exports the call, not CUPTI's flag."""

    def __init__(self, report: Report) -> None:
        """Read the runtime table once for the correlation ids of asynchronous calls."""
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        only = ("nameId", report.matching(_ASYNCHRONOUS))
        found = [
            _keys(rows.numbers("globalTid"), rows.numbers("correlationId"))
            for rows in report.tables.read(table, {"globalTid": INT, "correlationId": INT}, only)
        ]
        self._keys = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def issued(self, report: Report, rows: ForeignRows) -> Array:
        """Whether each row's call is one of them; false if the report lacks the call."""
        del report
        keys = _keys(rows.numbers("globalPid"), rows.numbers("correlationId", -1))
        return np.asarray(np.isin(keys, self._keys))


def _keys(number: Array, correlation: Array) -> Array:
    """One number for a process and a 32-bit correlation id."""
    return np.asarray(((number >> 24) << 32) | (correlation & 0xFFFFFFFF))


def _matches(report: Report, rows: ForeignRows, pattern: re.Pattern[str]) -> Array:
    functions = report.functions(rows)
    hits = np.array([bool(pattern.match(name)) for name in functions.dictionary.to_pylist()], bool)
    return np.asarray(hits[np.asarray(functions.indices)])


def read_cuda_calls(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_RUNTIME: launches go to table launch, all others to api."""
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    report.read.update((table, "CUDA_CALLCHAINS"))
    chains = ChainStacks(report, "CUDA_CALLCHAINS")
    captures = _Captures(report)
    for rows in report.tables.read(table, _CALL):
        launches = _matches(report, rows, LAUNCHES)
        for chosen, name in ((launches, "launch"), (~launches, "api")):
            part = rows.where(chosen)
            if not len(part):
                continue
            columns = _call(report, part, chains)
            if name == "launch":
                columns["captured"] = captures.hit(part)
            report.target.add(name, pa.table(columns))


def _call(report: Report, rows: ForeignRows, chains: ChainStacks | None) -> dict[str, Any]:
    thread, process = report.threads(rows.numbers("globalTid"))
    return {
        "start": rows.column("start"),
        "duration": duration(rows),
        "function": report.functions(rows),
        "thread": thread,
        "correlation": rows.column("correlationId"),
        "process": process,
        "stack": chains.stacks(rows.numbers("callchainId", -1))
        if chains
        else pa.nulls(len(rows), pa.int32()),
        "result": rows.column("returnValue"),
    }


class _Captures:
    """Calls that became graph nodes: a node is created during its thread's call."""

    def __init__(self, report: Report) -> None:
        rows = report.rows("CUDA_GRAPH_NODE_EVENTS", {"start": INT, "globalTid": INT})
        order = np.lexsort((rows.numbers("start"), rows.numbers("globalTid")))
        self._threads, self._times = rows.numbers("globalTid")[order], rows.numbers("start")[order]

    def hit(self, rows: ForeignRows) -> Array:
        """For each call, whether its thread created a node between its start and end."""
        hit = np.zeros(len(rows), bool)
        thread, start, end = rows.numbers("globalTid"), rows.numbers("start"), rows.numbers("end")
        for one in np.unique(self._threads).tolist():
            times = self._times[self._threads == one]
            mine = np.flatnonzero(thread == one)
            before = np.searchsorted(times, start[mine], "left")
            hit[mine] = np.searchsorted(times, end[mine], "right") > before
        return hit


def read_library_calls(report: Report) -> None:
    """Calls of libraries other than CUDA, in table api; nested calls are separate rows."""
    for table, chain_table in _LIBRARIES.items():
        report.read.add(table)
        chains = None
        if chain_table:
            report.read.add(chain_table)
            chains = ChainStacks(report, chain_table)
        for rows in report.tables.read(table, _CALL):
            report.target.add("api", pa.table(_call(report, rows, chains)))


def read_overhead(report: Report) -> None:
    """CUPTI_ACTIVITY_KIND_OVERHEAD (2025 on) and PROFILER_OVERHEAD: the cost of recording."""
    for table in ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"):
        report.read.add(table)
        for rows in report.tables.read(table, {"start": INT, "end": INT, "globalTid": INT, "nameId": INT}):
            thread, process = report.threads(rows.numbers("globalTid"))
            kinds = report.strings(rows, "nameId").dictionary_decode()
            report.target.add_columns(
                "overhead",
                start=rows.column("start"),
                duration=duration(rows),
                kind=pa.compute.fill_null(pa.compute.utf8_lower(kinds), "unknown"),
                thread=thread,
                process=process,
            )
