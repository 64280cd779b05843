"""Event traces made of plain rows, without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from warpsight.formats.events.kinds import BY_NAME, READ
from warpsight.formats.events.records import Events
from warpsight.formats.events.registers import HEADER_WORDS

_LIST, _EACH = 3, 2


@dataclass(frozen=True)
class Row:
    """One record: addresses and values by lane."""

    kind: str
    first: dict[int, int]
    size: int = 4
    flags: int = READ
    block: int = 0
    warp: int = 0
    pc: int = 0
    second: int | None = None
    values: dict[int, int] = field(default_factory=dict)
    time: int | None = None


def events(rows: Sequence[Row]) -> Events:
    """Records in this order; addresses are lists, operand B the same for all lanes."""
    words: list[int] = []
    offsets, encodings, lanes = [], [], []
    for row in rows:
        offsets.append(len(words))
        active = sorted(row.first)
        words += [0] * HEADER_WORDS + [row.first[lane] for lane in active]
        encoding = _LIST
        if row.second is not None:
            words += [row.second] * len(active)
            encoding |= _LIST << 2
        if row.values:
            encoding |= _EACH << 4
            own = [row.values[lane] for lane in active]
            if row.size <= 4:
                own += [0] * (len(own) % 2)
                words += [low | high << 32 for low, high in zip(own[::2], own[1::2], strict=True)]
            elif row.size <= 8:
                words += own
            else:
                words += [half for value in own for half in (value % (1 << 64), value >> 64)]
        encodings.append(encoding)
        lanes.append(sum(1 << lane for lane in active))
    count = len(rows)

    def column(values: Sequence[int], kind: str) -> np.ndarray:
        return np.array(values, kind)

    return Events(
        ring=np.zeros(count, np.uint32), sequence=np.arange(count, dtype=np.uint64), launch=np.zeros(count, np.uint32),
        block=column([row.block for row in rows], "u4"), warp=column([row.warp for row in rows], "u1"),
        kind=column([BY_NAME[row.kind].number for row in rows], "u1"), flags=column([row.flags for row in rows], "u1"),
        size=column([row.size for row in rows], "u1"), lanes=column(lanes, "u4"), pc=column([row.pc for row in rows], "u4"),
        sm=np.zeros(count, np.uint16),
        time=column([row.time if row.time is not None else at for at, row in enumerate(rows)], "i8"),
        encodings=column(encodings, "u1"), offset=column(offsets, "i8"), words=column(words, "u8"),
    )  # fmt: skip
