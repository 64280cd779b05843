"""The copies by the TMA in a trace of class `tensor-copies`, and a summary by instruction and tensor map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.formats.events.kinds import TENSOR_COPY
from warpsight.formats.events.records import Events
from warpsight.formats.events.tensor_copies import CopyReader, TensorCopy
from warpsight.sass.events.trace import EventTrace, TracedLaunch

_BY_MAP = ("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF")
_SPACES = {("global", "shared"): "load", ("shared", "global"): "store", ("shared", "shared"): "shared"}


@dataclass(frozen=True)
class CopySummary:
    """All executions of one TMA instruction in a launch with one tensor map.

    Attributes:
        kernel, launch, where, sass: the instruction; what: such as `tensor_load`; mode: `tile`, `im2col`, …
        map: key of the tensor map, empty without one; executions: executions by warps.
        bytes: bytes that they ask for, in each target; outside_bytes: those of them outside of the tensor; overrun_bytes: those
            that stores write nevertheless.
        unknown: executions whose bytes are not known.
        coordinates: the lowest and the highest of each dimension.
        multicast: the sets of receiving blocks of the cluster, a bit for each; barriers: addresses of mbarriers; policies: L2
            cache policies.
        example: the registers of the first execution; illegal: why the hardware refuses one of them, mostly empty.
    """

    kernel: str
    launch: int
    where: str
    sass: str
    what: str
    mode: str
    map: str
    executions: int
    bytes: int
    outside_bytes: int
    overrun_bytes: int
    unknown: int
    coordinates: tuple[tuple[int, int], ...]
    multicast: tuple[int, ...]
    barriers: tuple[int, ...]
    policies: tuple[int, ...]
    example: dict[str, int]
    illegal: str


def what_of(copy: TensorCopy) -> str:
    """The name of a copy: `tensor_load`, `bulk_store`, …; `tma_instruction` if its operands are not understood."""
    own = copy.operands
    if own is None:
        return "tma_instruction"
    if own.rank:
        return f"tensor_{own.operation}"
    if own.operation == "copy":
        return f"bulk_{_SPACES[own.source, own.target]}"
    return f"bulk_{own.operation}" + ("_shared" if own.source == own.target else "")


def copies_of(
    trace: EventTrace, launch: TracedLaunch, events: Events, reader: CopyReader
) -> list[TensorCopy]:
    """The copies of events of one launch, all of which have to be of that kind."""
    texts = [trace.sass(place) for place in trace.places(launch, events.pc)]
    return list(reader.copies(events.tensor_copies(), texts))


def summaries(
    trace: EventTrace, reader: CopyReader, launch: int | None = None, block: int | None = None
) -> list[CopySummary]:
    """The copies of a trace by launch, instruction and tensor map; most bytes first."""
    found: list[CopySummary] = []
    for own in trace.launches.values():
        if launch is not None and own.number != launch:
            continue
        events = trace.of_launch(own.number)
        chosen = events.kind == TENSOR_COPY.number
        events = events.take(chosen if block is None else chosen & (events.block == block))
        groups: dict[tuple[int, str], list[TensorCopy]] = {}
        for pc, copy in zip(events.pc.tolist(), copies_of(trace, own, events, reader), strict=True):
            groups.setdefault((pc, copy.map), []).append(copy)
        places = dict(zip(events.pc.tolist(), trace.places(own, events.pc), strict=True))
        found += [_summary(own, trace.describe(places[pc]), copies) for (pc, _), copies in groups.items()]
    return sorted(found, key=lambda one: (-one.bytes, one.launch, one.where))


def _summary(launch: TracedLaunch, where: str, copies: Sequence[TensorCopy]) -> CopySummary:
    known = [copy.operands for copy in copies if copy.operands is not None]
    axes = zip(*(own.coordinates for own in known), strict=True)
    return CopySummary(
        launch.name, launch.number, where, copies[0].text, what_of(copies[0]), known[0].mode if known else "", copies[0].map,
        len(copies), sum(copy.bytes or 0 for copy in copies), sum(copy.outside_bytes for copy in copies),
        sum(copy.overrun_bytes for copy in copies),
        sum(copy.bytes is None for copy in copies), tuple((min(axis), max(axis)) for axis in axes),
        tuple(sorted({own.multicast for own in known if own.multicast is not None})),
        tuple(sorted({own.barrier for own in known if own.barrier is not None})),
        tuple(sorted({own.policy for own in known if own.policy is not None})), copies[0].registers,
        next((copy.illegal for copy in copies if copy.illegal), ""),
    )  # fmt: skip


def gaps(trace: EventTrace, reader: CopyReader, found: Sequence[CopySummary]) -> list[str]:
    """What is not known about the copies of a trace, one sentence each."""
    strange = sum(one.executions for one in found if one.what == "tma_instruction")
    lost = sum(one.executions for one in found if one.map and one.map not in reader.maps)
    undecoded = sum(tensor is None for tensor in reader.maps.values())
    unseen = _unseen(trace)
    wrong = [f"{one.where}: illegal instruction, {one.illegal}" for one in found if one.illegal]
    wrong += [
        f"{one.where}: {one.overrun_bytes:,} bytes are written beyond the innermost dimension, in units of 16 bytes"
        for one in found
        if one.overrun_bytes
    ]
    said = [
        (strange, "TMA instructions with operands that are not understood: only their registers are shown"),
        (undecoded, "tensor maps of an unknown layout: the sizes of their copies are not shown"),
        (lost, "copies whose tensor map is not in the file"),
        (unseen, "instructions that copy by tensor map, which the Sanitizer interface does not show: trace --events "
                 "tensor-copies with NVBit"),
    ]  # fmt: skip
    return wrong + [sentence + (f" ({count:,})" if count > 1 else "") for count, sentence in said if count]


def _unseen(trace: EventTrace) -> int:
    """Instructions of the traced kernels that copy by tensor map, in a trace that cannot have them."""
    request = trace.file.process.get("request") or {}
    asked = set(request.get("events") or ())
    if request.get("tool") == "NVBit" or "tma" not in asked:
        return 0
    kernels = {(int(own.said["module"]), str(own.said["name"])) for own in trace.launches.values()}
    texts = (text for kernel in kernels for text in trace.instructions(*kernel).values())
    return sum(any(f"{name}." in text for name in _BY_MAP) for text in texts)
