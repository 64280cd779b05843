"""Make a recording small and anonymous enough to keep: `python tests/planted/trim.py IN.warp.zip OUT.warp.zip`.

What the analyses of the loop read stays as recorded. Dropped are samples from before the first kernel (imports), the stacks and
frames that nothing refers to then, all but the analysed counters, and what tells the machine: environment, host, ids of devices,
folders of files. Parts are joined.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warpsight.model import open as open_trace
from warpsight.model.schema import TABLES
from warpsight.model.sharing import pack
from warpsight.model.storage import manifest, store

COUNTERS = ("sm_clock", "power", "temperature", "throttle_software_power_cap", "throttle_hardware_slowdown",
            "throttle_software_thermal", "throttle_hardware_thermal", "gpu_utilization")  # fmt: skip


def ancestors(stack: pa.Table, used: set[int]) -> set[int]:
    parent = dict(zip(stack["id"].to_pylist(), stack["parent"].to_pylist(), strict=True))
    kept: set[int] = set()
    for one in used:
        at: int | None = one
        while at and at not in kept:
            kept.add(at)
            at = parent.get(at)
    return kept


def replaced(table: pa.Table, column: str, value: Any) -> pa.Table:
    index = table.column_names.index(column)
    field = table.schema.field(index)
    return table.set_column(index, field, pa.array([value] * len(table), field.type))


def base_names(table: pa.Table, column: str) -> pa.Table:
    index = table.column_names.index(column)
    names = [None if path is None else re.sub(r"^.*/(?=lib/python3)", "", path) if "lib/python3" in path
             else path.rsplit("/", 1)[-1] for path in table[column].to_pylist()]  # fmt: skip
    return table.set_column(index, table.schema.field(index), pa.array(names, table.schema.field(index).type))


def trim(source: Path, target: Path) -> int:
    with open_trace(source) as trace, tempfile.TemporaryDirectory() as folder:
        tables = {name: trace.arrow(name) for name in TABLES}
        content = dict(trace.manifest)
        first = pc.min(tables["kernel"]["start"]).as_py()
        tables["sample"] = tables["sample"].filter(pc.greater_equal(tables["sample"]["time"], first))
        tables["counter"] = tables["counter"].filter(pc.is_in(tables["counter"]["name"], pa.array(COUNTERS)))
        tables["module"] = tables["module"].slice(0, 0)
        used = {
            i
            for t in tables.values()
            if "stack" in t.column_names
            for i in t["stack"].unique().to_pylist()
            if i
        }
        kept = ancestors(tables["stack"], used)
        tables["stack"] = tables["stack"].filter(
            pc.is_in(tables["stack"]["id"], pa.array(sorted(kept), pa.int32()))
        )
        tables["frame"] = tables["frame"].filter(pc.is_in(tables["frame"]["id"], tables["stack"]["frame"]))
        tables["frame"] = base_names(tables["frame"], "file")
        program = source.name.removeprefix("planted_").removesuffix(".warp.zip")
        for column, value in (
            ("host", "h200"),
            ("command", program),
            ("executable", "program"),
            ("environment", None),
        ):
            tables["process"] = replaced(tables["process"], column, value)
        devices = replaced(tables["device"], "host", "h200")
        place = devices.column_names.index("uuid")
        uuids = [f"GPU-00000000-0000-0000-0000-{number:012}" for number in range(len(devices))]
        tables["device"] = devices.set_column(place, devices.schema.field(place), pa.array(uuids))
        root = Path(folder) / "trace.warp"
        root.mkdir(mode=0o700)
        for name, table in tables.items():
            if len(table):
                process = 0 if "process" in table.column_names and name not in WIDE else None
                if TABLES[name].sort:
                    table = table.sort_by(TABLES[name].sort)
                store.write_part(store.part_path(root, name, process, 0), TABLES[name], table)
        content |= {"host": "h200", "processes": tables["process"].to_pylist(), "devices": tables["device"].to_pylist(),
                    "rows": {n: len(t) for n, t in tables.items() if len(t)}}  # fmt: skip
        content["clocks"] = {k: v for k, v in content.get("clocks", {}).items() if k != "boot"}
        content["settings"] = {k: v for k, v in content.get("settings", {}).items() if k != "command"}
        manifest.write(root, content)
        return pack.pack(root, target, force=True)


WIDE = {"process", "thread", "device", "context", "stream", "module", "loss", "clock"}

if __name__ == "__main__":
    print(f"{sys.argv[2]}: {trim(Path(sys.argv[1]), Path(sys.argv[2])):,} bytes")
