"""The code of one kernel, prepared for questions: instructions, control flow, live registers, source lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.decoded import Decoded, decode
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.device_code.flow.liveness import Liveness, liveness
from warpsight.device_code.kernel_info import indirect_targets, register_count
from warpsight.errors import UsageError

_PADDING = ("NOP",)


@dataclass(frozen=True)
class KernelCode:
    """One section of code of a cubin.

    Attributes:
        cubin: the module; section: index of the section; name: mangled name of the kernel.
    """

    cubin: Cubin
    section: int
    name: str

    @property
    def short_name(self) -> str:
        """The name without arguments and template arguments."""
        return short(demangle(self.name))

    @property
    def demangled(self) -> str:
        """The readable name."""
        return demangle(self.name)

    @property
    def architecture(self) -> int:
        """The number in `sm_90`."""
        return self.cubin.architecture

    @cached_property
    def code(self) -> bytes:
        """The instructions' bytes."""
        return self.cubin.instructions(self.section)

    @cached_property
    def checksum(self) -> str:
        """The first 16 digits of the SHA-256 of name, architecture and code, the same for a kernel in any module."""
        digest = hashlib.sha256(f"{self.name}\0sm_{self.architecture}\0".encode())
        digest.update(self.code)
        return digest.hexdigest()[:16]

    @property
    def registers(self) -> int:
        """Registers per thread; 0 if the cubin does not say."""
        return register_count(self.cubin, self.section)

    @cached_property
    def instructions(self) -> list[Decoded]:
        """All instructions.

        Raises:
            NotDisassembled: when nvdisasm is missing or cannot read the code.
        """
        return decode(self.code, self.architecture, f"{self.cubin.name}: {self.short_name}")

    @cached_property
    def graph(self) -> FlowGraph:
        """The control-flow graph."""
        flow = ControlFlow(self.code, self.architecture)
        return FlowGraph(self.instructions, flow, indirect_targets(self.cubin, self.name))

    @cached_property
    def live(self) -> Liveness:
        """The live registers."""
        return liveness(self.graph)

    @cached_property
    def length(self) -> int:
        """The number of instructions without the section's padding (a branch to itself and NOPs)."""
        last = len(self.instructions)
        while last and self.instructions[last - 1].operation in _PADDING:
            last -= 1
        trap = last and self.instructions[last - 1]
        if trap and trap.operation == "BRA" and self.graph.following[trap.index] == (trap.index,):
            last -= 1
        return last

    def frames(self, index: int) -> tuple[Frame, ...]:
        """The source lines of an instruction, innermost first, or empty."""
        chain = self.cubin.chain(self.section, index * INSTRUCTION_SIZE)
        return chain.frames if chain else ()


def kernels(cubin: Cubin) -> list[KernelCode]:
    """All sections with code, by name."""
    found = [KernelCode(cubin, section, name) for section, name in cubin.sections.items()]
    return sorted(found, key=lambda one: one.name)


def choose(found: list[KernelCode], wanted: str | None, where: str) -> KernelCode:
    """The kernel with a name: an exact match, mangled or not, otherwise a part of the readable name.

    Raises:
        UsageError: when no kernel or several match.
    """
    if not found:
        raise UsageError(f"{where} has no code")
    fitting = found
    if wanted is not None:
        exact = [one for one in found if wanted in (one.name, one.demangled, one.short_name)]
        fitting = exact or [one for one in found if wanted in one.demangled]
    if len(fitting) == 1:
        return fitting[0]
    listed = "\n".join(f"  {one.demangled}" for one in (fitting or found)[:20])
    if not fitting:
        raise UsageError(f"{where} has no kernel {wanted!r}; it has:\n{listed}")
    what = "more than one kernel" if wanted is None else f"more than one kernel for {wanted!r}"
    raise UsageError(f"{where} has {what}; name one of:\n{listed}")
