"""`sass mma`: a kernel's matrix instructions, how closely they follow each other, and what waits for their results.

Distances are issue cycles on the shortest path, by the compiler's stall counts, which is the minimum without contention.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.sass import tensor_memory
from warpsight.sass.code import KernelCode
from warpsight.sass.counts.kernels import Counts
from warpsight.sass.tensor_memory import TensorMemoryUse

_OF_WARPGROUP = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
_OF_TENSOR_MEMORY = tensor_memory.PRODUCTS
_OF_WARP = ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA")
_WARPGROUP_WARPS = 4
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
#: Shapes of a warp's products are written without separators: `16816`, `88128`.
_RUN_TOGETHER = re.compile(r"(16|8)(8)(4|8|16|32|64|128|256)")
_TYPE = re.compile(r"(?:T?F|BF|[SUE])\d+\w*")
_SEARCHED = 4096


@dataclass(frozen=True)
class MatrixProduct:
    """One matrix instruction.

    Attributes:
        offset, text, where: offset in the kernel's section, text, and line or "".
        shape: rows, columns and depth; None if they are in a descriptor that is not a constant. types: as the instruction or the
            descriptor names them.
        operations: multiplications and additions of one execution by a warp, or a warpgroup's share; None without a shape.
        depth: number of enclosing loops; executions: executions by warps, None if not counted.
        gap: cycles to the next matrix instruction; waiter, distance: the first instruction that needs its result, and the cycles
            until then.
    """

    offset: int
    text: str
    where: str
    shape: tuple[int, int, int] | None
    types: tuple[str, ...]
    operations: int | None
    depth: int
    executions: int | None
    gap: int | None
    waiter: str
    distance: int | None


@dataclass(frozen=True)
class MatrixProducts:
    """A kernel's matrix instructions, and the instructions that use tensor memory."""

    kernel: str
    products: tuple[MatrixProduct, ...]
    tensor_memory: tuple[TensorMemoryUse, ...]

    @property
    def operations(self) -> int | None:
        """The operations of all executions; None if they were not counted or a shape is unknown."""
        known = [
            p.operations * p.executions for p in self.products if p.operations and p.executions is not None
        ]
        return sum(known) if self.products and len(known) == len(self.products) else None

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {**asdict(self), "operations": self.operations}


def matrix_products(code: KernelCode, counts: Mapping[int, Counts] | None = None) -> MatrixProducts:
    """The matrix instructions of a kernel.

    Raises:
        NotDisassembled: when nvdisasm is missing or cannot read the code.
    """
    graph = code.graph
    found = [
        _product(code, graph, one, counts) for one in code.instructions[: code.length] if is_product(one)
    ]
    tensor = [_use(graph, one) for one in code.instructions[: code.length] if tensor_memory.use_of(one)]
    return MatrixProducts(code.demangled, tuple(found), tuple(tensor))


def _use(graph: FlowGraph, one: Decoded) -> TensorMemoryUse:
    use = tensor_memory.use_of(one)
    if use != "allocate":
        return TensorMemoryUse(one.offset, one.text, use)
    freed = _ahead(graph, one.index, tensor_memory.is_free)
    return TensorMemoryUse(
        one.offset, one.text, use, tensor_memory.columns_of(graph, one),
        graph.instructions[freed[0]].offset if freed else None, freed[1] if freed else None,
    )  # fmt: skip


def is_product(one: Decoded) -> bool:
    """Whether an instruction multiplies matrices."""
    return one.operation in (*_OF_WARP, *_OF_WARPGROUP, *_OF_TENSOR_MEMORY) and not one.never


def _product(
    code: KernelCode, graph: FlowGraph, one: Decoded, counts: Mapping[int, Counts] | None
) -> MatrixProduct:  # fmt: skip
    described = tensor_memory.descriptor_of(graph, one) if one.operation in _OF_TENSOR_MEMORY else None
    shape = described.shape if described else shape_of(one)
    types = tuple(part for part in one.access.modifiers if _TYPE.fullmatch(part))
    operations = 2 * shape[0] * shape[1] * shape[2] if shape else None
    if operations and one.operation in _OF_WARPGROUP:
        operations //= _WARPGROUP_WARPS
    frames = code.frames(one.index)
    loop = graph.loop_at(one.index)
    gap = _ahead(graph, one.index, is_product)
    waiter = _ahead(graph, one.index, _needs(one))
    executions = counts.get(one.index, Counts()).executions if counts else None
    return MatrixProduct(
        one.offset, one.text, f"{frames[0].file}:{frames[0].line}" if frames else "", shape,
        described.types if described else types, operations,
        graph.loops[loop].depth if loop is not None else 0, executions, gap[1] if gap else None,
        code.instructions[waiter[0]].text if waiter else "", waiter[1] if waiter else None,
    )  # fmt: skip


def shape_of(one: Decoded) -> tuple[int, int, int] | None:
    """Rows, columns and depth of a product: `HGMMA.64x128x16`, `HMMA.16816`; None if they are in a descriptor."""
    for modifier in one.access.modifiers:
        match = _SHAPE.fullmatch(modifier) or _RUN_TOGETHER.fullmatch(modifier)
        if match:
            rows, columns, depth = map(int, match.groups())
            return rows, columns, depth
    return None


def _needs(one: Decoded) -> Callable[[Decoded], bool]:
    """Whether an instruction waits for a product's result: through a register, the warpgroup's wait, or tensor memory's."""
    if one.operation in _OF_WARPGROUP:
        return lambda other: other.operation == "WARPGROUP" and "DEPBAR" in other.access.modifiers
    if one.operation in _OF_TENSOR_MEMORY:
        return lambda other: other.operation == "UTCBAR"
    written = one.access.writes
    return lambda other: (
        bool(written & other.access.reads) and not (is_product(other) and other.access.writes == written)
    )


def _ahead(graph: FlowGraph, start: int, wanted: Callable[[Decoded], bool]) -> tuple[int, int] | None:
    """The nearest later instruction of this kind, and the cycles until it issues."""
    waiting: list[tuple[int, int]] = [(0, start)]
    seen: set[int] = set()
    while waiting and len(seen) < _SEARCHED:
        cycles, index = heapq.heappop(waiting)
        if index in seen:
            continue
        seen.add(index)
        for following in graph.following[index]:
            reached = cycles + max(graph.instructions[index].scheduling.stall, 1)
            if wanted(graph.instructions[following]):
                return following, reached
            heapq.heappush(waiting, (reached, following))
    return None
