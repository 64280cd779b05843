"""Packed structs, described once for C++ and NumPy: fields of fixed size at their natural alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: Sizes in bytes of the scalar types, named as in NumPy.
TYPES = {"u1": 1, "i1": 1, "u2": 2, "i2": 2, "u4": 4, "i4": 4, "u8": 8, "i8": 8, "f8": 8}


@dataclass(frozen=True)
class StructField:
    """One member of a struct: `type` is a key of TYPES, `count` > 1 makes it an array."""

    name: str
    type: str
    meaning: str
    count: int = 1


@dataclass(frozen=True)
class Struct:
    """A packed, naturally aligned struct; `kind` is its number in a block header, 0 when it is not a row."""

    name: str
    fields: tuple[StructField, ...]
    kind: int = 0
    #: Blocks per ring of this kind; decides how long the drainer may be late.
    ring_blocks: int = 4
    #: Definition kinds are drained before and kept apart from the events that refer to them.
    definition: bool = False
    #: The first `committed_prefix` bytes of a variable row (kind `string` only).
    variable: bool = False

    @property
    def size(self) -> int:
        """Bytes of one row (for a variable row, of its fixed part)."""
        return sum(TYPES[f.type] * f.count for f in self.fields)


def fields(text: str) -> tuple[StructField, ...]:
    """Parse lines `type[count] name  meaning` and check natural alignment."""
    found: list[StructField] = []
    offset = 0
    for line in text.strip().splitlines():
        kind, name, meaning = line.split(None, 2)
        base, _, count = kind.partition("[")
        field = StructField(name, base, meaning, int(count[:-1]) if count else 1)
        if offset % TYPES[base]:
            raise ValueError(f"{name} is at offset {offset}, not aligned to {TYPES[base]}")
        offset += TYPES[base] * field.count
        found.append(field)
    if offset % 8:
        raise ValueError(f"struct ending with {found[-1].name} has {offset} bytes, not a multiple of 8")
    return tuple(found)


def kinds(text: str, *, definition: bool = False) -> tuple[Struct, ...]:
    """Parse record kinds separated by empty lines: `number Name [blocks=N] [variable]`, then lines of :func:`fields`."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        number, name, *words = head.split()
        blocks = next((int(word.removeprefix("blocks=")) for word in words if word.startswith("blocks=")), 4)
        found.append(Struct(name, fields(rest), int(number), blocks, definition, "variable" in words))
    return tuple(found)


def dtype(struct: Struct) -> np.dtype[Any]:
    """The NumPy dtype of a struct; its itemsize equals :attr:`Struct.size`."""
    import numpy as np

    return np.dtype(
        [(f.name, "<" + f.type, (f.count,)) if f.count > 1 else (f.name, "<" + f.type) for f in struct.fields]
    )
