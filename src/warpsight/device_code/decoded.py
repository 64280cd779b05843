"""Instructions of a function, decoded: text, registers, scheduling, class and branch target."""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.device_code import operation_classes
from warpsight.device_code.disassembly import INSTRUCTION_SIZE, disassemble, find_tool
from warpsight.device_code.elf import Array
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.operands import RegisterAccess, access
from warpsight.device_code.operation_classes import OperationClass
from warpsight.device_code.registers import register
from warpsight.device_code.scheduling import Scheduling, scheduling
from warpsight.errors import WarpsightError

_HOPPER = 90
_NO_UNIFORM = 63
_GENERIC_LOADS = ("LD", "LDG")
_GENERIC_ACCESSES = (*_GENERIC_LOADS, "ST", "STG", "ATOM", "ATOMG", "RED", "LDGSTS")


class NotDisassembled(WarpsightError):
    """Code could not be disassembled: nvdisasm is missing, or does not support the code."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One instruction.

    Attributes:
        index: index in its section, from 0; offset: offset in bytes.
        text: as nvdisasm prints it, without the semicolon.
        access: the registers it reads and writes.
        scheduling: the compiler's hints for the scheduler.
        kind: the unit that executes it, and the memory it touches.
    """

    index: int
    text: str
    access: RegisterAccess
    scheduling: Scheduling
    kind: OperationClass

    @property
    def offset(self) -> int:
        """Bytes from the start of the section."""
        return self.index * INSTRUCTION_SIZE

    @property
    def operation(self) -> str:
        """Without modifiers: `LDG`."""
        return self.access.operation

    @property
    def never(self) -> bool:
        """Whether it never executes: `@!PT`."""
        return self.access.negated and not self.access.guard


def decode(code: bytes, architecture: int, name: str) -> list[Decoded]:
    """The instructions of a section of code.

    Args:
        code: whole instructions.
        architecture: the number in `sm_90`.
        name: what to call the code in messages.

    Raises:
        NotDisassembled: when nvdisasm is missing or cannot read the code.
    """
    whole = len(code) // INSTRUCTION_SIZE * INSTRUCTION_SIZE
    if find_tool("nvdisasm") is None:
        raise NotDisassembled("nvdisasm was not found; install it with: pip install nvidia-cuda-nvdisasm")
    texts = [instruction.text for instruction in disassemble(code[:whole], 0, architecture)]
    if not texts or len(texts) != whole // INSTRUCTION_SIZE:
        raise NotDisassembled(
            f"{name}: nvdisasm read {len(texts):,} of {whole // INSTRUCTION_SIZE:,} instructions for sm_{architecture}; "
            "the code is damaged, or of an architecture this nvdisasm does not know"
        )
    return from_texts(texts, ControlFlow(code[:whole], architecture))


def from_texts(texts: list[str], flow: ControlFlow) -> list[Decoded]:
    """Decode instructions whose texts are known, using the fields of their encodings."""
    fields = scheduling(flow.words)
    found = []
    for index, (text, schedule) in enumerate(zip(texts, fields, strict=True)):
        known = _with_descriptor(access(text), flow.words[index], flow.architecture)
        found.append(Decoded(index, text, known, schedule, operation_classes.classify(known)))
    return found


def _with_descriptor(known: RegisterAccess, word: Array, architecture: int) -> RegisterAccess:
    """Add the uniform registers of an access's memory descriptor, which nvdisasm does not print before sm_90."""
    if (
        architecture >= _HOPPER
        or known.operation not in _GENERIC_ACCESSES
        or "desc[" in "".join(known.operands)
    ):
        return known
    if "CAS" in known.modifiers:
        return known  # the third operand takes the descriptor's position
    half = int(word[0]) >> 32 if known.operation in _GENERIC_LOADS else int(word[1])
    number = half & 0x3F
    if number == _NO_UNIFORM:
        return known
    import dataclasses

    pair = register("UR", number, 2)
    return dataclasses.replace(known, reads=known.reads | pair, addresses=known.addresses | pair)


def branch_operand(instruction: Decoded) -> int | None:
    """The target offset of a branch, call or BSSY, in bytes; None if it is in a register."""
    for operand in reversed(instruction.access.operands):
        text = operand.strip("`()")
        if text.startswith("0x"):
            return int(text, 16)
    return None
