"""The registers of one lane that the dump contains."""

from __future__ import annotations

from functools import cached_property

from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore


class LaneRegisters:
    """Registers of a lane and of its warp, read on demand; None for data missing from the dump."""

    def __init__(self, core: GpuCore, lane: int, warp: int) -> None:
        """Use these rows of the lane table and of the warp table."""
        self._core, self._lane, self._warp = core, lane, warp

    @cached_property
    def together(self) -> bool:
        """Whether all remaining lanes of the warp share a program counter. The rows of a warp's lanes must be adjacent."""
        lanes = self._core.table(Kind.LANES)
        near = slice(max(self._lane - 31, 0), self._lane + 32)
        pcs = lanes.rows["pc"][near][lanes.parent[near] == self._warp]
        return bool((pcs == pcs[0]).all())

    @cached_property
    def _registers(self) -> tuple[int, ...]:
        return self._core.words_of(Kind.REGISTERS, self._lane)

    @cached_property
    def _predicates(self) -> tuple[int, ...]:
        return self._core.words_of(Kind.PREDICATES, self._lane)

    @cached_property
    def _uniform(self) -> tuple[int, ...]:
        return self._core.words_of(Kind.UNIFORM_REGISTERS, self._warp)

    @cached_property
    def _barriers(self) -> tuple[int, ...]:
        return self._core.words_of(Kind.CONVERGENCE_BARRIERS, self._warp)

    def register(self, number: int) -> int | None:
        """R0, R1, …."""
        return _at(self._registers, number)

    def predicate(self, number: int) -> bool | None:
        """P0 … P6, and PT."""
        value = _at(self._predicates, number)
        return None if value is None else bool(value)

    def uniform(self, number: int) -> int | None:
        """UR0, UR1, …."""
        return _at(self._uniform, number)

    def barrier(self, number: int) -> int | None:
        """The mask of lanes of a convergence barrier: B0, B1, …."""
        return _at(self._barriers, number)


def _at(values: tuple[int, ...], number: int) -> int | None:
    return values[number] if number < len(values) else None
