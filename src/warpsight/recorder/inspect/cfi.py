"""Call frame information: locates the caller of a piece of code, and its registers.

pyelftools reads what .eh_frame says of one function and the DWARF expressions in it; this module picks the row for a place in the
code and evaluates expressions, as described in the DWARF standard (version 4, sections 2.5 and 6.4).
"""

from __future__ import annotations

import io
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from elftools.common.exceptions import DWARFError, ELFParseError
from elftools.dwarf.callframe import FDE, CallFrameInfo, CallFrameInstruction, CFARule, RegisterRule
from elftools.dwarf.constants import DW_CFA
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.structs import DWARFStructs

#: Reads this many bytes of the process at an address; None if they are not mapped.
Memory = Callable[[int, int], "bytes | None"]
#: Bytes of a DWARF expression, as pyelftools gives them.
Expression = Sequence[int]
_MASK = (1 << 64) - 1
_STRUCTS = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
_EXPRESSIONS = DWARFExprParser(_STRUCTS)
#: Exceptions of pyelftools for malformed data.
_DAMAGE = (
    DWARFError,
    ELFParseError,
    AssertionError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class CfiError(Exception):
    """The frames of this code cannot be unwound with the available information."""


@dataclass(frozen=True)
class UnwindRow:
    """Where the caller's frame is and how to get its registers, by their DWARF numbers."""

    cfa: CFARule
    rules: dict[int, RegisterRule]
    return_register: int
    signal: bool


def row_at(cie: bytes, fde: bytes, address: int, pc: int) -> UnwindRow:
    """The row in effect at `pc`, from the entries of .eh_frame that describe one function.

    Args:
        cie: the entry shared by several functions, with its length.
        fde: the entry of the function, with its length.
        address: where `fde` is in memory.
        pc: the address within the function.

    Raises:
        CfiError: when they are damaged or do not cover `pc`.
    """
    together = (
        cie + fde[:4] + struct.pack("<I", len(cie) + 4) + fde[8:]
    )  # the distance back to the shared entry
    frames = CallFrameInfo(
        io.BytesIO(together), len(together), address - len(cie), _STRUCTS, for_eh_frame=True
    )
    try:
        entry = frames.get_entries()[1]
        if not isinstance(entry, FDE) or entry.cie is None:
            raise CfiError("frame information is damaged")
        start = entry["initial_location"] & _MASK
        if not start <= pc < start + entry["address_range"]:
            raise CfiError("no frame information")
        entry.instructions[:] = _decodable(entry.instructions, entry.cie["data_alignment_factor"])
        row = [line for line in entry.get_decoded().table if line["pc"] & _MASK <= pc][-1]
        rules = {register: rule for register, rule in row.items() if isinstance(register, int)}
        signal = b"S" in entry.cie["augmentation"]
        return UnwindRow(row["cfa"], rules, entry.cie["return_address_register"], signal)
    except _DAMAGE as error:
        raise CfiError("frame information is damaged") from error


def _decodable(program: list[CallFrameInstruction], scale: int) -> Iterator[CallFrameInstruction]:
    """Whether pyelftools 0.33 decodes this correctly: it ignores the size of arguments, and scales one rule wrongly."""
    for one in program:
        if one.opcode == DW_CFA.def_cfa_sf:
            yield CallFrameInstruction(DW_CFA.def_cfa, [one.args[0], one.args[1] * scale])
        elif one.opcode != DW_CFA.GNU_args_size:
            yield one


def frame_address(rule: CFARule, registers: dict[int, int], memory: Memory) -> int:
    """The canonical frame address that a row gives.

    Raises:
        CfiError: when it cannot be computed.
    """
    if rule.expr is not None:
        return evaluate(rule.expr, registers, memory, [])
    if rule.reg not in registers or rule.offset is None:
        raise CfiError("the frame is relative to a register that is not known")
    return registers[rule.reg] + rule.offset & _MASK


def evaluate(expression: Expression, registers: dict[int, int], memory: Memory, first: list[int]) -> int:
    """Value of a DWARF expression; `first` is the initial stack.

    Raises:
        CfiError: when it is damaged, reads unavailable memory, or uses an operation that frames do not need.
    """
    stack = list(first)
    try:
        for op in _EXPRESSIONS.parse_expr(expression):
            name = op.op_name.removeprefix("DW_OP_")
            if name.startswith("breg") and name != "bregx":
                stack.append(registers.get(int(name[4:]), 0) + op.args[0] & _MASK)
            elif name.startswith("lit"):
                stack.append(int(name[3:]))
            elif name.startswith("const"):
                stack.append(op.args[0] & _MASK)
            elif name == "dup":
                stack.append(stack[-1])
            elif name == "deref":
                stack.append(word(memory, stack.pop()))
            elif name == "plus_uconst":
                stack.append(stack.pop() + op.args[0] & _MASK)
            elif name in _BINARY:
                right, left = stack.pop(), stack.pop()
                stack.append(_BINARY[name](left, right) & _MASK)
            elif name != "nop":
                raise CfiError(f"unknown expression operation {op.op:#x}")
        return stack[-1]
    except _DAMAGE as error:
        raise CfiError("an expression is damaged") from error


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _compared(holds: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda left, right: int(holds(_signed(left), _signed(right)))


_BINARY: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "plus": operator.add, "minus": operator.sub, "mul": operator.mul,
    "shl": lambda left, right: left << (right & 63), "shr": lambda left, right: left >> (right & 63),
    **{name: _compared(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip


def word(memory: Memory, address: int) -> int:
    """Eight bytes of the process as a number.

    Raises:
        CfiError: when they cannot be read.
    """
    data = memory(address, 8)
    if data is None or len(data) < 8:
        raise CfiError(f"no memory at {address:#x}")
    return int.from_bytes(data, "little")
