"""RPD: the database of rocmProfileData's rpd_tracer, which used table names rocpd_ before rocprofiler-sdk.

Calls are in rocpd_api, device work in rocpd_op, rocpd_api_ops joins them (a graph's launch to all of its work); shapes of
launches are in rocpd_kernelapi, sizes of copies in rocpd_copyapi, clocks and loads in rocpd_monitor. Schema 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading.databases import ForeignRows, Sqlite, numbered, whole
from warpsight_plugins.rocprof.recording import RocprofRecording, blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
INT, TEXT = pa.int64(), pa.string()
_GRID, _GROUP = ("gridX", "gridY", "gridZ"), ("workgroupX", "workgroupY", "workgroupZ")
_SEGMENTS = ("groupSegmentSize", "privateSegmentSize")
#: Calls of the vendor's libraries; all other names are ranges of the program or of the tracer.
_CALLS = re.compile(r"^(hip|hsa|cu|cuda|rccl|nccl|roc[a-z]+|mi[a-z]+)_?[A-Z0-9a-z]*$")
_TRACER = "hcc_activity_callback"
_RANGES = "UserMarker"
#: roctracer keeps the arguments of a call: blocks, but work-items for these functions.
_WORK_ITEMS = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel")
_UNITS = {"sclk": "MHz", "mclk": "MHz", "power": "W", "temp": "°C"}


def is_rpd(tables: Sqlite) -> bool:
    """Whether a database has RPD's tables."""
    return {"rocpd_api", "rocpd_op"} <= set(tables.names())


def read_rpd(source: Source, target: Target, tables: Sqlite) -> None:
    """Read a database.

    Raises:
        FormatError: when it is damaged.
    """
    reader = _Reader(target, tables)
    target.source.update(tool="rpd_tracer", schema=reader.version(), clock="ns of CLOCK_MONOTONIC")
    reader.calls()
    reader.work()
    reader.monitor()
    ignored = [
        f"{name} ({count:,} rows)"
        for name in tables.names()
        if name.startswith(("ext_", "rocpd_barrierop")) and (count := tables.count(name))
    ]
    if ignored:
        target.note(f"tables of {source.name} that were not imported: {', '.join(ignored)}")


class _Keyed:
    """A complete table, indexed by an integer key."""

    def __init__(self, rows: ForeignRows, key: str) -> None:
        keys = rows.numbers(key)
        order = np.argsort(keys, kind="stable")
        self.keys = keys[order]
        self.rows = ForeignRows(rows.data.take(pa.array(order)))

    def places(self, sought: Array) -> tuple[Array, Array]:
        """(row of each key, whether the key exists); the row is 0 for a missing key."""
        if not len(self.keys):
            return np.zeros(len(sought), np.int64), np.zeros(len(sought), bool)
        found = np.minimum(np.searchsorted(self.keys, sought), len(self.keys) - 1)
        there = self.keys[found] == sought
        return np.where(there, found, 0), there

    def numbers(self, column: str, places: tuple[Array, Array], fill: int = 0) -> Array:
        """A column at some rows, with `fill` for missing values."""
        values = self.rows.numbers(column, fill)
        return np.where(places[1], values[places[0]], fill) if len(values) else np.full(len(places[1]), fill)


