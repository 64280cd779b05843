"""Tensor memory in a kernel's code: what allocates, uses and frees it, and what its products' descriptors say.

A product of the fifth generation has its shape and types in a descriptor, which is mostly a constant. Layout after the PTX ISA,
"Instruction descriptor" of tcgen05; those with block scaling differ and are not decoded.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.device_code.registers import register

PRODUCTS = ("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA")
_USES = {
    "LDTM": "load",
    "STTM": "store",
    "UTCCP": "copy",
    "UTCSHIFT": "shift",
    "UTCBAR": "arrive at an mbarrier",
}
_ALLOCATION = "UTCATOMSWS"
#: Columns that a bit of an allocation stands for.
_GRANULE = 32
_OPERANDS_WITHOUT_SCALING = 6
_BLOCK_SCALED = "UTCOMMA"
_HALF_RESULTS, _INTEGER_RESULTS = {0: "F16", 1: "F32"}, {2: "S32"}
_TF32 = 2
_SOURCES = {
    "UTCHMMA": {0: "F16", 1: "BF16", _TF32: "TF32"}, "UTCIMMA": {0: "U8", 1: "S8"},
    "UTCQMMA": {0: "E4M3", 1: "E5M2", 3: "E2M3", 4: "E3M2", 5: "E2M1"},
}  # fmt: skip


@dataclass(frozen=True)
class TensorMemoryUse:
    """An instruction that uses tensor memory.

    Attributes:
        offset, text: offset in the kernel's section, and text.
        use: `allocate`, `free`, `load`, `store`, `copy`, …
        columns: columns that it allocates; None for others, or if they are not a constant.
        freed, lifetime: of an allocation, the offset of the nearest instruction that frees, and the issue cycles until then.
    """

    offset: int
    text: str
    use: str
    columns: int | None = None
    freed: int | None = None
    lifetime: int | None = None


@dataclass(frozen=True)
class Descriptor:
    """What the descriptor of a product says: rows, columns and depth, types of the result, of A and, if it differs, of B."""

    shape: tuple[int, int, int]
    types: tuple[str, ...]


def use_of(one: Decoded) -> str:
    """What an instruction does with tensor memory; empty for products and for others."""
    if one.never:
        return ""
    if one.operation == _ALLOCATION:
        return "allocate" if "FIND_AND_SET" in one.access.modifiers else "free"
    return _USES.get(one.operation, "")


def is_free(one: Decoded) -> bool:
    """Whether an instruction frees tensor memory."""
    return use_of(one) == "free"


def columns_of(graph: FlowGraph, one: Decoded) -> int | None:
    """The columns that an instruction allocates, if that is a constant."""
    granules = _constant(graph, one, one.access.operands[-1])
    return None if granules is None else granules * _GRANULE


def descriptor_of(graph: FlowGraph, one: Decoded) -> Descriptor | None:
    """A product's descriptor; None if it is not a constant or not understood."""
    operands = one.access.operands
    named = [operand for operand in operands if operand.startswith("idesc[")]
    if len(named) != 1 or len(operands) != _OPERANDS_WITHOUT_SCALING or one.operation == _BLOCK_SCALED:
        return None
    value = _constant(graph, one, named[0][len("idesc[") : -1])
    return None if value is None else decode(one.operation, value)


def decode(operation: str, value: int) -> Descriptor | None:
    """A descriptor by its bits."""
    sources = _SOURCES[operation]
    results = _INTEGER_RESULTS if operation == "UTCIMMA" else _HALF_RESULTS
    result, a, b = value >> 4 & 3, value >> 7 & 7, value >> 10 & 7
    rows, columns = (value >> 24 & 31) * 16, (value >> 17 & 63) * 8
    if result not in results or a not in sources or b not in sources or not rows or not columns:
        return None
    depth = 8 if a == _TF32 and operation == "UTCHMMA" else 16 if operation == "UTCHMMA" else 32
    depth *= 2 if value >> 2 & 1 else 1  # a sparse A
    types = (results[result], sources[a], *((sources[b],) if b != a else ()))
    return Descriptor((rows, columns, depth), types)


def _constant(graph: FlowGraph, one: Decoded, name: str) -> int | None:
    """The value of a uniform register before an instruction, if it is the same constant on every path there."""
    if not name.startswith("UR") or not name[2:].isdigit():
        return None
    wanted = register("UR", int(name[2:]))
    preceding: dict[int, list[int]] = {}
    for index, following in enumerate(graph.following):
        for after in following:
            preceding.setdefault(after, []).append(index)
    found: set[int | None] = set()
    waiting, seen = deque([one.index]), {one.index}
    while waiting:
        at = waiting.popleft()
        before = preceding.get(at, [])
        if not before:
            return None  # the kernel begins without a value
        for index in before:
            if graph.instructions[index].access.writes & wanted:
                found.add(_moved(graph.instructions[index]))
            elif index not in seen:
                seen.add(index)
                waiting.append(index)
    return found.pop() if len(found) == 1 else None


def _moved(one: Decoded) -> int | None:
    """The constant that an instruction writes to its register on every execution."""
    source = one.access.operands[-1] if one.access.operands else ""
    if one.operation != "UMOV" or one.access.modifiers or one.access.guard or not source.startswith("0x"):
        return None
    return int(source, 16)
