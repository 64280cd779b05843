"""Pipelines of blocks and copies by the TMA as tables: by instruction and tensor map, and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsight.device_code.demangle import short
from warpsight.device_code.tensor_map import TensorMap
from warpsight.formats.events.tensor_copies import TensorCopy
from warpsight.sass.events.pipelines import BlockPipeline, PipelineEvent
from warpsight.sass.events.tensor_copies import CopySummary
from warpsight.ui.render import numbers
from warpsight.ui.render.sass import event_pictures
from warpsight.ui.render.sass.event_answers import Section, shown_bytes, top_rows

_EVENTS_SHOWN, _MOST_BARRIERS = 200, 4


def copies(found: Sequence[CopySummary], maps: Mapping[str, TensorMap | None], top: int) -> list[Section]:
    """A row for each instruction and tensor map; nothing without copies recorded by NVBit."""
    if not found:
        return []
    listed = [
        (
            short(one.kernel), f"{one.launch}", one.what.replace("_", " "), f"{one.executions}",
            shown_bytes(one.bytes) if one.unknown < one.executions else "–",
            shown_bytes(one.outside_bytes) if one.outside_bytes else "", _tensor(one, maps), _coordinates(one),
            _targets(one), _barriers(one), one.sass, one.where,
        )
        for one in found
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    columns = ("kernel", "launch", "copy", "executed", "bytes", "outside", "tensor", "coordinates", "multicast to blocks",
               "mbarriers", "instruction", "where")  # fmt: skip
    return [Section("Copies by the TMA", "", columns, shown, frozenset({0, 2, 6, 7, 8, 9, 10, 11}), more)]


def copy_text(copy: TensorCopy | None) -> str:
    """The operands of one copy; of one that is not understood, its registers."""
    if copy is None:
        return ""
    own = copy.operands
    if own is None:
        return " ".join(f"{name}={value:#x}" for name, value in copy.registers.items())
    parts = [f"({', '.join(map(str, own.coordinates))})"] if own.rank else []
    parts += [f"offsets {', '.join(map(str, own.offsets))}"] if own.offsets else []
    parts += [own.reduction] if own.reduction else []
    parts += [f"{own.address:#x}"] if own.address is not None else []
    parts += [f"{shown_bytes(copy.outside_bytes)} outside"] if copy.outside_bytes else []
    parts += [f"to blocks {_blocks(own.multicast)}"] if own.multicast is not None else []
    parts += [f"mbarrier {own.barrier:#x}"] if own.barrier is not None else []
    parts += [f"illegal: {copy.illegal}"] if copy.illegal else []
    return ", ".join(parts)


def _tensor(one: CopySummary, maps: Mapping[str, TensorMap | None]) -> str:
    tensor = maps.get(one.map)
    if tensor is None:
        return "unknown tensor map" if one.map else ""
    parts = [f"{tensor.data_type.lower()} {'×'.join(map(str, tensor.dimensions))} at {tensor.address:#x}"]
    if tensor.im2col is not None:
        parts.append(f"{tensor.im2col.pixels} pixels of {tensor.im2col.channels} channels")
    else:
        parts.append(f"box {'×'.join(map(str, tensor.box))}")
    if any(step != 1 for step in tensor.element_strides):
        parts.append(f"every {'×'.join(map(str, tensor.element_strides))}")
    for name, value in (("interleave", tensor.interleave), ("swizzle", tensor.swizzle)):
        parts += [f"{name} {value}"] if value != "NONE" else []
    return ", ".join([*parts, f"fill {'zeros' if tensor.oob_fill == 'NONE' else 'NaN'}"])


def _coordinates(one: CopySummary) -> str:
    return ", ".join(f"{low}" if low == high else f"{low}…{high}" for low, high in one.coordinates)


def _targets(one: CopySummary) -> str:
    return " or ".join(_blocks(mask) for mask in one.multicast)


def _blocks(mask: int) -> str:
    return ", ".join(f"{bit}" for bit in range(16) if mask >> bit & 1)


def _barriers(one: CopySummary) -> str:
    shown = ", ".join(f"{address:#x}" for address in one.barriers[:_MOST_BARRIERS])
    more = len(one.barriers) - _MOST_BARRIERS
    return f"{shown} and {more:,} more" if more > 0 else shown


def pipelines(found: Sequence[BlockPipeline], top: int) -> list[Section]:
    """What the blocks copied and waited for, and the events of the first."""
    listed = [
        (
            short(one.kernel), f"{one.launch}", f"{one.block}", shown_bytes(one.copied), numbers.duration(one.waited),
            ", ".join(f"{address:#x}: {count}" for address, count in sorted(one.phases.items())) or "–",
        )
        for one in found
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    columns = ("kernel", "launch", "block", "copied", "waited at mbarriers", "successful waits by mbarrier")
    sections = [Section("Blocks", "", columns, shown, frozenset({0, 5}), more)]
    first = found[0]
    followed = [
        (
            f"{event.time / 1000:.2f} µs", f"{event.warp}", event.what,
            numbers.duration(event.duration) if event.duration else "", shown_bytes(event.bytes) if event.bytes else "",
            f"{event.address:#x}" if event.address else "", _copies(event), copy_text(event.copy), event.where,
        )
        for event in first.events[:_EVENTS_SHOWN if top else None]
    ]  # fmt: skip
    headings = ("time", "warp", "event", "waited", "bytes", "shared address", "ends", "copy", "where")
    title = f"{short(first.kernel)}, launch {first.launch}, block {first.block}"
    sections.append(
        Section(
            title,
            event_pictures.pipeline(first),
            headings,
            followed,
            frozenset({2, 6, 7, 8}),
            len(first.events) - len(followed),
        )
    )
    return sections


def _copies(event: PipelineEvent) -> str:
    if event.copies is None:
        return ""
    number, bytes_, since = event.copies
    return f"{number} {'copy' if number == 1 else 'copies'}, {shown_bytes(bytes_)}, {numbers.duration(since)} since the first"