class _Reader:
    def __init__(self, target: Target, tables: Sqlite) -> None:
        self._target, self._tables = target, tables
        self._recording = RocprofRecording(target)
        strings = whole(tables, "rocpd_string", {"id": INT, "string": TEXT}).data
        self._strings: dict[int, str] = dict(
            zip(*(strings[c].to_pylist() for c in ("id", "string")), strict=True)
        )
        self._agents: dict[int, int] = {}
        self._launches = self._keyed("rocpd_kernelapi", "api_ptr_id", (*_GRID, *_GROUP, *_SEGMENTS))
        self._copies = self._keyed("rocpd_copyapi", "api_ptr_id", ("size", "kind"))
        self._calls = self._keyed("rocpd_api", "id", ("pid", "apiName_id"), stream=False)
        self._of_work = self._keyed("rocpd_api_ops", "op_id", ("api_id",), stream=False)

    def _keyed(self, table: str, key: str, columns: tuple[str, ...], *, stream: bool = True) -> _Keyed:
        kinds = {**dict.fromkeys((key, *columns), INT), **({"stream": TEXT} if stream else {})}
        rows = whole(self._tables, table, kinds)
        if stream:
            coded = rows.data["stream"].combine_chunks().dictionary_encode()
            handles = np.array([_handle(text) for text in coded.dictionary.to_pylist()], np.int64)
            # -1: no handle of a stream
            places = np.asarray(coded.indices.fill_null(-1)).astype(np.int64)
            values = np.append(handles, -1)[places]
            rows = ForeignRows(rows.data.set_column(len(kinds) - 1, "stream", pa.array(values)))
        return _Keyed(rows, key)

    def version(self) -> str | None:
        """The schema's version."""
        rows = whole(self._tables, "rocpd_metadata", {"tag": TEXT, "value": TEXT}).data.to_pylist()
        return next((row["value"] for row in rows if row["tag"] == "schema_version"), None)

    def _texts(self, numbers: Array) -> list[str]:
        return [self._strings.get(number) or "" for number in numbers.tolist()]

    def _agent(self, number: int) -> int:
        found = self._agents.get(number)
        if found is None:
            key = (self._target.scope, "gpu", number)
            found = self._agents[number] = self._recording.agent(key, index=number, name=f"GPU {number}")
        return found

    def _chosen(self, ids: Array, test: Callable[[str], object]) -> Array:
        """Which rows have a string that passes a test, called once for each distinct string."""
        return numbered(ids, lambda number: int(bool(test(self._strings.get(number) or "")))).astype(bool)

    # Calls and ranges

    def calls(self) -> None:
        """rocpd_api: calls, launches among them, ranges and the tracer's own."""
        columns = dict.fromkeys(("id", "pid", "tid", "start", "end", "apiName_id", "args_id"), INT)
        for rows in self._tables.read("rocpd_api", columns):
            start, end, names = rows.numbers("start"), rows.numbers("end"), rows.numbers("apiName_id")
            process = numbered(rows.numbers("pid"), self._target.process)
            thread, correlation = rows.numbers("tid"), rows.numbers("id")
            is_call = self._chosen(names, lambda text: _CALLS.match(text) and text != _TRACER)
            if is_call.any():
                self._recording.add_calls(
                    start[is_call], end[is_call], self._texts(names[is_call]), thread[is_call], process[is_call],
                    correlation[is_call],
                )  # fmt: skip
            rest = ~is_call
            if rest.any():
                functions, said = self._texts(names[rest]), self._texts(rows.numbers("args_id")[rest])
                texts = [
                    text if name == _RANGES else f"{name} {text}".strip()
                    for name, text in zip(functions, said, strict=True)
                ]
                self._recording.add_ranges(
                    start[rest], end[rest], functions, texts, thread[rest], process[rest]
                )

    # Device work

    def work(self) -> None:
        """rocpd_op: kernels, copies, fills; the call's api row names the thread, its kernelapi or copyapi row the details."""
        in_items = self._grids_are_work_items()
        columns = dict.fromkeys(
            ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"), INT
        )
        first = int(self._calls.rows.numbers("pid")[0]) if len(self._calls.keys) else 0
        for rows in self._tables.read("rocpd_op", columns):
            joined = self._of_work.places(rows.numbers("id"))
            call = self._of_work.numbers("api_id", joined, -1)
            known = self._calls.places(call)
            process = numbered(self._calls.numbers("pid", known, first), self._target.process)
            device = numbered(rows.numbers("gpuId"), self._agent)
            types = rows.numbers("opType_id")
            copies = self._chosen(types, lambda text: "copy" in text.lower())
            fills = self._chosen(types, lambda text: "fill" in text.lower())
            kernels = ~copies & ~fills & (
                self._chosen(types, lambda text: text == "KernelExecution")
                | self._chosen(rows.numbers("description_id"), bool)
            )  # fmt: skip
            where = {"call": call, "process": process, "device": device, "named": known[1]}
            if kernels.any():
                self._kernels(rows.where(kernels), _filtered(where, kernels), in_items)
            if copies.any():
                self._copied(rows.where(copies), _filtered(where, copies))
            if fills.any():
                self._filled(rows.where(fills), _filtered(where, fills))
            if others := int((~kernels & ~copies & ~fills).sum()):
                self._target.lost(others, "device work that is neither kernel, copy nor fill", "event")

    def _places(
        self, rows: ForeignRows, where: dict[str, Array], details: tuple[_Keyed, ...]
    ) -> dict[str, Any]:
        stream = np.full(len(rows), -1, np.int64)
        for table in details:
            stream = np.where(stream < 0, table.numbers("stream", table.places(where["call"]), -1), stream)
        stream = np.where(stream < 0, rows.numbers("queueId"), stream)
        return self._recording.places(where["process"], pa.array(where["device"], pa.int16()), stream)

    def _kernels(self, rows: ForeignRows, where: dict[str, Array], in_items: bool) -> None:
        known = self._launches.places(where["call"])
        grid, group = (
            np.stack([self._launches.numbers(name, known) for name in names], axis=1)
            for names in (_GRID, _GROUP)
        )
        function = self._calls.numbers("apiName_id", self._calls.places(where["call"]), -1)
        items = self._chosen(function, lambda text: in_items or text in _WORK_ITEMS)
        grid = np.where(items[:, None], blocks(grid, group), grid)
        shapes = self._recording.shapes(
            {
                **{f"grid_{axis}": grid[:, number] for number, axis in enumerate("xyz")},
                **{f"block_{axis}": group[:, number] for number, axis in enumerate("xyz")},
                "shared_dynamic": self._launches.numbers("groupSegmentSize", known),
                "local_per_thread": self._launches.numbers("privateSegmentSize", known),
            }
        )
        names = [
            text.removesuffix(".kd") or "unnamed kernel"
            for text in self._texts(rows.numbers("description_id"))
        ]
        self._recording.add_kernels(
            rows.numbers("start"), rows.numbers("end"), self._recording.names(names),
            pa.array(shapes.to_pylist(), pa.int32(), mask=~known[1]), self._places(rows, where, (self._launches,)),
            _correlation(where),
        )  # fmt: skip

    def _copied(self, rows: ForeignRows, where: dict[str, Array]) -> None:
        size = self._copies.numbers("size", self._copies.places(where["call"]))
        self._recording.add_copies(
            rows.numbers("start"), rows.numbers("end"), size, self._texts(rows.numbers("opType_id")),
            self._places(rows, where, (self._copies, self._launches)), _correlation(where),
        )  # fmt: skip

    def _filled(self, rows: ForeignRows, where: dict[str, Array]) -> None:
        count = len(rows)
        self._target.add_columns(
            "memset",
            start=rows.numbers("start"),
            duration=rows.numbers("end") - rows.numbers("start"),
            bytes=self._copies.numbers("size", self._copies.places(where["call"])),
            value=np.zeros(count, np.int64),
            memory_kind=["device"] * count,
            asynchronous=np.zeros(count, bool),
            **self._places(rows, where, (self._copies, self._launches)),
            correlation=_correlation(where),
        )

    def _grids_are_work_items(self) -> bool:
        """Whether grids count work-items: rocprofiler-sdk's dispatches do, roctracer's arguments of most calls do not.

        Nothing in the file says which of the two it was made with. roctracer spells its copies CopyHostToDevice, its kernels also
        Task; and work-items come in whole workgroups.
        """
        if not len(self._launches.keys):
            return False
        types = whole(self._tables, "rocpd_op", {"opType_id": INT}).numbers("opType_id")
        spelled = self._texts(np.unique(types))
        if any(text.startswith(("Copy", "Fill", "Task", "Barrier")) for text in spelled):
            return False
        pairs = [
            (self._launches.rows.numbers(a), self._launches.rows.numbers(b))
            for a, b in zip(_GRID, _GROUP, strict=True)
        ]
        return all(bool((grid % np.maximum(group, 1) == 0).all()) for grid, group in pairs)

    # Sampled values

    def monitor(self) -> None:
        """rocpd_monitor: clocks and loads of GPUs, each at the start of its interval."""
        columns = {
            **dict.fromkeys(("deviceId", "start"), INT),
            **dict.fromkeys(("deviceType", "monitorType", "value"), TEXT),
        }
        for rows in self._tables.read("rocpd_monitor", columns):
            texts = rows.column("value").to_pylist()
            values = [_number(text) for text in texts]
            kept = np.array([value is not None for value in values], bool)
            if lost := int((~kept).sum()):
                self._target.lost(lost, "values of monitors that are not numbers", "counter")
            if not kept.any():
                continue
            chosen = rows.where(kept)
            kinds = [kind or "monitor" for kind in chosen.column("monitorType").to_pylist()]
            count = len(chosen)
            gpu = [kind == "gpu" for kind in chosen.column("deviceType").to_pylist()]
            devices = numbered(chosen.numbers("deviceId"), self._agent) if all(gpu) else None
            pid = int(self._calls.rows.numbers("pid")[0]) if len(self._calls.keys) else 0
            self._target.add_columns(
                "counter",
                time=chosen.numbers("start"),
                name=kinds,
                value=pa.array([value for value in values if value is not None], pa.float64()),
                unit=[_UNITS.get(kind, "1") for kind in kinds],
                device=pa.nulls(count, pa.int16()) if devices is None else pa.array(devices, pa.int16()),
                source=["rocm-smi"] * count,
                process=np.full(count, self._target.process(pid)),
            )


def _filtered(columns: dict[str, Array], chosen: Array) -> dict[str, Array]:
    return {name: values[chosen] for name, values in columns.items()}


def _correlation(where: dict[str, Array]) -> pa.Array:
    """The call's id; null for work whose call is not in the file."""
    return pa.array(where["call"], INT, mask=~where["named"])


def _handle(text: str | None) -> int:
    """A stream's handle, `0x55d0`; -1 for none."""
    try:
        value = int(text or "", 0)
    except ValueError:
        return -1
    return value if 0 <= value < 2**63 else -1


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
