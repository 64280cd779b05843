"""Timed folded stacks, one line per call: `time_ns comm pid tid cpu frame;frame;…`, outermost frame first.

Uprobe profilers of the libbpf tools family write this format with `-E`. The command may contain spaces, terminal colors are
removed, and frames of the kernel end in `_[k]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.reading.samples import Samples, is_time, place
from warpsight.formats.registry import Coverage, Options
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=("time, command, pid, tid and stack of each line; CUDA and HIP functions as calls",),
    lost=("the CPU column; durations of calls, which the file lacks",),
    tested=("lines written after bpf-developer-tutorial's gpuflamegraph",),
)
_LINE = re.compile(rb"^\s*(?:\x1b\[[0-9;]*m)*\s*\d+\s+\S.*?\s\d+\s+\d+\s+-?\d+\s+\S")
_COLUMNS = (
    r"^\s*(?P<time>\d{1,19})\s+(?P<comm>\S.*?)\s+(?P<pid>\d{1,9})\s+"
    r"(?P<tid>\d{1,9})\s+(?P<cpu>-?\d+)\s+(?P<stack>\S.*?)\s*$"
)
_COLOURS = r"\x1b\[[0-9;]*m"


def sniff(source: Source) -> bool:
    """Whether the first lines have the columns."""
    lines = [line for line in source.head.splitlines()[:20] if line.strip()]
    if len(source.head) >= 65_536:
        lines = lines[:-1]
    return bool(lines) and sum(bool(_LINE.match(line)) for line in lines) * 2 > len(lines)


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: when no line has the columns.
    """
    with source.open() as file:
        samples = parse_stacks(file.read())
    if not len(samples):
        raise source.error("no line has the columns time, command, pid, tid, cpu and stack", line=1)
    if samples.skipped:
        target.lost(samples.skipped, "lines that do not have the six columns were skipped", "sample")
    target.source.update(clock="the profiler's: CLOCK_MONOTONIC, or the wall clock by its own reckoning")
    place(target, samples)


def parse_stacks(data: bytes) -> Samples:
    """The lines as columns, parsed without a Python loop over lines."""
    text = pa.array([data.decode("utf-8", "replace")], pa.large_string())
    lines = pc.list_flatten(pc.split_pattern(text, "\n")).cast(pa.string())
    if b"\x1b" in data:
        lines = pc.replace_substring_regex(lines, _COLOURS, "")
    lines = lines.filter(pc.match_substring_regex(lines, r"\S"))
    column, skipped = _columns(pc.utf8_trim_whitespace(lines))
    stack = column["stack"].dictionary_encode()
    stacks = [_frames(text) for text in stack.dictionary.to_pylist()]
    time, pid, tid = (column[name].cast(pa.int64()).to_numpy() for name in ("time", "pid", "tid"))
    return Samples(
        time, pid, tid, stack.indices.to_numpy().astype(np.int64), np.zeros(len(stack), np.int64), stacks, [""],
        column["comm"].to_pylist(), skipped,
    )  # fmt: skip


def _columns(lines: pa.Array) -> tuple[dict[str, pa.Array], int]:
    """The columns of the lines that have them, and the number of lines that do not.

    Splitting at blanks is several times quicker than the expression, which is for files where a command holds blanks.
    """
    parts = pc.utf8_split_whitespace(lines, max_splits=5)
    if bool(pc.all(pc.equal(pc.list_value_length(parts), 6)).as_py()):
        found = [pc.list_element(parts, place) for place in range(6)]
        widths = {0: 19, 2: 9, 3: 9, 4: 9}
        fits = (
            pc.match_substring_regex(found[place], rf"^\d{{1,{most}}}$") for place, most in widths.items()
        )
        if all(bool(pc.all(column).as_py()) for column in (*fits, is_time(found[0]))):
            return dict(zip(("time", "comm", "pid", "tid", "cpu", "stack"), found, strict=True)), 0
    rows = pc.extract_regex(lines, _COLUMNS)
    whole = rows.filter(rows.is_valid())
    whole = whole.filter(is_time(whole.field("time")))
    return {name: whole.field(name) for name in ("time", "comm", "pid", "tid", "stack")}, len(rows) - len(
        whole
    )


def _frames(text: str) -> tuple[Frame, ...]:
    return tuple((part.strip(), None, None, None, "native", None) for part in text.split(";") if part.strip())
