"""The text of `perf script`: samples and probe hits with their stacks.

It reads the fields that `perf script` prints by default or with `-F comm,pid,tid,cpu,time,event,ip,sym,dso`, and times with six
or nine decimals. A single number before the time is a thread id: perf leaves the process out unless asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.reading import stack_blocks
from warpsight.formats.reading.samples import Samples, place
from warpsight.formats.registry import Coverage, Options
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "time, command, pid, tid, event and stack; probes on CUDA and HIP functions as calls, other events as"
        " `sample`",
    ),
    lost=("period, CPU, flags, raw fields; durations of calls, which the file lacks",),
    tested=("recordings of perf 6.1 and seven other real texts",),
)
_HEAD = (
    r"^\s*(?P<comm>\S.*?)\s+(?P<pid>-?\d+)(?:/(?P<tid>-?\d+))?\s+(?:\[\d+\]\s+)?(?:[\w.]{4,6}\s+)?"
    r"(?P<seconds>\d+)\.(?P<fraction>\d{6,9}):\s+(?:\d+\s+)?(?P<event>\S+):(?:\s.*)?$"
)
#: Maximum bytes of a sample's first line: the expression rescans a line of spaces.
_LONGEST_HEAD = 4096
_SNIFF = re.compile(_HEAD.encode())
_FRAME = re.compile(r"^\s*([0-9a-f]+)\s+(.*?)(?:\s+\(([^()]*(?:\([^()]*\))?[^()]*)\))?\s*$")


def sniff(source: Source) -> bool:
    """Whether the first meaningful line is a sample's."""
    lines = [line for line in source.head.splitlines() if line.strip() and not line.startswith(b"#")]
    return bool(lines) and len(lines[0]) <= _LONGEST_HEAD and bool(_SNIFF.match(lines[0]))


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: when no block begins with a sample's line.
    """
    with source.open() as file:
        samples = parse_stacks(file.read())
    if not len(samples):
        raise source.error("no line has the fields command, pid, time and event of perf script", line=1)
    if samples.skipped:
        target.lost(samples.skipped, "blocks that do not begin with a sample's line were skipped", "sample")
    if bool((samples.pid == samples.tid).all()) and len(np.unique(samples.tid)) > 1:
        target.note("process and thread ids are the same: -F +pid makes perf script print both")
    target.source.update(tool="perf", clock="CLOCK_MONOTONIC of perf record -k mono, else perf's own")
    place(target, samples)


def parse_stacks(data: bytes) -> Samples:
    """The samples as columns."""
    data = re.sub(rb"(?m)^#.*\n?", b"", data) if b"#" in data[:4096] else data
    blocks = stack_blocks.split(data)
    found = pc.extract_regex(blocks.head, _HEAD)
    valid = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    rows = found.take(pa.array(valid))
    fraction = pc.utf8_rpad(rows.field("fraction"), 9, "0").cast(pa.int64()).to_numpy()
    time = rows.field("seconds").cast(pa.int64()).to_numpy() * 1_000_000_000 + fraction
    pid = rows.field("pid").cast(pa.int64())
    tid = pc.if_else(
        pc.equal(rows.field("tid"), ""),
        pid,
        pc.replace_substring_regex(rows.field("tid"), "^$", "0").cast(pa.int64()),
    )
    event = rows.field("event").dictionary_encode()
    stacks = [_frames(body) for body in blocks.bodies]
    return Samples(
        time, pid.to_numpy(), tid.to_numpy(), blocks.place[valid], event.indices.to_numpy().astype(np.int64), stacks,
        event.dictionary.to_pylist() or [""], rows.field("comm").to_pylist(), len(blocks) - len(valid),
    )  # fmt: skip


def _frames(body: str) -> tuple[Frame, ...]:
    """Frames of a block, outermost first; perf lists the innermost first."""
    frames: list[Frame] = []
    for line in body.splitlines():
        match = _FRAME.match(line)
        if match is None or not match[2]:
            continue
        name = match[2].partition("+0x")[0]
        frames.append(
            (name, match[3], None, int(match[1], 16) if name == "[unknown]" else None, "native", None)
        )
    return tuple(reversed(frames))
