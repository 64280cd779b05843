"""Small programs made of text: encoded as far as control flow and scheduling need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.device_code.decoded import from_texts
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.flow_graph import FlowGraph

_ALWAYS, _OTHER, _BRANCH, _EXIT = 7, 0x210, 0x947, 0x94D


@dataclass(frozen=True)
class Line:
    """One instruction of a program; `to` is where a branch goes, as a number of an instruction."""

    text: str
    to: int | None = None
    stall: int = 1
    write: int = 7
    read: int = 7
    waits: int = 0


def graph(lines: Sequence[Line]) -> FlowGraph:
    """The control-flow graph of a program, encoded as sm_80 has it."""
    code = b"".join(_encoded(index, line) for index, line in enumerate(lines))
    flow = ControlFlow(code, 80)
    return FlowGraph(from_texts([line.text for line in lines], flow), flow)


def _encoded(index: int, line: Line) -> bytes:
    words = line.text.split()
    guard = _ALWAYS
    if words[0].startswith("@"):
        guard = int(words[0][-1]) | (8 if "!" in words[0] else 0)
    operation = words[1] if words[0].startswith("@") else words[0]
    low = {"BRA": _BRANCH, "EXIT": _EXIT}.get(operation, _OTHER) | guard << 12
    high = line.stall << 41 | line.write << 46 | line.read << 49 | line.waits << 52
    if line.to is not None:
        distance = ((line.to - index - 1) * 4) & ((1 << 48) - 1)
        low |= (distance & ((1 << 30) - 1)) << 34
        high |= distance >> 30 | 7 << 23
    elif operation == "EXIT":
        high |= 7 << 23
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")
