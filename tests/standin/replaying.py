"""Capsules whose kernels the stand-in in tests/standin/replay knows, and replays of them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, Writer

HERE = Path(__file__).parent
#: Where the stand-in's memory is; nothing of a process is there, sanitizers' shadows included.
BASE = 0x2000_0000_0000
COUNT = 3000
KERNEL = "_Z5scalePfPKffi"
DEVICE = m.RecordedDevice("Stand-in GPU", (9, 0), 132, 80 << 30, 13000)
LAYOUT = [m.Parameter(0, 8), m.Parameter(8, 8), m.Parameter(16, 4), m.Parameter(20, 4)]
INPUT = np.linspace(-1, 1, COUNT, dtype=np.float32)


def parameters(to: int, source: int, factor: float = 2.0, count: int = COUNT) -> bytes:
    return struct.pack("<QQfi", to, source, factor, count)


def image(*kernels: str) -> bytes:
    return f"kernels: {' '.join(kernels)} \0".encode()


def write(
    path: Path, kernels: Sequence[str] = (KERNEL,), after: npt.NDArray[Any] | None = None, **changes: Any
) -> Capsule:
    """x at BASE, y behind it in the same granule; each kernel is launched once: y = 2 x."""
    writer = Writer(path, chunk_bytes=4096)
    code = image(*kernels)
    wanted = INPUT * 2 if after is None else after
    y = BASE + 16384
    fields: dict[str, Any] = {
        "modules": [m.LoadedModule("ptx", len(code), writer.put(code))],
        "functions": [m.Function(0, name, LAYOUT) for name in kernels],
        "allocations": [
            m.Allocation(BASE, INPUT.nbytes, "malloc", before=writer.put(INPUT.tobytes()), after=writer.put(INPUT.tobytes())),
            m.Allocation(y, INPUT.nbytes, "malloc", before=writer.put(bytes(INPUT.nbytes)), after=writer.put(wanted.tobytes())),
        ],
        "streams": [m.Stream(default=True)],
        "operations": [
            m.Launch(0, i, (12, 1, 1), (256, 1, 1), parameters(y, BASE), device_time=12_000) for i in range(len(kernels))
        ],
    }  # fmt: skip
    fields |= {name: value(writer) if callable(value) else value for name, value in changes.items()}
    return writer.finish(
        m.Manifest(format="warpsight capsule", version=1, device=DEVICE, chunk_bytes=4096, **fields)
    )


def build(folder: Path) -> Path:
    """The stand-in's folder, for LD_LIBRARY_PATH."""
    subprocess.run([str(HERE / "replay" / "build.sh"), str(folder)], check=True)
    return folder


def replay(
    standin: Path, capsule: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsight", "replay", str(capsule), *arguments],
        env={**os.environ, "LD_LIBRARY_PATH": str(standin), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def answer(standin: Path, capsule: Path, *arguments: str) -> Any:
    done = replay(standin, capsule, *arguments, "--json")
    assert done.stdout, done.stderr
    return {"code": done.returncode, **json.loads(done.stdout)}
