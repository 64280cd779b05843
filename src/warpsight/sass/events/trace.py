"""An event trace with its code: events by launch, and the instruction and source lines of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.disassembly import disassemble_together
from warpsight.device_code.elf import ElfError
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.formats.events import blocks, tensor_copies
from warpsight.formats.events.kinds import TENSOR_MAP
from warpsight.formats.events.operands import Operands
from warpsight.formats.events.records import Events, decode
from warpsight.formats.source import Source

_HALF = 1 << 32
#: Bytes of code of a module below which all of it is disassembled in one run.
_DISASSEMBLED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class TracedInstruction:
    """An instruction.

    Attributes:
        module: number of the module in the trace; function: name in the symbol table; offset: bytes from its start.
    """

    module: int
    function: str
    offset: int


@dataclass(frozen=True)
class TracedLaunch:
    """A recorded launch.

    Attributes:
        number: number in the trace; index: index among the launches of requested kernels; name: demangled name; grid, block,
            cluster: sizes. said: everything that the tracer wrote about it.
    """

    number: int
    index: int
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    said: dict[str, Any]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // 32)

    def block_xyz(
        self, blocks: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """x, y and z of blocks of the grid."""
        x, y = self.grid[0], self.grid[1]
        return blocks % x, blocks // x % y, blocks // (x * y)


class EventTrace:
    """A fully loaded event trace.

    Attributes:
        name: the name under which it was opened; file: its descriptions; events: all its events.
    """

    def __init__(self, path: Path | str | Source) -> None:
        """Read a file.

        Raises:
            FormatError: when it is not an event trace.
        """
        source = path if isinstance(path, Source) else Source(path)
        self.name = source.name
        self.file = blocks.read(source)
        self.cubin = lru_cache(maxsize=64)(self._read_cubin)
        self.flow = lru_cache(maxsize=256)(self._read_flow)
        self._texts = lru_cache(maxsize=256)(self._disassembled)
        self.launches = {
            int(said["launch"]): TracedLaunch(
                int(said["launch"]), int(said["index"]), demangle(str(said["name"])), _triple(said["grid"]),
                _triple(said["block"]), _triple(said["cluster"]), said,
            )
            for said in self.file.launches
        }  # fmt: skip
        found = decode(self.file.records)
        is_map = found.kind == TENSOR_MAP.number
        #: The tensor maps that copies name, by their keys.
        self.tensor_maps = tensor_copies.maps(found.words, found.offset[is_map])
        self._map_records = int(is_map.sum())
        self.events: Events = self._placed(
            _by_graph(found.take(~is_map) if is_map.any() else found, self.file)
        )

    def _placed(self, events: Events) -> Events:
        """The events that belong to a launch of the file and are inside its grid; others are noted."""
        inside = np.zeros(len(events), bool)
        for number, launch in self.launches.items():
            blocks_of_grid = launch.grid[0] * launch.grid[1] * launch.grid[2]
            inside |= (
                (events.launch == number) & (events.block < blocks_of_grid) & (events.warp < launch.warps)
            )
        missing = self.file.recorded - self._map_records - int(inside.sum())
        if missing:
            self.file.losses.append(
                ("records that no patch writes, or whose launches are not described", missing)
            )
        return events.take(inside) if missing else events

    @property
    def notes(self) -> list[str]:
        """Gaps, one sentence each."""
        return [cause + (f" ({count:,})" if count > 1 else "") for cause, count in self.file.losses]

    @property
    def cut(self) -> bool:
        """Whether events were left out because the file reached its maximum size."""
        return any(cause.endswith("at the size limit of the file") for cause, _ in self.file.losses)

    def of_launch(self, number: int) -> Events:
        """The events of one launch in ring order."""
        return self.events.take(self.events.launch == number)

    @property
    def partial(self) -> list[str]:
        """Conditions that excluded events of the recorded launches."""
        request = self.file.process.get("request") or {}
        return [
            key
            for key in ("blocks", "warps", "addresses", "offsets", "every", "first", "once")
            if key in request
        ]

    @cached_property
    def operands(self) -> Operands:
        """The recorded registers of each instruction."""
        return Operands(self.file)

    def places(self, launch: TracedLaunch, pc: npt.NDArray[np.uint32]) -> list[TracedInstruction]:
        """The instruction for each distinct program counter, of which only the lower half is recorded."""
        functions = self._functions.get(int(launch.said["module"]), [])
        begins = np.array([begin for begin, _, _ in functions], np.int64)
        found = []
        for low in pc.tolist():
            address = int(launch.said["pc"]) + (
                (low - int(launch.said["pc"]) + (_HALF >> 1)) % _HALF - (_HALF >> 1)
            )
            at = int(np.searchsorted(begins, address, "right")) - 1
            if at >= 0 and address < functions[at][0] + functions[at][1]:
                found.append(
                    TracedInstruction(
                        int(launch.said["module"]), functions[at][2], address - functions[at][0]
                    )
                )
            else:
                found.append(TracedInstruction(int(launch.said["module"]), "", address))
        return found

    def site(self, launch: TracedLaunch, number: int) -> tuple[str, tuple[Frame, ...]] | None:
        """An access of a kernel with compiled checks: the instruction of PTX, and its source lines, innermost first.

        None if the kernel has no such checks, or no access of this number.
        """
        found = self._sites.get((int(launch.said["module"]), str(launch.said["name"])))
        return found.get(number) if found else None

    @cached_property
    def _sites(self) -> dict[tuple[int, str], dict[int, tuple[str, tuple[Frame, ...]]]]:
        return {
            kernel: {number: (text, tuple(Frame(*frame) for frame in frames)) for number, text, frames in own}
            for kernel, own in self.file.sites.items()
        }

    @cached_property
    def _functions(self) -> dict[int, list[tuple[int, int, str]]]:
        """Begin, bytes and name of the functions of each module, ascending."""
        found: dict[int, list[tuple[int, int, str]]] = {}
        for said in self.file.functions:
            found.setdefault(int(said["module"]), []).append(
                (int(said["pc"]), int(said["bytes"]), str(said["name"]))
            )
        return {module: sorted(listed) for module, listed in found.items()}

    def _read_cubin(self, module: int) -> Cubin | None:
        """A module's code; None if the trace lacks it or it is damaged."""
        try:
            return Cubin(self.file.cubins[module], f"module {module}") if module in self.file.cubins else None
        except ElfError:
            return None

    def section(self, module: int, function: str) -> tuple[Cubin, int] | None:
        """A module's cubin and the section of a function; None if the trace lacks its code."""
        cubin = self.cubin(module)
        section = cubin.section_of(function) if cubin else None
        return None if cubin is None or section is None else (cubin, section)

    def _read_flow(self, module: int, function: str) -> ControlFlow | None:
        """The control flow of a function; None if the trace lacks its code."""
        found = self.section(module, function)
        return ControlFlow(found[0].instructions(found[1]), found[0].architecture) if found else None

    def instructions(self, module: int, function: str) -> dict[int, str]:
        """Offset → text of each instruction of a function; without nvdisasm, only instructions recorded by the NVBit tool."""
        texts = self._nvbit_texts.get((module, function))
        if texts is not None:
            return texts
        found = self.section(module, function)
        if found is None:
            return {}
        cubin, section = found
        together = sum(len(cubin.instructions(one)) for one in cubin.sections) <= _DISASSEMBLED_AT_ONCE
        sections = tuple(cubin.sections) if together else (section,)
        return self._texts(module, sections).get(section, {})

    @cached_property
    def _nvbit_texts(self) -> dict[tuple[int, str], dict[int, str]]:
        """Texts of instructions that the NVBit tool reported, by module and function."""
        return {
            (int(said["module"]), str(said["name"])): {
                int(offset): str(text).rstrip(" ;") for offset, text, _ in said["instructions"]
            }
            for said in self.file.operands
        }

    def _disassembled(self, module: int, sections: tuple[int, ...]) -> dict[int, dict[int, str]]:
        """Section → offset → text."""
        cubin = self.cubin(module)
        assert cubin is not None
        return disassemble_together({one: cubin.instructions(one) for one in sections}, cubin.architecture)

    def sass(self, place: TracedInstruction) -> str:
        """The instruction's text; empty if unknown."""
        return self.instructions(place.module, place.function).get(place.offset, "")

    def chain(self, place: TracedInstruction) -> tuple[Frame, ...]:
        """Source lines of an instruction, innermost first; empty without line information."""
        code = self.section(place.module, place.function)
        found = code[0].chain(code[1], place.offset) if code else None
        return found.frames if found else ()

    def describe(self, place: TracedInstruction) -> str:
        """Location of an instruction: its innermost source line, otherwise function and offset."""
        frames = self.chain(place)
        where = (
            f"{short(demangle(place.function))}+0x{place.offset:x}"
            if place.function
            else f"0x{place.offset:x}"
        )
        return f"{where} {Path(frames[0].file).name}:{frames[0].line}" if frames else where


