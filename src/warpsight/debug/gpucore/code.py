"""Where in a dump's code an address is: module, kernel, source chain, instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.inline_chain import SourceChain
from warpsight.device_code.deferred import Deferred, deferred_barrier
from warpsight.device_code.demangle import demangle
from warpsight.device_code.disassembly import INSTRUCTION_SIZE, Instruction, disassemble
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.polling import Poll, poll_of


@dataclass(frozen=True)
class _Location:
    """An address in the code of a module.

    Attributes:
        address: on the GPU; module: row of the module table; section, offset: where in its cubin.
    """

    address: int
    module: int
    cubin: Cubin
    section: int
    offset: int

    @property
    def kernel(self) -> str:
        """Mangled name of the kernel, or of a separate function, that contains the address."""
        return self.cubin.sections[self.section]

    @property
    def function(self) -> str:
        """The function the address is in, demangled; the kernel's unless it was called, not inlined."""
        return self.cubin.function_at(self.section, self.offset).demangled

    @property
    def chain(self) -> SourceChain | None:
        """The source chain; None without line information."""
        return self.cubin.chain(self.section, self.offset)


@dataclass(frozen=True)
class Polling:
    """A polling loop: the address it reads, and the reading instruction."""

    poll: Poll
    address: int


@dataclass(frozen=True)
class Behind:
    """A barrier that may hold a warp although its program counter has moved on: its address, and the registers written since."""

    address: int
    deferred: Deferred


class Code:
    """All code of a dump."""

    def __init__(self, core: GpuCore) -> None:
        self.core = core
        self._found: dict[int, _Location | None] = {}
        self._flows: dict[tuple[int, int], ControlFlow] = {}
        self._polls: dict[int, Polling | None] = {}
        self._deferred: dict[int, Behind | None] = {}

    @cached_property
    def _modules(self) -> dict[int, int]:
        """Row of the module table by the module's handle."""
        handles = self.core.table(Kind.MODULES).rows["handle"].tolist()
        return {handle: row for row, handle in reversed(list(enumerate(handles)))}

    @cached_property
    def _first(self) -> list[int]:
        """Modules with a running kernel, which contain most addresses."""
        handles = self.core.table(Kind.GRIDS).rows["module"].tolist()
        return list(dict.fromkeys(self._modules[h] for h in handles if h in self._modules))

    def locate(self, address: int) -> _Location | None:
        """The place of an address; None if it is in no module of the dump."""
        if address not in self._found:
            self._found[address] = self._locate(address)
        return self._found[address]

    def _locate(self, address: int) -> _Location | None:
        rest = [m for m in range(len(self.core.table(Kind.MODULES))) if m not in self._first]
        for module in (*self._first, *rest):
            cubin = self.core.cubin(module)
            place = cubin.find(address) if cubin is not None else None
            if cubin is not None and place is not None:
                return _Location(address, module, cubin, *place)
        return None

    def grid_location(self, grid: int) -> _Location | None:
        """The first instruction of a grid's kernel."""
        return self.locate(int(self.core.table(Kind.GRIDS).rows["entry"][grid]))

    def grid_name(self, grid: int) -> str:
        """The kernel of a grid, demangled; its address if the dump does not include its code."""
        location = self.grid_location(grid)
        if location is not None:
            return demangle(location.kernel)
        return f"kernel at {int(self.core.table(Kind.GRIDS).rows['entry'][grid]):#x}"

    def instruction(self, address: int) -> bytes:
        """The 16 bytes at an address; empty outside of code."""
        location = self.locate(address)
        if location is None:
            return b""
        code = location.cubin.elf.contents(location.section)
        return code[location.offset : location.offset + INSTRUCTION_SIZE].tobytes()

    def flow(self, location: _Location) -> ControlFlow:
        """The branches in a location's section of code."""
        key = (location.module, location.section)
        if key not in self._flows:
            cubin = location.cubin
            self._flows[key] = ControlFlow(cubin.instructions(location.section), cubin.architecture)
        return self._flows[key]

    def polling(self, address: int) -> Polling | None:
        """The polling loop around an address, or None."""
        if address not in self._polls:
            self._polls[address] = self._polling(address)
        return self._polls[address]

    def barrier_behind(self, address: int) -> Behind | None:
        """The barrier before an address with only arithmetic between, or None."""
        if address not in self._deferred:
            location = self.locate(address)
            index = location.offset // INSTRUCTION_SIZE if location else 0
            found = deferred_barrier(self.flow(location), index) if location else None
            at = address - (index - found.index) * INSTRUCTION_SIZE if found else 0
            self._deferred[address] = Behind(at, found) if found else None
        return self._deferred[address]

    def _polling(self, address: int) -> Polling | None:
        location = self.locate(address)
        if location is None:
            return None
        flow = self.flow(location)
        index = location.offset // INSTRUCTION_SIZE
        loop = flow.loop_around(index) if index < len(flow.words) else None
        poll = poll_of(flow, loop) if loop else None
        return Polling(poll, address + (poll.index - index) * INSTRUCTION_SIZE) if poll else None

    def disassemble(self, address: int, before: int = 0, after: int = 0) -> list[Instruction]:
        """Instructions around an address as text; empty without nvdisasm.

        Args:
            address: address of the middle instruction.
            before: how many before it, within the function.
            after: how many after it.
        """
        location = self.locate(address)
        if location is None:
            return []
        first = max(location.offset - before * INSTRUCTION_SIZE, 0)
        end = location.offset + (after + 1) * INSTRUCTION_SIZE
        code = location.cubin.elf.contents(location.section)[first:end].tobytes()
        return disassemble(code, address - (location.offset - first), location.cubin.architecture)

    def disassemble_all(self, addresses: list[int]) -> dict[int, str]:
        """Single instructions as text, by address, with one nvdisasm run per architecture."""
        pieces: dict[int, list[tuple[int, bytes]]] = {}
        for address in addresses:
            location, code = self.locate(address), self.instruction(address)
            if location is not None and len(code) == INSTRUCTION_SIZE:
                pieces.setdefault(location.cubin.architecture, []).append((address, code))
        texts: dict[int, str] = {}
        for architecture, found in pieces.items():
            # One after the other from address 0: targets of branches come out wrong, so they are disassembled apart.
            code = b"".join(piece for _, piece in found)
            for instruction in disassemble(code, 0, architecture):
                texts[found[instruction.address // INSTRUCTION_SIZE][0]] = instruction.text
        for address, text in list(texts.items()):
            if "BRA" in text or "BSSY" in text or "CALL" in text:
                alone = self.disassemble(address)
                texts[address] = alone[0].text if alone else text
        return texts


def mask_lanes(mask: int) -> list[int]:
    """The lanes of a mask, ascending."""
    return [lane for lane in range(32) if mask >> lane & 1]
