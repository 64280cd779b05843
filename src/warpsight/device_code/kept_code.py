"""The code that a trace stores next to its tables (`cubins/CHECKSUM.cubin`): its instructions and where they come from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from warpsight.device_code.cubin import Cubin, CubinFunction
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.disassembly import INSTRUCTION_SIZE, disassemble
from warpsight.device_code.elf import ElfError
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.operations import operation


@dataclass(frozen=True)
class Origin:
    """One instruction.

    Attributes:
        sass: its text; only the operation without nvdisasm; "?" if its code is missing.
        frames: the source chain, innermost first; empty without line information.
        ptx_line, ptx: the line of PTX that it came from, counted from 1; 0 and "" if unknown.
    """

    sass: str
    frames: tuple[Frame, ...] = ()
    ptx_line: int = 0
    ptx: str = ""


UNKNOWN = Origin("?")


class KeptCode:
    """The cubins of one folder, each opened once and disassembled function by function.

    Attributes:
        missing: checksums of images that are not there or cannot be read.
        disassembled: whether nvdisasm gave the text of every instruction asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cubins: dict[int, Cubin | None] = {}
        self._origins: dict[tuple[int, str, int, bool], Origin] = {}
        self._callers: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._code: dict[tuple[int, int], bytes] = {}
        self._texts: dict[tuple[int, int], dict[int, str]] = {}
        self.missing: set[int] = set()
        self.disassembled = True

    def origin(self, checksum: int | None, function: str, offset: int, sass: bool = True) -> Origin:
        """The instruction at an offset of a function in an image; `sass` adds its text, which takes longer."""
        key = (checksum or 0, function, offset, sass)
        if key not in self._origins:
            self._origins[key] = self._look_up(*key)
        return self._origins[key]

    def _look_up(self, checksum: int, function: str, offset: int, sass: bool) -> Origin:
        cubin = self._cubin(checksum)
        place = None if cubin is None else _place(cubin, function, offset)
        if cubin is None or place is None:
            return UNKNOWN
        section, inside = place
        text = self._text(checksum, cubin, section, inside) if sass else ""
        own = _of_compiler(cubin, section, inside)
        if own is not None:
            return Origin(text, self._caller(checksum, cubin, section, own))
        chain = cubin.chain(section, inside)
        line, ptx = cubin.ptx_at(section, inside) or (0, "")
        return Origin(text, chain.frames if chain else (), line, ptx)

    def has(self, checksum: int | None, function: str) -> bool:
        """Whether the code of a function is here."""
        cubin = self._cubin(checksum or 0)
        return cubin is not None and _place(cubin, function, 0) is not None

    def operation_at(self, checksum: int | None, function: str, offset: int) -> str:
        """The operation of an instruction without its modifiers, or ""."""
        cubin = self._cubin(checksum or 0)
        place = None if cubin is None else _place(cubin, function, offset)
        if cubin is None or place is None or place[1] < 0:
            return ""
        code = self._section(checksum or 0, cubin, place[0])
        return operation(code[place[1] : place[1] + INSTRUCTION_SIZE]) or ""

    def has_lines(self, checksum: int | None) -> bool:
        """Whether an image has line information."""
        cubin = self._cubin(checksum or 0)
        return cubin is not None and cubin.has_lines

    def _cubin(self, checksum: int) -> Cubin | None:
        if checksum not in self._cubins:
            try:
                self._cubins[checksum] = Cubin.open(self._folder / f"{checksum:016x}.cubin")
            except ElfError:
                self._cubins[checksum] = None
                self.missing.add(checksum)
        return self._cubins[checksum]

    def _section(self, checksum: int, cubin: Cubin, section: int) -> bytes:
        if (checksum, section) not in self._code:
            self._code[checksum, section] = cubin.instructions(section)
        return self._code[checksum, section]

    def _caller(
        self, checksum: int, cubin: Cubin, section: int, function: CubinFunction
    ) -> tuple[Frame, ...]:
        """The chain of a function without lines: itself, in the line that makes most of its calls."""
        own = Frame(function.demangled, "", 0)
        calls = self._calls(checksum, cubin, section).get(function.offset, ())
        found = [chain.frames for at in calls if (chain := cubin.chain(section, at)) is not None]
        lines = Counter(tuple((frame.file, frame.line) for frame in frames) for frames in found)
        if not lines:
            return (own,)
        usual, times = lines.most_common(1)[0]
        if 2 * times <= len(found):
            return (own,)
        return own, *next(f for f in found if tuple((frame.file, frame.line) for frame in f) == usual)

    def _calls(self, checksum: int, cubin: Cubin, section: int) -> dict[int, list[int]]:
        """Where each function of a section is called, by its offset."""
        found = self._callers.get((checksum, section))
        if found is None:
            found = self._callers[checksum, section] = {}
            flow = ControlFlow(self._section(checksum, cubin, section), cubin.architecture)
            for at in flow.calls.nonzero()[0].tolist():
                target = int(flow.relative_targets[at]) * INSTRUCTION_SIZE
                found.setdefault(target, []).append(at * INSTRUCTION_SIZE)
        return found

    def _text(self, checksum: int, cubin: Cubin, section: int, offset: int) -> str:
        texts = self._texts.get((checksum, section))
        if texts is None:
            code = self._section(checksum, cubin, section)
            texts = {one.address: one.text for one in disassemble(code, 0, cubin.architecture)}
            if not texts:
                self.disassembled = False
                texts = {
                    at: operation(code[at : at + INSTRUCTION_SIZE]) or "?"
                    for at in range(0, len(code), INSTRUCTION_SIZE)
                }
            self._texts[checksum, section] = texts
        return texts.get(offset, "?")


def _of_compiler(cubin: Cubin, section: int, offset: int) -> CubinFunction | None:
    """The compiler-generated function that an instruction is in (for example, a division), which has no lines of its own."""
    function = cubin.function_at(section, offset)
    if function.name == cubin.sections.get(section) or cubin.has_lines_inside(
        section, function.offset, function.size
    ):
        return None
    return function if cubin.has_lines else None


def _place(cubin: Cubin, function: str, offset: int) -> tuple[int, int] | None:
    """Section and offset in it of an instruction of a function; functions that were not inlined share their kernel's section."""
    section = cubin.section_of(function)
    if section is not None:
        return section, offset
    for one in cubin.functions:
        if one.name == function:
            return one.section, one.offset + offset
    return None


def frame_text(frame: Frame) -> str:
    """`function (file:line)`, like frames of host stacks; only the function if the file is unknown."""
    return f"{frame.function or '?'} ({frame.file}:{frame.line})" if frame.file else frame.function or "?"
