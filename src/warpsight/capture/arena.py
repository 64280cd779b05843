"""One recorded process under conversion: its definitions, its open rows, and the rows it emits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.columns import Nullable, pick
from warpsight.capture.correlation import Correlations
from warpsight.capture.identities import DeviceIndex, Processes, TraceDevices
from warpsight.capture.local_ids import LocalIds
from warpsight.capture.losses import LossLog
from warpsight.capture.parts import PartWriter
from warpsight.capture.rows import (
    calls,
    markers,
)
from warpsight.capture.rows import (
    definitions as definition_rows,
)
from warpsight.capture.rows import (
    device as device_rows,
)
from warpsight.capture.rows import (
    host as host_rows,
)
from warpsight.capture.rows.addresses import Addresses
from warpsight.capture.rows.device import UnmatchedRows
from warpsight.capture.rows.graphs import Graphs
from warpsight.capture.rows.markers import OpenRanges
from warpsight.capture.segments import layout
from warpsight.capture.segments.blocks import BlockTracker
from warpsight.capture.segments.segment import (
    DTYPES,
    Batch,
    Block,
    RecordColumns,
    Segment,
    columns,
    gather,
    strings,
)
from warpsight.machine.backends import registry
from warpsight.model.definitions import Definitions

if TYPE_CHECKING:
    from warpsight.capture.rows.kernel_log import KernelLog

Array = npt.NDArray[Any]
_DEVICE_KINDS = ("Kernel", "Memcpy", "Memset")
#: Kinds of millions of rows, read column by column.
_COLUMNAR = ("Api", "CopyCall", *_DEVICE_KINDS)
_EXPECTED = {
    "session": np.int64,
    "correlation": np.int64,
    "name": np.int32,
    "shape": np.int32,
    "stack": np.int32,
}
_STRING, _SHAPE, _FRAME, _STACK, _FUNCTION = (
    layout.BY_NAME[name].kind for name in ("String", "Shape", "Frame", "Stack", "ApiFunction")
)
_NODE_ADDRESS = layout.BY_NAME["NodeAddress"].kind
#: Definitions that become rows when the trace is finished.
KEPT = ("Process", "Thread", "Device", "Context", "Stream", "Module", "Graph", "GraphNode", "GraphEdge")
Found = dict[int, list[tuple[Block, Array]]]


class Arena:
    """State of one arena. Its size depends on open and distinct items, not on how long the program runs."""

    def __init__(
        self,
        name: str,
        trace: Definitions,
        processes: Processes,
        devices: TraceDevices,
        losses: list[dict[str, Any]],
        writer: PartWriter,
        *,
        windowed: bool = False,
    ) -> None:
        """`windowed`: the segments are a window of a longer recording, as in a flight recorder."""
        self.name = name
        self.windowed = windowed
        self.pid = 0
        self.part = 0
        self.kernel_log: KernelLog | None = None
        self.local = LocalIds(trace)
        self.correlations = Correlations()
        self.functions = calls.FunctionCodes()
        self.graphs = Graphs()
        self.addresses = Addresses()
        self.waiting = {kind: UnmatchedRows.none(kind) for kind in _DEVICE_KINDS}
        self.open_ranges = OpenRanges.none()
        self.checked_kernels: list[tuple[Array, Array, Array, Array]] = []
        self.checks_syncs = False
        self.clocks: list[tuple[int, int]] = []
        self.kept: dict[str, list[Array]] = {kind: [] for kind in KEPT}
        self.threads: set[int] = set()
        self.data_blocks = BlockTracker(anywhere=windowed)
        self.definition_blocks = BlockTracker()
        self._expected = {name: np.zeros(0, kind) for name, kind in _EXPECTED.items()}
        #: Columns of launches in this segment, and which of them expect a kernel.
        self._new_expected: list[tuple[Mapping[str, Array], Array]] = []
        self._processes = processes
        self._trace_devices = devices
        self._devices = DeviceIndex(devices)
        self._context_devices: dict[int, int] = {}
        self._writer = writer
        self.loss = LossLog(losses, processes.by_arena.get(name))

    # -- identity

    def process_id(self) -> int:
        """The process's id in the trace, assigned on first use."""
        number = self._processes.of_arena(self.name, self.pid)
        self.loss.process = number
        return number

    def known_process(self) -> int | None:
        """The process's id, or None if it recorded no process (the launcher's own arena)."""
        return self._processes.by_arena.get(self.name)

    def process_of_pid(self, pid: int) -> int:
        """The process with this pid on this host."""
        return self._processes.of_pid(pid)

    def device(self, index: int) -> int:
        """A device id from this process's index."""
        return self._devices.get(index)

    def devices(self, index: Array, none: int | None = None) -> Nullable:
        """A column of device ids from a column of indices; `none` becomes null."""
        return self._devices.translate(index, none)

    def context_devices(self, context: Array) -> Nullable:
        """A column of device ids from a column of contexts; null for contexts without a description."""
        known, places = np.unique(context, return_inverse=True)
        ids = np.array([self._context_devices.get(int(c), -1) for c in known], np.int16)[places]
        return Nullable(ids, ids < 0)

    @property
    def device_library(self) -> str:
        """The library to name for lost device records: the one that delivers them in this process."""
        platforms = {int(row["platform"]) for rows in self.kept["Device"] for row in rows}
        backend = registry.of_platform(platforms.pop()) if len(platforms) == 1 else None
        return (backend.library if backend is not None else "") or "cupti"

    def checksums(self) -> dict[int, int]:
        """Checksums of this process's modules by module id."""
        return {int(row["id"]): int(row["checksum"]) for rows in self.kept["Module"] for row in rows}

    # -- definitions

    def define(self, found: Found, text: list[tuple[int, str]]) -> None:
        """Add definition rows, in the order in which they refer to each other."""
        for number, value in text:
            self.local.strings[number] = value
        batches = {kind: gather(parts, kind) for kind, parts in found.items()}
        for kind, add in (
            (_SHAPE, self.local.add_shapes),
            (_FRAME, self.local.add_frames),
            (_STACK, self.local.add_stacks),
        ):
            if kind in batches:
                add(batches[kind].rows)
        if _FUNCTION in batches:
            for row in batches[_FUNCTION].rows:
                self.functions.define(
                    int(row["domain"]), int(row["number"]), self.local.text(int(row["name"]))
                )
        if _NODE_ADDRESS in batches:
            rows = batches[_NODE_ADDRESS].rows
            self.addresses.put_nodes(*(rows[name] for name in ("node", "time", "source", "destination")))
        for name in KEPT:
            batch = batches.get(layout.BY_NAME[name].kind)
            if batch is not None and len(batch.rows):
                self.kept[name].append(batch.rows)
                self._index(name, batch.rows)

    def _index(self, name: str, rows: Array) -> None:
        if name == "Process":
            self.process_id()
        elif name == "Device":
            for row in rows:
                self._devices.set(
                    int(row["device"]), self._trace_devices.intern(definition_rows.device(self, row))
                )
        elif name == "Context":
            self._context_devices.update(
                {int(r["context"]): self.device(int(r["device"]) & 0xFFFF) for r in rows}
            )
        elif name == "GraphNode":
            self.graphs.add(rows["node"], rows["original"], self.local.stacks(rows["stack"]))

    # -- events

    def take_events(self, segment: Segment) -> None:
        """Convert one segment of events."""
        found: Found = {}
        text: list[tuple[int, str]] = []
        for block in segment.blocks():
            skip = self.data_blocks.fresh(block)
            if skip is None:
                continue
            self.pid = self.pid or block.pid
            if layout.BY_KIND[block.kind].variable:
                text += strings(block.payload, skip)[0]
            else:
                found.setdefault(block.kind, []).append((block, block.body(skip)))
        self._report_damage(segment)
        self.define({k: v for k, v in found.items() if layout.BY_KIND[k].definition}, text)
        self._convert(found, final=False)

    def _convert(self, found: Found, final: bool) -> None:
        batches = {
            name: columns(parts, kind) if name in _COLUMNAR else gather(parts, kind)
            for kind, parts in found.items()
            for name in (layout.BY_KIND[kind].name,)
        }
        self.checks_syncs = "Sync" in batches
        if "Api" in batches:
            self.threads.update(block.thread for block, _ in found[layout.BY_NAME["Api"].kind])
            calls.convert(self, batches["Api"])
        if "CopyCall" in batches:
            self.threads.update(block.thread for block, _ in found[layout.BY_NAME["CopyCall"].kind])
            rows = batches["CopyCall"].rows
            self.addresses.put(calls.convert(self, batches["CopyCall"]), rows["source"], rows["destination"])
        for kind in _DEVICE_KINDS:
            if kind in batches or len(self.waiting[kind].rows):
                device_rows.convert(self, kind, batches.get(kind, _no_rows(kind)), final)
        if "Marker" in batches or final:
            self.threads.update(block.thread for block, _ in found.get(layout.BY_NAME["Marker"].kind, ()))
            markers.convert(self, batches.get("Marker", _no_rows("Marker")), final)
        for kind, convert in host_rows.CONVERTERS.items():
            if kind in batches and len(batches[kind].rows):
                convert(self, batches[kind])
        self.checked_kernels.clear()
        self._forget_arrived()
        self.addresses.age()
        self.loss.count(
            "converter", "rows refer to a definition that was lost", self.local.take_missing(), None, "lost"
        )

    def finish(self) -> None:
        """Write all waiting rows: rows without a call, launches without a kernel, open ranges."""
        self._convert({}, final=True)
        device_rows.never_arrived(self)

    def emit(self, table: str, count: int, owner: int | None = -1, /, **values: Any) -> None:
        """Queue rows of a table for the process `owner` (-1: this one, None: the trace as a whole)."""
        if table == "kernel" and self.kernel_log is not None:
            self.kernel_log.add(self, count, values)
        self._writer.add(table, self.process_id() if owner == -1 else owner, self.part, count, values)

    def expect(self, launches: Mapping[str, Array], expected: Array) -> None:
        """Track the kernels of launches that are `expected` to have one."""
        self._new_expected.append((launches, expected))

    def take_expected(self) -> dict[str, Array]:
        """Return the launches whose kernels are still missing, and stop tracking them."""
        taken = self._expected
        self._expected = {name: np.zeros(0, kind) for name, kind in _EXPECTED.items()}
        return taken

    def _forget_arrived(self) -> None:
        pieces = [(self._expected, np.ones(len(self._expected["session"]), bool)), *self._new_expected]
        self._new_expected = []
        # most kernels come with their launches, so only the few launches that wait are ever copied
        waiting = [self._still_expected(*piece) for piece in pieces if len(piece[1])]
        if not waiting:
            return
        joined = {
            name: np.concatenate([w[name].astype(kind) for w in waiting]) for name, kind in _EXPECTED.items()
        }
        surplus = len(joined["session"]) - calls.MAXIMUM_WAITING
        if surplus > 0:
            joined = {name: values[surplus:] for name, values in joined.items()}
            self.loss.count(
                self.device_library,
                "kernel record never arrived; the launch is in table launch only",
                surplus,
                "kernel",
                "lost",
            )
        self._expected = joined

    def _still_expected(self, launches: Mapping[str, Array], expected: Array) -> dict[str, Array]:
        """The expected launches whose kernels have not arrived."""
        missing = np.array(expected)
        correlation = launches["correlation"]
        for window, chosen in self.correlations.split(launches["session"], correlation):
            missing[chosen] &= ~window.seen(window.own(pick(correlation, chosen)))
        places = np.flatnonzero(missing)
        return {name: pick(values, places) for name, values in launches.items()}

    def note_clocks(self, rows: Array) -> None:
        """Keep pairs of monotonic and real time for the manifest's fit; clock values fit in 63 bits."""
        rows = rows[(rows["monotonic"] | rows["realtime"]) >> 63 == 0]
        self.clocks += list(zip(rows["monotonic"].tolist(), rows["realtime"].tolist(), strict=True))

    def _report_damage(self, segment: Segment) -> None:
        for damage in segment.damage:
            kind = layout.BY_KIND.get(damage.kind)
            where = f"{damage.cause} ({self.name}/{damage.path.name} at byte {damage.offset})"
            self.loss.add("segment", where, 1, kind=kind.name.lower() if kind else None)
        gaps = self.data_blocks.take_missing() - len(segment.damage)
        if gaps > 0:
            self.loss.count(
                "segment", "blocks of rows are missing between those that were written", gaps, None, "lost"
            )

    # -- going on in another process

    def state(self) -> dict[str, Array]:
        """All state beyond definitions and written parts, as named arrays."""
        out = {
            "blocks": self.data_blocks.state(),
            "threads": np.array(sorted(self.threads), np.int64),
            "pid": np.array([self.pid]),
            "clocks": np.array(self.clocks, np.int64).reshape(-1, 2),
            "range_rows": self.open_ranges.rows.view(np.uint8),
            "range_thread": self.open_ranges.thread,
        }
        for kind, waiting in self.waiting.items():
            out |= {
                f"wait_{kind}_rows": waiting.rows.structured().view(np.uint8),
                f"wait_{kind}_session": waiting.session,
                f"wait_{kind}_age": waiting.age,
            }
        out |= {f"expected_{name}": values for name, values in self._expected.items()}
        return out | self.correlations.state() | self.addresses.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Restore what :meth:`state` returned."""
        self.data_blocks = BlockTracker.restore(state["blocks"], anywhere=self.windowed)
        self.threads = set(state["threads"].tolist())
        self.pid = int(state["pid"][0])
        self.clocks = [(a, b) for a, b in state["clocks"].tolist()]
        self.open_ranges = OpenRanges(_typed(state["range_rows"], "Marker"), state["range_thread"])
        for kind in _DEVICE_KINDS:
            rows = RecordColumns.of(_typed(state[f"wait_{kind}_rows"], kind))
            self.waiting[kind] = UnmatchedRows(rows, state[f"wait_{kind}_session"], state[f"wait_{kind}_age"])
        self._expected = {name: state[f"expected_{name}"] for name in _EXPECTED}
        self.correlations = Correlations.restore(state)
        self.addresses.restore(state)


def _typed(data: Array, kind: str) -> Array:
    return data.view(DTYPES[layout.BY_NAME[kind].kind])


def _no_rows(kind: str) -> Batch:
    number = layout.BY_NAME[kind].kind
    return columns([], number) if kind in _COLUMNAR else gather([], number)
