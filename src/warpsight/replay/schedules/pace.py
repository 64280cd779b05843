"""How fast kernels follow each other on this GPU: in a stream, and in a CUDA graph, from two chains of kernels that only spin."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import median

from warpsight.replay import execution, script
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, Writer
from warpsight.replay.schedules.sequence import sequence

#: Kernels of a chain, and how often it runs.
_KERNELS, _RUNS = 300, 5
#: Cycles per ns, about; no kernel spins for longer than so many ns.
_CLOCK, _LONGEST = 1.7, 20_000
_MOST_BLOCKS = 1024
_SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry kernel_0(.param .u64 cycles) {
  .reg .u64 %begin, %now, %length;
  .reg .pred %early;
  ld.param.u64 %length, [cycles];
  mov.u64 %begin, %clock64;
again:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %early, %now, %length;
  @%early bra again;
  ret;
}
\0"""


def sooner_in_a_graph(
    launches: Sequence[m.Launch], lengths: Sequence[float], device: int, timeout: float | None
) -> int:
    """How much sooner a kernel follows its predecessor in a graph than in a stream, ns; 0 if the chains fail.

    Args:
        launches: launches whose median shape the kernels of the chains get.
        lengths: their lengths, ns.
        device: number of the GPU.
        timeout: seconds.
    """
    if not launches:
        return 0
    blocks = median(one.grid[0] * one.grid[1] * one.grid[2] for one in launches)
    threads = median(one.block[0] * one.block[1] * one.block[2] for one in launches)
    cycles = min(max(median(lengths), 0), _LONGEST) * _CLOCK
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as temporary:
        folder = Path(temporary)
        chain = _chain(folder / "chain", min(int(blocks), _MOST_BLOCKS), int(threads), int(cycles))
        took = [
            _total(chain, flags, device, folder / name, timeout)
            for name, flags in (("stream", script.GATE), ("graph", script.GRAPH))
        ]
    sooner = (took[0] - took[1]) / _KERNELS
    return max(round(sooner), 0) if isfinite(sooner) else 0


def _chain(path: Path, blocks: int, threads: int, cycles: int) -> Capsule:
    writer = Writer(path)
    launch = m.Launch(0, 0, (blocks, 1, 1), (threads, 1, 1), struct.pack("<Q", cycles))
    return writer.finish(
        m.Manifest(
            format="warpsight capsule", version=m.VERSION, chunk_bytes=writer.chunk_bytes, values="none",
            device=m.RecordedDevice("", (7, 0), 1, 0, 0), modules=[m.LoadedModule("ptx", len(_SPIN), writer.put(_SPIN))],
            functions=[m.Function(0, "kernel_0", [m.Parameter(0, 8)])], streams=[m.Stream()],
            operations=[launch] * _KERNELS,
        )
    )  # fmt: skip


def _total(capsule: Capsule, flags: int, device: int, folder: Path, timeout: float | None) -> float:
    folder.mkdir()
    written = script.write(
        capsule, sequence(capsule.manifest), script.ScriptSettings(_RUNS, 0, flags, device), folder
    )
    found = execution.run(written, folder, timeout=timeout)
    return median(found.totals.values()) if found.failure is None and found.totals else float("nan")
