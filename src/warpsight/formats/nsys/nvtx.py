"""NVTX ranges and marks, and the MPI calls that Nsight records with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.nsys.payloads import Payloads
from warpsight.formats.nsys.report import INT, REAL, TEXT, nullable
from warpsight.formats.reading.databases import distinct, distinct_rows

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report
    from warpsight.formats.reading.databases import ForeignRows

Array = npt.NDArray[Any]
#: ENUM_NSYS_EVENT_TYPE: pushed and popped, started and ended, marks; also ranges that were never closed, and NVTXT's.
_KINDS = {
    59: "push/pop", 70: "push/pop", 35: "push/pop", 66: "push/pop", 60: "start/end", 71: "start/end", 37: "start/end",
    68: "start/end", 34: "instant", 65: "instant",
}  # fmt: skip
_CATEGORY, _DOMAIN = (33, 64), 75
_PUSHED = [kind for kind, word in _KINDS.items() if word == "push/pop"]
_PAYLOADS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
_COLUMNS = {
    "start": INT, "end": INT, "eventType": INT, "category": INT, "color": INT, "text": TEXT, "globalTid": INT,
    "textId": INT, "domainId": INT, "jsonTextId": INT, "jsonText": TEXT, "binaryData": pa.binary(),
    **{name: REAL if name in ("doubleValue", "floatValue") else INT for name in _PAYLOADS},
}  # fmt: skip
#: torch's own ranges: `aten::mm, seq = 3, op_id = 17, sizes = [[2, 3], []], input_op_ids = [...]`
#: (torch/csrc/profiler/util.cpp, getNvtxStr).
_TORCH = (
    r"(?s)^(?P<name>.+?)(?:, seq = (?P<sequence>\d+))?, op_id = (?P<op>\d+)"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = (?P<inputs>\[.*\]))?$"
)


def read_ranges(report: Report) -> None:
    """NVTX_EVENTS: ranges and marks to table marker; those torch announces for its operators to table op."""
    table = "NVTX_EVENTS"
    report.read.add(table)
    names = _Names(report)
    depths = _Depths(report)
    payloads = Payloads(report)
    for rows in report.tables.read(table, _COLUMNS):
        kinds = rows.numbers("eventType")
        rows = rows.where(np.isin(kinds, list(_KINDS)) & ~rows.null("globalTid"))
        if not len(rows):
            continue
        texts = _texts(report, rows)
        operators = pc.struct_field(pc.extract_regex(texts, _TORCH), "name")
        torch = np.asarray(pc.is_valid(operators))
        if torch.any():
            _add_operators(report, rows.where(torch), texts.filter(pa.array(torch)))
        others = rows.where(~torch)
        if len(others):
            _add_markers(report, others, texts.filter(pa.array(~torch)), names, depths, payloads)
    payloads.write_collectives()


def _texts(report: Report, rows: ForeignRows) -> pa.Array:
    """Texts of ranges: inline, or registered strings."""
    inline = rows.column("text").combine_chunks()
    if not rows.given("textId"):
        return inline
    return pc.coalesce(inline, report.strings(rows, "textId").dictionary_decode())


def _span(rows: ForeignRows) -> tuple[Array, Array]:
    """Durations, and which rows lack one."""
    return rows.numbers("end") - rows.numbers("start"), rows.null("end")


def _add_operators(report: Report, rows: ForeignRows, texts: pa.Array) -> None:
    found = pc.extract_regex(texts, _TORCH)
    parts = {name: pc.struct_field(found, name) for name in ("name", "sequence", "op", "sizes", "inputs")}
    given = {name: pc.if_else(pc.equal(part, ""), None, part) for name, part in parts.items()}
    coded = given["name"].dictionary_encode()
    names = pa.array(report.target.names(coded.dictionary.to_pylist()), pa.int32()).take(coded.indices)
    more = pc.binary_join_element_wise('{"op_id": ', parts["op"], "")
    inputs = pc.binary_join_element_wise(
        ', "input_op_ids": "', given["inputs"], '"', "", null_handling="emit_null"
    )
    length, open_ = _span(rows)
    thread, process = report.threads(rows.numbers("globalTid"))
    report.target.add_columns(
        "op",
        start=rows.column("start"),
        duration=nullable(length, open_),
        name_id=names,
        sequence=given["sequence"].cast(INT),
        shapes=given["sizes"],
        attributes=pc.binary_join_element_wise(more, pc.fill_null(inputs, ""), "}", ""),
        thread=thread,
        process=process,
    )


def _add_markers(
    report: Report, rows: ForeignRows, texts: pa.Array, names: _Names, depths: _Depths, payloads: Payloads
) -> None:
    kinds = rows.numbers("eventType")
    coded = pc.fill_null(texts, "").dictionary_encode()
    ids = pa.array(report.target.names(coded.dictionary.to_pylist()), pa.int32()).take(coded.indices)
    instant = np.isin(kinds, [kind for kind, word in _KINDS.items() if word == "instant"])
    length, without = _span(rows)
    thread, process = report.threads(rows.numbers("globalTid"))
    words, places = distinct(kinds)
    color = rows.numbers("color") & 0xFFFFFFFF
    report.target.add_columns(
        "marker",
        start=rows.column("start"),
        duration=nullable(length, without | instant),
        kind=pa.array([_KINDS[kind] for kind in words.tolist()], TEXT).take(places),
        open=without & ~instant,
        name_id=ids,
        domain=names.domains(rows, process),
        category=names.categories(rows, process),
        color=pa.array(color, pa.uint32(), mask=rows.null("color")),
        payload=_payload(rows),
        depth=depths.of(rows),
        source=pa.array(["nvtx"]).take(pa.array(np.zeros(len(rows), np.int64))),
        attributes=_attributes(report, rows, texts, payloads),
        thread=thread,
        process=process,
    )


def _payload(rows: ForeignRows) -> pa.ChunkedArray:
    """The one number of a payload; unsigned 64-bit ones are stored as signed."""
    values = [rows.column(name).cast(REAL, safe=False) for name in _PAYLOADS if rows.given(name)]
    return pc.coalesce(*values) if values else pa.nulls(len(rows), REAL)


def _attributes(report: Report, rows: ForeignRows, texts: pa.Array, payloads: Payloads) -> pa.Array:
    """JSON payloads unchanged, structured binary ones decoded by their schema."""
    found = rows.column("jsonText")
    if rows.given("jsonTextId"):
        found = pc.coalesce(found, report.strings(rows, "jsonTextId").dictionary_decode())
    if rows.given("binaryData"):
        found = pc.coalesce(found, payloads.attributes(rows, texts.to_pylist()))
    return found


class _Names:
    """Domains and categories by process; their definitions are rows of the same table."""

    def __init__(self, report: Report) -> None:
        self._domains: dict[tuple[int, int], str] = {}
        self._categories: dict[tuple[int, int, int], str] = {}
        wanted = ("eventType", "category", "globalTid", "domainId", "textId")
        columns = {"text": TEXT, **dict.fromkeys(wanted, INT)}
        for rows in report.tables.read("NVTX_EVENTS", columns, ("eventType", [*_CATEGORY, _DOMAIN])):
            process = report.processes(rows.numbers("globalTid"))
            texts = _texts(report, rows).to_pylist()
            for kind, owner, domain, category, text in zip(
                rows.numbers("eventType").tolist(), process.tolist(), rows.numbers("domainId").tolist(),
                rows.numbers("category").tolist(), texts, strict=True,
            ):  # fmt: skip
                if kind == _DOMAIN:
                    self._domains[owner, domain] = text or ""
                else:
                    self._categories[owner, domain, category] = text or ""

    def domains(self, rows: ForeignRows, process: Array) -> pa.Array:
        """Domain names; null for the default domain."""
        keys, places = distinct_rows([process, rows.numbers("domainId")])
        texts = [
            None if domain == 0 else self._domains.get((owner, domain), f"domain {domain}")
            for owner, domain in keys.tolist()
        ]
        return pa.array(texts, TEXT).take(places)

    def categories(self, rows: ForeignRows, process: Array) -> pa.Array:
        """Category names, or their numbers; null for none."""
        keys, places = distinct_rows([process, rows.numbers("domainId"), rows.numbers("category", 0)])
        texts = [
            None if key[2] == 0 else self._categories.get(tuple(key), str(key[2])) for key in keys.tolist()
        ]
        return pa.array(texts, TEXT).take(places)


class _Depths:
    """Nesting depth of pushed ranges: those of its thread and domain that are open when a range begins."""

    def __init__(self, report: Report) -> None:
        starts, ends, threads = [], [], []
        for rows in report.tables.read(
            "NVTX_EVENTS",
            {"start": INT, "end": INT, "eventType": INT, "globalTid": INT, "domainId": INT},
            ("eventType", _PUSHED),
        ):
            rows = rows.where(_pushed(rows))
            starts.append(rows.numbers("start"))
            ends.append(rows.numbers("end", np.iinfo(np.int64).max))
            threads.append(_lane(rows))
        self._starts: dict[int, Array] = {}
        self._ends: dict[int, Array] = {}
        if not starts:
            return
        start, end, thread = np.concatenate(starts), np.concatenate(ends), np.concatenate(threads)
        for one in np.unique(thread).tolist():
            mine = thread == one
            self._starts[one], self._ends[one] = np.sort(start[mine]), np.sort(end[mine])

    def of(self, rows: ForeignRows) -> pa.Array:
        """Depths from 0; null for anything but a pushed range."""
        pushed, lane, start = _pushed(rows), _lane(rows), rows.numbers("start")
        depth = np.zeros(len(rows), np.int64)
        for one in np.unique(lane[pushed]).tolist():
            mine = np.flatnonzero(pushed & (lane == one))
            begun = np.searchsorted(self._starts[one], start[mine], "left")
            depth[mine] = begun - np.searchsorted(self._ends[one], start[mine], "right")
        return pa.array(np.maximum(depth, 0), pa.int32(), mask=~pushed)


def _pushed(rows: ForeignRows) -> Array:
    return np.isin(rows.numbers("eventType"), _PUSHED) & ~rows.null("globalTid")


def _lane(rows: ForeignRows) -> Array:
    """One number per thread and domain, each of which has its own stack of ranges."""
    tid, domain = rows.numbers("globalTid"), rows.numbers("domainId")
    return np.asarray(tid ^ (domain << 48))


_MPI = {
    "MPI_P2P_EVENTS": ("remoteRank", "tag", "size", "commHandle", "requestHandle"),
    "MPI_COLLECTIVES_EVENTS": ("rootRank", "size", "recvSize", "commHandle", "requestHandle"),
    "MPI_START_WAIT_EVENTS": ("requestHandle",),
    "MPI_OTHER_EVENTS": (),
    "UCP_SUBMIT_EVENTS": ("packedSize", "peerWorkerUid", "tag"),
    "UCP_PROGRESS_EVENTS": ("packedSize", "peerWorkerUid", "tag"),
    "UCP_EVENTS": (),
}


def read_mpi(report: Report) -> None:
    """MPI and UCX calls become ranges of domain MPI or UCX; ranks, tags and sizes are attributes."""
    for table, more in _MPI.items():
        report.read.add(table)
        columns = {"start": INT, "end": INT, "globalTid": INT, "textId": INT, **dict.fromkeys(more, INT)}
        for rows in report.tables.read(table, columns):
            length, without = _span(rows)
            thread, process = report.threads(rows.numbers("globalTid"))
            values = rows.data.select(list(more)).to_pylist() if more else []
            said = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in values]
            count = pa.array(np.zeros(len(rows), np.int64))
            report.target.add_columns(
                "marker",
                start=rows.column("start"),
                duration=nullable(length, without),
                kind=pa.array(["push/pop"]).take(count),
                open=without,
                name_id=report.name_ids(rows, "textId"),
                domain=pa.array([table[:3].replace("UCP", "UCX")]).take(count),
                source=pa.array(["nvtx"]).take(count),
                attributes=pa.array(said, TEXT) if said else pa.nulls(len(rows), TEXT),
                thread=thread,
                process=process,
            )
