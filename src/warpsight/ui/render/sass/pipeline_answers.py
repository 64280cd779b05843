"""Pipelines of blocks and copies by the TMA as tables: by instruction and tensor map, and one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsight.device_code.demangle import short
from warpsight.device_code.tma.tensor_map import TensorMap
from warpsight.formats.events.tensor_copies import TensorCopy
from warpsight.sass.events.pipelines import BlockPipeline, PipelineEvent
from warpsight.sass.events.tensor_copies import CopySummary
from warpsight.ui.render import numbers
from warpsight.ui.render.sass import event_pictures
from warpsight.ui.render.sass.event_answers import Section, shown_bytes, top_rows

_EVENTS_SHOWN, _MOST_BARRIERS = 200, 1


def copies(found: Sequence[CopySummary], maps: Mapping[str, TensorMap | None], top: int) -> list[Section]:
    """A row for each instruction and tensor map; nothing without copies recorded by NVBit."""
    if not found:
        return []
    listed = [
        (
            one.where, f"{one.launch}", one.what, f"{one.executions}",
            (shown_bytes(one.bytes) if one.unknown < one.executions else "–") + (" to each" if one.multicast else ""),
            shown_bytes(one.outside_bytes) if one.outside_bytes else "", _tensor(one, maps), _coordinates(one),
            _targets(one), _barriers(one), one.sass,
        )
        for one in found
    ]  # fmt: skip
    headings = ("where", "launch", "copy", "executed", "bytes", "outside", "tensor", "coordinates", "to ranks", "mbarriers",
                "instruction")  # fmt: skip
    columns, rows, left = _filled(headings, listed, frozenset({0, 2, 6, 7, 8, 9, 10}))
    shown, more = top_rows(rows, top)
    return [Section("Copies by the TMA", "", columns, shown, left, more)]


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
    parts += [f"to ranks {_ranks(own.multicast)}"] if own.multicast is not None else []
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
    return " or ".join(_ranks(mask) for mask in one.multicast)


def _ranks(mask: int) -> str:
    return ", ".join(f"{bit}" for bit in range(16) if mask >> bit & 1)


def _barriers(one: CopySummary) -> str:
    shown = ", ".join(f"{address:#x}" for address in one.barriers[:_MOST_BARRIERS])
    more = len(one.barriers) - _MOST_BARRIERS
    return f"{shown} + {more:,}" if more > 0 else shown


def pipelines(found: Sequence[BlockPipeline], top: int) -> list[Section]:
    """What the blocks copied and waited for, if waits were traced, and the events of the first."""
    first, sections = found[0], []
    if any(one.phases or one.waited for one in found):
        listed = [
            (
                short(one.kernel), f"{one.launch}", f"{one.block}", shown_bytes(one.copied), numbers.duration(one.waited),
                ", ".join(f"{address:#x}: {count}" for address, count in sorted(one.phases.items())) or "–",
            )
            for one in found
        ]  # fmt: skip
        shown, more = top_rows(listed, top)
        names = (
            "kernel",
            "launch",
            "block",
            "copied",
            "waited at mbarriers",
            "successful waits by mbarrier",
        )
        sections.append(Section("Blocks", "", names, shown, frozenset({0, 5}), more))
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
    title += f" (of {len(found):,} blocks)" if not sections and len(found) > 1 else ""
    columns, rows, left = _filled(headings, followed, frozenset({2, 6, 7, 8}))
    more = len(first.events) - len(followed)
    traced = any(event.copy is not None for event in first.events)
    notes = ["Times are those of the traced run, which is much slower."] if traced else []
    picture = event_pictures.pipeline(first)
    return [*sections, Section(title, picture, columns, rows, left, more, notes=notes)]


def _filled(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int]
) -> tuple[Sequence[str], Sequence[Sequence[str]], frozenset[int]]:
    """A table without columns that are empty in every row."""
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    places = frozenset(place for place, at in enumerate(kept) if at in left)
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows], places


def _copies(event: PipelineEvent) -> str:
    if event.copies is None:
        return ""
    number, bytes_, since = event.copies
    return f"{number} {'copy' if number == 1 else 'copies'}, {shown_bytes(bytes_)}, {numbers.duration(since)} since the first"
