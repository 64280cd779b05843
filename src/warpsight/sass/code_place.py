"""Places in a kernel's code by source line, PTX line or instruction, used as keys for sums of samples and exact counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.kept_code import Origin

#: The columns of a place in CSV.
COLUMNS = ("function", "file", "line", "ptx_line", "pc", "sass", "inlined_into")


@dataclass
class CodePlace:
    """A place in the code of one kernel.

    Attributes:
        frames: the source chain, innermost first; empty without line information.
        ptx_line, ptx: number and text of the PTX line; 0 and "" if unknown.
        pc: offset of an instruction in its function, -1 for the other levels; sass: its text.
    """

    frames: tuple[Frame, ...] = ()
    ptx_line: int = 0
    ptx: str = ""
    pc: int = -1
    sass: str = ""

    def place(self) -> dict[str, Any]:
        """Where it is, as plain data."""
        place: dict[str, Any] = {
            "frames": [{"function": f.function, "file": f.file, "line": f.line} for f in self.frames]
        }
        if self.ptx_line:
            place |= {"ptx_line": self.ptx_line, "ptx": self.ptx}
        if self.pc >= 0:
            place |= {"pc": self.pc, "sass": self.sass}
        return place

    def cells(self) -> tuple[str | int, ...]:
        """The place as cells of :data:`COLUMNS`."""
        frame = self.frames[0] if self.frames else Frame("", "", 0)
        around = " < ".join(f"{f.function} ({f.file}:{f.line})" for f in self.frames[1:])
        pc = self.pc if self.pc >= 0 else ""
        return frame.function, frame.file, frame.line or "", self.ptx_line or "", pc, self.sass, around


P = TypeVar("P", bound=CodePlace)


def by_level(
    make: Callable[..., P], origin: Origin, checksum: int | None, pc: int
) -> list[tuple[str, Any, P]]:
    """The place of one instruction at each level, with its key; no line or PTX line if unknown."""
    exact = make(frames=origin.frames, ptx_line=origin.ptx_line, ptx=origin.ptx, pc=pc, sass=origin.sass)
    found: list[tuple[str, Any, P]] = [("instruction", (checksum, pc), exact)]
    if origin.frames:
        # Columns differ within a line; the place is the line.
        key = tuple((frame.function, frame.file, frame.line) for frame in origin.frames)
        found.append(("line", key, make(frames=origin.frames)))
    if origin.ptx_line:
        ptx = make(frames=origin.frames, ptx_line=origin.ptx_line, ptx=origin.ptx)
        found.append(("ptx", (checksum, origin.ptx_line), ptx))
    return found