def _triple(value: Iterable[int]) -> tuple[int, int, int]:
    x, y, z = value
    return int(x), int(y), int(z)


def _by_graph(events: Events, file: blocks.EventFile) -> Events:
    """Assign the events of graphs to their launches.

    The kernels of one launch of a graph share what the Sanitizer's patches are given, so all its events carry the number of
    the last: the function that an event is in separates them. Two launches of one kernel in one graph cannot be separated.
    With NVBit, warps look up their own.
    """
    if (file.process.get("request") or {}).get("tool") == "NVBit":
        return events
    graphs: dict[int, list[dict[str, Any]]] = {}
    for said in file.launches:
        if said.get("graph") and not said.get("compiled"):
            graphs.setdefault(int(said["graph"]), []).append(said)
    launch = events.launch.copy()
    sizes = {(int(f["module"]), int(f["pc"])): int(f["bytes"]) for f in file.functions}
    for nodes in graphs.values():
        if len(nodes) < 2:
            continue
        shared = np.isin(events.launch, [int(said["launch"]) for said in nodes])
        if len({said["pc"] for said in nodes}) < len(nodes):
            file.losses.append(("launches of one kernel in one graph appear as one launch of it", 0))
        claimed = np.zeros(len(events), bool)
        for said in nodes:
            size = sizes.get((int(said["module"]), int(said["pc"])), 0)
            inside = shared & ~claimed & ((events.pc - np.uint32(int(said["pc"]) % _HALF)) < size)
            launch[inside], claimed = int(said["launch"]), claimed | inside
    return Events(
        **{**{name: getattr(events, name) for name in events.__dataclass_fields__}, "launch": launch}
    )
