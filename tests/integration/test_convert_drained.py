"""Rows written by the compiled rings and drained by the compiled drainer become a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import warpsight.model
from warpsight.capture.recover import recover

PROGRAM = """
import ctypes, os, sys
import numpy as np
from warpsight import _native
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES

library = _native.load()
fd = library.ws_arena_create(None)
assert fd >= 0
folder = sys.argv[1]
os.makedirs(folder)
drainer = library.ws_drain_open(fd, folder.encode(), 1 << 20)
assert drainer


def write(kind, **values):
    record = layout.BY_NAME[kind]
    row = np.zeros(1, DTYPES[record.kind])
    for name, value in values.items():
        row[name] = value
    data = row.tobytes()
    assert library.ws_write_row(record.kind, data, len(data)) == 0


name = library.ws_intern(b"_Z9vectorAddPKfS0_Pfi", 21)
unit = library.ws_intern(b"W", 1)
for i in range(1, 30001):
    write("Api", start=i * 1000, duration=100, correlation=i, name=name, domain=1, function=211, flags=1)
    write("Kernel", start=i * 1000 + 200, end=i * 1000 + 700, correlation=i, name=name, context=1, stream=7)
    if i % 500 == 0:
        assert library.ws_drain_poll(drainer, int(i % 1500 == 0)) >= 0
write("Counter", time=5, value=2.5, name=unit, unit=unit, device=-1, source=3)
if sys.argv[2] == "close":
    assert library.ws_drain_close(drainer) >= 0
else:
    library.ws_drain_poll(drainer, 1)
    os._exit(9)
"""


def record(root: Path, ending: str, library: Path) -> None:
    """Run a process that writes 30,000 launches and kernels and drains itself."""
    environment = {**os.environ, "WARPSIGHT_LIBRARY": str(library)}
    arguments = [sys.executable, "-c", PROGRAM, str(root / "raw" / "1f"), ending]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == (0 if ending == "close" else 9), done.stderr


def check(root: Path) -> None:
    """Every row is there once and joined."""
    with warpsight.model.open(root) as trace:
        assert trace.tables["kernel"] == trace.tables["launch"] == 30000
        joined = trace.sql(
            "SELECT count(*) FROM kernel JOIN launch USING (process, correlation)"
            " WHERE function = 'cudaLaunchKernel' AND kernel.short = 'vectorAdd'"
        )
        assert joined.fetchall() == [(30000,)]
        assert trace.sql("SELECT name, value, unit FROM counter").fetchall() == [("W", 2.5, "W")]
        lost = [row for row in trace.loss.to_pylist() if row["severity"] != "note"]
        assert lost == []


def test_what_the_drainer_wrote_is_converted_whole(library: Path, tmp_path: Path) -> None:
    root = tmp_path / "run.warp"
    record(root, "close", library)
    requests = '{"do": "convert"}\n{"do": "finish"}\n'
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.capture.converter", str(root)],
        input=requests,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1])["finished"]["rows"]["kernel"] == 30000
    check(root)


def test_what_a_killed_drainer_left_is_recovered_whole(library: Path, tmp_path: Path) -> None:
    root = tmp_path / "run.warp"
    record(root, "die", library)
    assert list(root.glob("raw/1f/*.open"))
    recover(root)
    check(root)
