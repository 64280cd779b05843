"""Recordings with every kind of record and files of other tools, and every table made of them, as plain data.

`python -m tests.golden.converting` writes `answers/` anew; the difference in version control is what to review.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import warpsight
from tests.golden.answering import ANSWERS, plain
from tests.unit.capture.recordings import Recording
from warpsight.analysis.merge import trace_file
from warpsight.capture.segments import layout
from warpsight.capture.segments.packed import Struct, StructField
from warpsight.capture.segments.record_kinds import RECORDS
from warpsight.model.schema import TABLES
from warpsight.model.trace import StoredTrace

SEEDS = (1, 2, 3)
#: Files of PyTorch's profiler with every kind of event.
FILES = sorted((Path(__file__).parent / "formats" / "kineto").glob("*.json"))
#: A trace and the stacks of another tool that are merged into it.
MERGED = Path(__file__).parent / "merge"
NAMES = ("merged", *(f"recording-{seed}" for seed in SEEDS), *(file.name for file in FILES))
_ROWS = 24
#: Seldom used ids that nothing defines, like a row that damage has reached.
_UNDEFINED = 99
_TEXTS = 14  # of Recording.process
#: Fields that name a value of a list: a few more than there are, since recorders may be newer.
_CHOICES = {
    "kind": 12, "type": 8, "phase": 6, "operation": 6, "flags": 4, "category": 7, "source": 6, "severity": 4, "method": 7,
    "payload_type": 4, "memory_kind": 8, "source_kind": 8, "destination_kind": 8, "counter": 4, "launch_type": 4, "gil": 2,
}  # fmt: skip
_TIMES = ("time", "start", "monotonic", "realtime", "queued", "submitted")


def recording(seed: int, folder: Path) -> StoredTrace:
    """Two processes, each of which leaves all kinds of records, in pieces and with the definitions between them."""
    order, made = random.Random(seed), Recording(folder / "run.warp")
    arenas = [made.process(number, uuid=f"GPU-{number}", device=number - 1) for number in (1, 2)]
    for arena in arenas:
        with made.file(arena, "definitions") as out:
            for record in RECORDS:
                if record.definition and record.name not in (
                    "String",
                    "Frame",
                    "Stack",
                    "Process",
                    "Device",
                    "ApiFunction",
                ):
                    out.write(record.name, _rows(record, order, 3))
        kinds = [record for record in RECORDS if not record.definition]
        order.shuffle(kinds)
        for record in kinds:
            with made.file(arena) as out:
                for _ in range(2):
                    out.write(
                        record.name,
                        _rows(record, order, _ROWS),
                        thread=order.choice((11, 12)),
                        session=order.choice((0, 1)),
                    )
    return made.finish()


def _rows(record: Struct, order: random.Random, count: int) -> dict[str, Any]:
    begins = sorted(order.randrange(1_000, 1_000_000) for _ in range(count))
    return {
        field.name: [_value(record, field, begins[n], order) for n in range(count)]
        for field in record.fields
        if field.count == 1 and not field.name.startswith("reserved")
    }


def _value(record: Struct, field: StructField, begin: int, order: random.Random) -> float:
    if field.name in _TIMES:
        return begin if order.random() < 0.95 else 0
    if field.name in ("end", "device_time"):
        return begin + order.randrange(3_000)
    if field.name == "duration":
        return order.randrange(3_000)
    if field.type == "f8":
        return order.randrange(-50, 1_000) / 4
    if "string" in field.meaning:
        return order.choice((0, *range(1, _TEXTS + 1), *range(1, _TEXTS + 1), _UNDEFINED))
    if field.name in ("stack", "shape"):
        return order.choice((0, 1, 1, 2 if field.name == "stack" else 3, _UNDEFINED))
    if field.name == "correlation" or field.name.endswith("_correlation"):
        return order.randrange(_ROWS)
    if field.name == "domain":
        return order.choice((layout.API_CUDA_RUNTIME, layout.API_CUDA_DRIVER, layout.API_OPENCL))
    if field.name == "function":
        return order.choice((1, 13, 41, 211, 307, 514))
    if field.name in _CHOICES:
        return order.randrange(_CHOICES[field.name])
    if field.name == "device" or field.name.endswith("_device"):
        return (
            -1
            if field.type == "i4" and order.random() < 0.3
            else order.choice((0, 1, 1, 65535 if field.type == "u2" else 0))
        )
    if field.name in (
        "id",
        "graph",
        "node",
        "original",
        "context",
        "stream",
        "event",
        "from_node",
        "to_node",
        "graph_node",
    ):
        return order.choice((0, 1, 2, 3, 7))
    limit = 2**7 if field.type == "u1" else 2**15 if field.type in ("u2", "i2") else 2**20
    return order.choice(
        (0, order.randrange(limit), -1 if field.type.startswith("i") else order.randrange(limit))
    )


def tables(trace: StoredTrace) -> dict[str, Any]:
    """Table → its rows."""
    found = {name: trace.sql(f"SELECT * FROM {name} ORDER BY ALL").to_arrow_table() for name in TABLES}
    return {name: plain(table) for name, table in found.items() if len(table)}


def converted(name: str) -> dict[str, Any]:
    """What becomes of a generated recording or a file."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "merged":
            _merge(Path(folder, "merged.warp"))
            with warpsight.open(Path(folder, "merged.warp")) as trace:
                return tables(trace)
        file = next((file for file in FILES if file.name == name), None)
        with warpsight.open(file) if file else recording(int(name.rpartition("-")[2]), Path(folder)) as trace:
            return tables(trace)


def _merge(path: Path) -> None:
    with warpsight.open(MERGED / "gpu.json") as trace:
        trace_file.write(trace.merge(MERGED / "stacks.txt"), trace, path, "stacks.txt")


def main() -> None:
    """Write the tables of all of them."""
    for name in NAMES:
        text = json.dumps(converted(name), indent=1, ensure_ascii=False, sort_keys=True)
        (ANSWERS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
