"""The output of `tracy-csvexport`: zones (-u), GPU zones (-g), messages (-m). Its fields are not quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.formats.registry import Coverage, Options

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "zones with name, file, line, thread and text as `marker`; GPU zones as `kernel`; messages as "
        "instants",
    ),
    lost=(
        "plots; contexts and queues of GPU zones; the summary without -u is refused because it has no times",
    ),
    tested=(
        "lines written after tracy-csvexport 0.11 to 0.14",
    ),
)  # fmt: skip
_ZONES = b"name,src_file,src_line,ns_since_start,exec_time_ns,thread"
_GPU = b"name,src_file,Time from start of program,GPU execution time"
_MESSAGES = b"MessageName,total_ns"
_SUMMARY = b"name,src_file,src_line,total_ns,total_perc"
_ROWS = {
    _ZONES: r"^(?P<name>.*),(?P<file>[^,]*),(?P<line>\d+),(?P<start>-?\d+),(?P<length>-?\d+),(?P<thread>\d+)(?:,(?P<text>.*))?$",
    _GPU: r"^(?P<name>.*),(?P<file>[^,]*),(?P<start>-?\d+),(?P<length>-?\d+)$",
    _MESSAGES: r"^(?P<name>.*),(?P<start>-?\d+)$",
}


def sniff(source: Source) -> bool:
    """Whether the first line is one of csvexport's headers."""
    return source.head.startswith((*_ROWS, _SUMMARY))


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: for the summary of zones, which has no times, and for any other file.
    """
    with source.open() as file:
        data = file.read()
    head, _, body = data.partition(b"\n")
    if head.startswith(_SUMMARY):
        raise source.error("sums zones up and has no times: run tracy-csvexport with -u", line=1)
    kind = next((known for known in _ROWS if head.strip().startswith(known)), None)
    if kind is None:
        raise source.error(
            "does not begin with a line of tracy-csvexport: zones (-u), GPU zones (-g) or messages (-m)",
            line=1,
        )
    lines = pc.list_flatten(
        pc.split_pattern(pa.array([body.decode("utf-8", "replace")], pa.large_string()), "\n")
    )
    lines = pc.utf8_rtrim(lines.cast(pa.string()), "\r")
    lines = lines.filter(pc.not_equal(lines, ""))
    found = pc.extract_regex(lines, _ROWS[kind])
    rows = found.filter(found.is_valid())
    if found.null_count:
        target.lost(found.null_count, "lines that do not have the columns were skipped", "marker")
    target.source.update(tool="tracy-csvexport", clock="ns since the program's start")
    if not len(rows):
        return
    try:
        (_gpu if kind == _GPU else _host)(target, rows, kind)
    except pa.ArrowInvalid as error:
        raise source.error(f"a number does not fit: {error}") from None


def _names(target: Target, rows: pa.StructArray) -> NDArray[np.int32]:
    encoded = rows.field("name").dictionary_encode()
    ids = np.array([target.name(text) for text in encoded.dictionary.to_pylist()], np.int32)
    found: NDArray[np.int32] = ids[encoded.indices.to_numpy()]
    return found


def _host(target: Target, rows: pa.StructArray, kind: bytes) -> None:
    """Zones and messages."""
    count, process = len(rows), target.process(0, command="tracy")
    columns: dict[str, Any] = {"start": rows.field("start").cast(pa.int64()), "name_id": _names(target, rows)}
    columns |= {"open": np.zeros(count, bool), "source": ["framework"] * count, "process": [process] * count}
    if kind == _MESSAGES:
        columns |= {"kind": ["instant"] * count, "thread": [target.thread(process, 0)] * count}
        target.add("marker", columns)
        return
    raw = rows.field("thread").cast(pa.uint64()).to_numpy()
    known, place = np.unique(raw, return_inverse=True)
    threads = np.array([target.thread(process, int(tid)) for tid in known.tolist()], np.int32)[place]
    texts = [f'{{"text":{_json(text)}}}' if text else None for text in rows.field("text").to_pylist()]
    columns |= {
        "duration": rows.field("length").cast(pa.int64()),
        "kind": ["push/pop"] * count,
        "thread": threads,
    }
    columns |= {"attributes": texts, "stack": _stacks(target, rows)}
    target.add("marker", columns)


def _json(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _stacks(target: Target, rows: pa.StructArray) -> list[int | None]:
    """Where each zone is in the source."""
    places = zip(*(rows.field(name).to_pylist() for name in ("name", "file", "line")), strict=True)
    known: dict[tuple[str, str, str], int | None] = {}
    out = []
    for place in places:
        if place not in known:
            line = int(place[2])
            known[place] = target.stack(
                [(place[0], place[1], line if line < 1 << 31 else None, None, "marker", None)]
            )
        out.append(known[place])
    return out


def _gpu(target: Target, rows: pa.StructArray, kind: bytes) -> None:
    count, process = len(rows), target.process(0, command="tracy")
    context = target.context(process, 0, api="tracy")
    stream = target.stream(process, context, 0)
    target.add("kernel", {
        "start": rows.field("start").cast(pa.int64()), "duration": rows.field("length").cast(pa.int64()),
        "name_id": _names(target, rows), "context": [context] * count, "stream": [stream] * count,
        "process": [process] * count, "graph_level": np.zeros(count, bool)})  # fmt: skip
