"""CSV of rocprofv3, rocprofv2 and rocprof; the columns show which kind of rows a file holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading import csv_columns
from warpsight_plugins.rocprof.recording import RocprofRecording, blocks, family, kernel_name

if TYPE_CHECKING:
    from warpsight.formats.reading.csv_columns import Columns
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
_START = ("starttimestamp", "beginns")
_END = ("endtimestamp", "endns")
_AGENT = ("agentid", "gpuid")
_QUEUE = ("queueid",)
_PID, _TID = ("processid", "pid"), ("threadid", "tid")
#: `12345_kernel_trace.csv`: rocprofv3 names files after the process.
_FILE_PID = re.compile(r"^(\d+)_")


def _role(names: list[str]) -> str | None:
    """The kind of rows of a file with these columns."""
    there = set(names)
    timed = there.intersection(_START) and there.intersection(_END)
    if "countername" in there and "countervalue" in there:
        return "counters"
    if not timed:
        return None
    if "kernelname" in there:
        return "kernels"
    if "direction" in there:
        return "copies"
    if "function" in there:
        return "calls"
    if "operation" in there and there.intersection(("allocationsize", "flags", "allocflags")):
        return "memory"
    return None


def is_trace(head: bytes) -> bool:
    """Whether a file begins with columns of rocprof's traces."""
    first = head.split(b"\n", 1)[0]
    if b"," not in first or b"\0" in first:
        return False
    names = csv_columns.header(head)
    role = _role(names)
    ours = {"dispatchid", "agentid", "gpuid", "direction", "domain", "correlationid", "kind"}
    return role is not None and bool(ours.intersection(names))


def read_table(source: Source, target: Target) -> None:
    """Read one file.

    Raises:
        FormatError: when its columns do not belong to rocprof's traces, or a value is not a number.
    """
    role = _role(csv_columns.header(source.head))
    if role is None:
        raise source.error("does not have the columns of a rocprof trace")
    target.source.update(tool="rocprof", clock="ns of rocprof's timestamps")
    reader = _Reader(source, target)
    for rows in csv_columns.read(source):
        getattr(reader, role)(rows)
    if role == "copies":
        target.note("rocprof's CSV does not have the size of copies: their bytes are 0", "memcpy")


