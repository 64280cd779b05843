r"""Output of bpftrace programs that print stacks.

Two forms are read. Blocks that begin with a line `time_ns comm pid tid [function]`, as a program prints them with
`printf("%llu %s %d %d %s\n%s\n", nsecs, comm, pid, tid, func, ustack)`; and the maps that bpftrace prints when it ends,
`@[…stack…]: count`, which have no times.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.reading import stack_blocks, weighted
from warpsight.formats.reading.samples import Samples, is_time, place
from warpsight.formats.registry import Coverage, Options
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "blocks with time, command, pid, tid, function and stack: CUDA and HIP functions as calls, others as "
        "`sample`",
        "maps keyed by stacks: each stack with its count, laid end to end",
    ),
    lost=("other printed lines; other keys of a map",),
    tested=("bpftrace 0.17, on a library of our own",),
)
_HEAD = (
    r"^\s*(?P<time>\d{6,19})\s+(?P<comm>\S.*?)\s+(?P<pid>\d{1,9})\s+(?P<tid>\d{1,9})"
    r"(?:\s+(?P<function>[A-Za-z_0][^\s;]*))?\s*$"
)
_SNIFF = re.compile(_HEAD.encode(), re.MULTILINE)
_MAP = re.compile(r"\s*@\w*\[(.*)")
_FRAME = re.compile(r"^(?:[0-9a-f]{3,16}\s+)?(.*?)(?:\+(?:0x)?[0-9a-f]+)?(?:\s+\((.*)\))?$")


def sniff(source: Source) -> bool:
    """Whether it begins like bpftrace's own output, or contains blocks or maps with stacks."""
    lines = [line for line in source.head[:8192].splitlines() if line.strip()]
    if not lines:
        return False
    attached = lines[0].startswith(b"Attaching ") and b"probe" in lines[0]
    first = lines[1] if attached and len(lines) > 1 else lines[0]
    return attached or bool(_SNIFF.match(first)) or bool(re.match(rb"@\w*\[\s*$", first))


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: when it has neither blocks with a time nor maps of stacks.
    """
    with source.open() as file:
        data = file.read()
    samples = parse_stacks(data)
    counted = [] if len(samples) else _maps(data.decode("utf-8", "replace"))
    if not len(samples) and not counted:
        raise source.error(
            "has neither blocks that begin with time, command, pid and tid, nor maps keyed by stacks", line=1
        )
    target.source.update(tool="bpftrace", clock="CLOCK_BOOTTIME or CLOCK_MONOTONIC (nsecs)")
    if len(samples):
        place(target, samples)
    else:
        weighted.place(target, counted, "count")


def parse_stacks(data: bytes) -> Samples:
    """Blocks with a time as columns."""
    blocks = stack_blocks.split(
        re.sub(rb"\A(?:[^\n]*Attaching \d+ probes?[^\n]*|ERROR:[^\n]*|WARNING:[^\n]*)\n", b"", data)
    )
    blocks = _joined(blocks)
    found = pc.extract_regex(blocks.head, _HEAD)
    timed = pc.and_(found.is_valid(), is_time(found.field("time")))
    valid = np.flatnonzero(timed.to_numpy(zero_copy_only=False))
    rows = found.take(pa.array(valid))
    time, pid, tid = (rows.field(name).cast(pa.int64()).to_numpy() for name in ("time", "pid", "tid"))
    function = rows.field("function").dictionary_encode()
    return Samples(
        time, pid, tid, blocks.place[valid], function.indices.to_numpy().astype(np.int64),
        [_frames(body) for body in blocks.bodies], function.dictionary.to_pylist() or [""],
        rows.field("comm").to_pylist(), len(blocks) - len(valid),
    )  # fmt: skip


def _joined(blocks: stack_blocks.Blocks) -> stack_blocks.Blocks:
    """`printf` of a stack begins it on a line of its own: a head without a body belongs to the block after it."""
    empty = np.array([not body.strip() for body in blocks.bodies] or [True])[blocks.place]
    heads = pc.match_substring_regex(blocks.head, _HEAD).to_numpy(zero_copy_only=False)
    alone = np.flatnonzero(empty[:-1] & heads[:-1] & ~heads[1:])
    if not len(alone):
        return blocks
    # The stack's first frame was taken for a head: put it back.
    place = blocks.place.copy()
    bodies = list(blocks.bodies)
    known: dict[tuple[str, int], int] = {}
    first = blocks.head.take(pa.array(alone + 1)).dictionary_encode()
    frames, texts = first.indices.to_numpy(), first.dictionary.to_pylist()
    keys = frames.astype(np.int64) * len(bodies) + blocks.place[alone + 1]
    for key in np.unique(keys).tolist():
        frame, body = divmod(key, len(blocks.bodies))
        known[texts[frame], body] = len(bodies)
        bodies.append(f"{texts[frame]}\n{blocks.bodies[body]}")
    distinct, where = np.unique(keys, return_inverse=True)
    numbers = np.array(
        [known[texts[k // len(blocks.bodies)], k % len(blocks.bodies)] for k in distinct.tolist()]
    )
    place[alone] = numbers[where]
    keep = np.ones(len(place), bool)
    keep[alone + 1] = False
    rows = np.flatnonzero(keep)
    return stack_blocks.Blocks(blocks.head.take(pa.array(rows)), place[rows], bodies)


def _frames(body: str) -> tuple[Frame, ...]:
    """Frames, outermost first; bpftrace lists the innermost first."""
    frames: list[Frame] = []
    for line in body.splitlines():
        text = line.strip().rstrip(",")
        match = _FRAME.match(text)
        if text and match is not None:
            frames.append((match[1], match[2], None, None, "native", None))
    return tuple(reversed(frames))


def _maps(text: str) -> list[tuple[tuple[Frame, ...], int]]:
    """Stacks and counts of the maps: from a line `@name[` to one ending in `]: count`; keys may contain other values."""
    found: list[tuple[tuple[Frame, ...], int]] = []
    body: list[str] | None = None
    for line in text.splitlines():
        if body is None:
            begin = _MAP.match(line)
            if begin is not None and "]:" not in line:
                body = [begin[1]]
            continue
        _, end, count = line.rpartition("]:")
        if not end:
            body.append(line)
            continue
        frames, body = _frames("\n".join(body)), None
        if frames and re.fullmatch(r"\s*\d{1,18}\s*", count):
            found.append((frames, int(count)))
    return found
