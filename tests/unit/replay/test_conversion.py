"""What a process leaves becomes a capsule, whatever its size, in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from warpsight.replay.capsule.conversion import convert

_SIZE = 768 << 20
_CONVERT = """
import json, resource, sys
from pathlib import Path
from warpsight.replay.capsule.conversion import convert
folder = Path(sys.argv[1])
log = json.loads((folder / "log").read_text())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
convert(folder / "data", log, folder / "x.capsule", "all", ["program"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _log(size: int) -> list[dict[str, Any]]:
    device = {
        "name": "a GPU", "compute_capability": [9, 0], "multiprocessors": 1, "memory_bytes": 1 << 34, "driver": 13000,
        "uuid": "", "limits": {}, "time": 0,
    }  # fmt: skip
    fill = {
        "type": "set",
        "stream": 0,
        "destination": 1 << 30,
        "value": 0,
        "element": 1,
        "count": 1,
        "rows": 1,
        "pitch": 0,
    }
    return [
        {"kind": "device", **device},
        {"kind": "stream", "default": True, "flags": 0, "priority": 0},
        {"kind": "allocation", "address": 1 << 30, "size": size, "type": "malloc", "reached": "fill"},
        {"kind": "contents", "of": "allocation", "number": 0, "when": "before", "offset": 0},
        {"kind": "contents", "of": "allocation", "number": 0, "when": "after", "offset": size},
        {"kind": "operation", **fill, "host_time": 0},
        {"kind": "end", "held_ns": 0},
        {"kind": "whole", "bytes": 2 * size, "failed": ""},
    ]


def test_converting_takes_as_little_memory_for_large_contents(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(json.dumps(_log(_SIZE)))
    with open(tmp_path / "data", "wb") as data:
        os.ftruncate(data.fileno(), 2 * _SIZE)
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, tmp_path], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) << 10 < 192 << 20  # ru_maxrss is in KiB


def test_a_command_of_several_lines_is_kept_as_text(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(8192))
    command = ["python", "-c", "import torch\nx = 'ä'", "\x1b[2J\udc80"]
    held = convert(tmp_path / "data", _log(4096), tmp_path / "x.capsule", "all", command).manifest
    assert held.command == ["python", "-c", r"import torch\nx = 'ä'", r"\x1b[2J\udc80"]