class _Reader:
    def __init__(self, source: Source, target: Target) -> None:
        self._target = target
        self._source = source
        self._recording = RocprofRecording(target)
        named = _FILE_PID.match(source.path.name)
        self._file_pid = int(named[1]) if named else 0
        # All files of a folder describe the same processes.
        self._scope = str(source.path.parent)

    def _processes(self, rows: Columns) -> Array:
        pids = rows.numbers(*_PID, fill=self._file_pid)
        return _csv_numbers(pids, lambda pid: self._target.process(pid, scope=self._scope))

    def _threads(self, rows: Columns, process: Array) -> Array:
        tids = rows.numbers(*_TID, fill=0)
        pairs = set(zip(process.tolist(), tids.tolist(), strict=True))
        known = {pair: self._target.thread(*pair) for pair in pairs}
        return np.array([known[pair] for pair in zip(process.tolist(), tids.tolist(), strict=True)], np.int64)

    def _devices(self, texts: list[str]) -> list[int | None]:
        """Agents are numbers, or `Agent 4`."""
        known: dict[str, int | None] = {}
        for text in set(texts):
            digits = re.sub(r"\D", "", text)
            known[text] = (
                self._recording.agent(
                    (self._scope, "agent", int(digits)), index=int(digits), name=f"agent {digits}"
                )
                if digits
                else None
            )
        return [known[text] for text in texts]

    def _correlations(self, rows: Columns) -> pa.Array:
        ids = rows.numbers("correlationid", fill=0)
        return pa.array(ids, mask=ids == 0)

    def kernels(self, rows: Columns) -> None:
        """Rows of a kernel trace."""
        process = self._processes(rows)
        stream = rows.numbers("streamid", *_QUEUE, fill=0)
        queued = rows.numbers("dispatchns", fill=0)
        names = [kernel_name(text) for text in rows.texts("kernelname")]
        self._recording.add_kernels(
            rows.numbers(*_START), rows.numbers(*_END), self._recording.names(names), self._shapes(rows),
            self._recording.places(process, self._devices(rows.texts(*_AGENT)), stream), self._correlations(rows),
            queued=pa.array(queued, mask=queued == 0),
        )  # fmt: skip
        self._wide_counters(rows, process)

    def _shapes(self, rows: Columns) -> pa.Array:
        """Sizes in three dimensions (rocprofv3), or products of them in one."""
        if rows.has("workgroupsizex"):
            group = np.stack([rows.numbers(f"workgroupsize{axis}", fill=1) for axis in "xyz"], axis=1)
            grid = np.stack([rows.numbers(f"gridsize{axis}", fill=1) for axis in "xyz"], axis=1)
        else:
            one = np.ones(len(rows), np.int64)
            group = np.stack([rows.numbers("workgroupsize", "wgr", fill=1), one, one], axis=1)
            grid = np.stack([rows.numbers("gridsize", "grd", fill=1), one, one], axis=1)
        grid = blocks(grid, group)
        vector = rows.numbers("vgprcount", "archvgpr", fill=0) + rows.numbers(
            "accumvgprcount", "accumvgpr", fill=0
        )
        shared = rows.numbers("ldsblocksize", "groupsegmentsize", "ldsperworkgroup", "lds", fill=0)
        scratch = rows.numbers("scratchsize", "privatesegmentsize", "scratchperworkitem", "scr", fill=0)
        return self._recording.shapes(
            {
                **{f"grid_{axis}": grid[:, number] for number, axis in enumerate("xyz")},
                **{f"block_{axis}": group[:, number] for number, axis in enumerate("xyz")},
                "registers": vector,
                "shared_dynamic": shared,
                "local_per_thread": scratch,
            }
        )

    def _wide_counters(self, rows: Columns, process: Array) -> None:
        """rocprofv2 puts counters into columns of their own after the known ones."""
        for name in rows.unknown(_KNOWN):
            values = rows.texts(name)
            chosen = [i for i, text in enumerate(values) if _is_number(text)]
            if not chosen:
                continue
            devices = self._devices(rows.texts(*_AGENT))
            self._recording.add_counters(
                rows.numbers(*_START)[chosen], [rows.spelled(name)] * len(chosen), [float(values[i]) for i in chosen],
                [devices[i] for i in chosen], process[chosen],
            )  # fmt: skip

    def copies(self, rows: Columns) -> None:
        """Rows of a copy trace."""
        process = self._processes(rows)
        target = self._devices(rows.texts("destinationagentid"))
        source = self._devices(rows.texts("sourceagentid"))
        directions = rows.texts("direction")
        # The side that is a GPU is the device; agents of a CPU are numbered too, so the direction decides.
        device = [
            s if "DEVICE_TO_HOST" in direction.upper() else d
            for s, d, direction in zip(source, target, directions, strict=True)
        ]
        self._recording.add_copies(
            rows.numbers(*_START), rows.numbers(*_END), rows.numbers("bytes", "size", fill=0), directions,
            self._recording.places(process, device, rows.numbers("streamid", fill=0)), self._correlations(rows),
        )  # fmt: skip

    def calls(self, rows: Columns) -> None:
        """Rows of an API trace; those of ROCTx are ranges, whose function is the message."""
        process = self._processes(rows)
        thread = self._threads(rows, process)
        functions, start, end = rows.texts("function"), rows.numbers(*_START), rows.numbers(*_END)
        domains = rows.texts("domain")
        marks = np.array(["MARKER" in text.upper() or "ROCTX" in text.upper() for text in domains], bool)
        if marks.any():
            texts = [functions[i] for i in np.flatnonzero(marks)]
            self._recording.add_ranges(
                start[marks], end[marks], [""] * len(texts), texts, thread[marks], process[marks]
            )
        rest = ~marks
        if rest.any():
            chosen = [functions[i] for i in np.flatnonzero(rest)]
            self._recording.add_calls(
                start[rest], end[rest], chosen, thread[rest], process[rest],
                self._correlations(rows).filter(pa.array(rest)),
            )  # fmt: skip

    def memory(self, rows: Columns) -> None:
        """Rows of an allocation or scratch trace."""
        process = self._processes(rows)
        thread = self._threads(rows, process)
        size = rows.numbers("allocationsize", fill=0)
        address = rows.numbers("address", fill=0)
        devices = self._devices(rows.texts(*_AGENT))
        start, names = rows.numbers(*_START), rows.texts("operation")
        kinds = rows.texts("kind")
        self._recording.add_memory(
            [
                {
                    "time": int(start[i]),
                    "operation": "free"
                    if "FREE" in names[i].upper() or "RECLAIM" in names[i].upper()
                    else "allocate",
                    "address": int(address[i]) & 0xFFFFFFFFFFFFFFFF,
                    "bytes": int(size[i]) or None,
                    "kind": "scratch" if "SCRATCH" in kinds[i].upper() else "device",
                    "device": devices[i],
                    "allocator": family(f"{kinds[i]} {names[i]}"),
                    "thread": int(thread[i]),
                    "process": int(process[i]),
                }
                for i in range(len(rows))
            ]
        )

    def counters(self, rows: Columns) -> None:
        """Rows of a counter collection; older files have no times, so their rows are only counted."""
        if not rows.has(*_START):
            self._target.lost(len(rows), "counter values without a time (rocprofv3 before 6.4)", "counter")
            return
        self._recording.add_counters(
            rows.numbers(*_START), rows.texts("countername"), [float(v or 0) for v in rows.texts("countervalue")],
            self._devices(rows.texts(*_AGENT)), self._processes(rows),
        )  # fmt: skip


def _csv_numbers(values: Array, function: Callable[..., object]) -> Array:
    """`function` of every value, called once for each distinct one."""
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([function(value) for value in distinct.tolist()], np.int64)[places]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: Columns of rocprof's and rocprofv2's kernel rows; all other columns are counters.
_KNOWN = frozenset(
    [
        "dispatchid",
        "gpuid",
        "queueid",
        "pid",
        "tid",
        "gridsize",
        "workgroupsize",
        "ldsperworkgroup",
        "scratchperworkitem",
        "archvgpr",
        "accumvgpr",
        "sgpr",
        "wavesize",
        "kernelname",
        "starttimestamp",
        "endtimestamp",
        "correlationid",
        "index",
        "queueindex",
        "grd",
        "wgr",
        "lds",
        "scr",
        "vgpr",
        "sig",
        "obj",
        "dispatchns",
        "beginns",
        "endns",
        "completens",
        "durationns",
        "kind",
        "agentid",
        "streamid",
        "threadid",
        "processid",
        "kernelid",
        "privatesegmentsize",
        "groupsegmentsize",
        "workgroupsizex",
        "workgroupsizey",
        "workgroupsizez",
        "gridsizex",
        "gridsizey",
        "gridsizez",
        "ldsblocksize",
        "scratchsize",
        "vgprcount",
        "accumvgprcount",
        "sgprcount",
        "guid",
        "xccindex",
    ]
)
