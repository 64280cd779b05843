"""Which registers an instruction reads and writes, from its text as nvdisasm prints it.

Results come first: predicates, then a register, then further predicates. How many registers an operand spans depends on modifiers
of the operation (`.64`, `.WIDE`, the shape of a matrix product), not on the operand's text; the rules are in
:mod:`warpsight.device_code.widths`. Checked against the life ranges that nvdisasm prints for cubins (`-plr`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.device_code import widths
from warpsight.device_code.registers import register, whole

#: A register in an operand: `R4`, `UR6`, `!P0`, `R2.64`; not the R of `SR_TID.X` nor of a hexadecimal number.
_NAMED = re.compile(r"(?<![A-Za-z0-9_.$])(UR|UP|R|P|B)(\d+)((?:\.[A-Za-z0-9_]+)*)")
_HEAD = re.compile(r"^(?:@(!?)(U?P(?:\d+|T))\s+)?(\S+)\s*(.*)$")
_PREDICATE = re.compile(r"^U?P(?:\d+|T)$")
_REGISTER = re.compile(r"^U?R(?:\d+|Z)(?:\.[A-Za-z0-9_]+)*$")

#: Operations whose first operand is not a result: stores, branches, barriers, what only changes memory or control flow.
_WITHOUT_RESULT = frozenset({
    "ST", "STG", "STS", "STL", "STSM", "SUST", "SURED", "STT", "STTM", "STAS", "RED", "REDG", "REDAS", "BRA", "BRX",
    "BRXU", "JMP", "JMX", "JMXU", "CALL", "RET", "EXIT", "BSYNC", "BREAK", "BAR", "WARPSYNC", "DEPBAR", "LDGDEPBAR",
    "LDGSTS", "NANOSLEEP", "NOP", "MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR", "CCTL", "CCTLL", "CCTLT", "YIELD", "BPT",
    "KILL", "PMTRIG", "RTT", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UTMACCTL", "UTMACMDFLUSH", "UBLKCP",
    "UBLKRED", "UBLKPF", "UCGABAR_ARV", "UCGABAR_WAIT", "WARPGROUP", "WARPGROUPSET", "ACQBULK", "PREEXIT", "ARRIVES",
    "UTCCP", "UTCBAR", "UTCSHIFT", "UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTMAFENCE", "UTCCPFENCE",
    "ENDCOLLECTIVE", "SETMAXREG", "USETMAXREG", "SETCTAID", "SETLMEMBASE", "ATOMGRED",
})  # fmt: skip
#: Number of leading predicates that are results, where the text shows fewer.
_PREDICATE_RESULTS = {
    "PLOP3": 2,
    "UPLOP3": 2,
    "VOTE": 1,
    "VOTEU": 1,
    "UVOTE": 1,
    "ELECT": 1,
    "PSETP": 2,
    "UPSETP": 2,
}
#: Operations whose results are predicates alone, by how their names end.
_ONLY_PREDICATES = ("SETP", "SETP2", "PLOP3", "FCHK", "TESTP")
_VOTES = ("VOTE", "VOTEU")
#: A second register among the results.
_SECOND_RESULT = frozenset({"TEX", "TLD", "TLD4", "TXD", "TMML", "TXQ"})
ALL_PREDICATES = {"PR": whole("P"), "UPR": whole("UP")}


@dataclass(frozen=True, slots=True)
class RegisterAccess:
    """An instruction's use of registers; sets are bits of :mod:`warpsight.device_code.registers`.

    Attributes:
        operation: the operation without modifiers: `LDG`; modifiers: `("E", "64")`.
        operands: their texts, with the results first.
        results: how many of them are results.
        guard: the predicate that decides whether the instruction executes, 0 when it always does.
        negated: whether it executes when the guard is false; with `guard` 0, whether it never executes (`@!PT`).
        reads: all registers read, with the guard's; writes: all written.
        addresses: those of `reads` used only for the address of an access.
    """

    operation: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    results: int
    guard: int
    negated: bool
    reads: int
    writes: int
    addresses: int


def access(text: str) -> RegisterAccess:
    """Decode the text of an instruction, without offset and semicolon."""
    match = _HEAD.match(text.strip())
    if match is None:
        return RegisterAccess("", (), (), 0, 0, False, 0, 0, 0)
    negated, predicate, full, rest = match.groups()
    operation, *modifiers = full.split(".")
    kind = widths.Opcode(operation, tuple(modifiers))
    operands = _split(rest)
    results = _results(operation, operands)
    guard = _named_registers(predicate or "", kind, widths.GUARD)
    reads, writes, addresses = guard, 0, 0
    for place, operand in enumerate(operands):
        if operand in ALL_PREDICATES:
            found = _masked(operand, operands[-1])
        elif operation in widths.TEXTURES:
            found = _of_texture(kind, operands, results, place)
        elif place < results:
            found = _named_registers(operand, kind, _result_place(operands, place))
        else:
            found = _named_registers(operand, kind, _source_place(operands, results, place))
        if place < results:
            writes |= found
            continue
        reads |= found
        if "[" in operand:
            addresses |= found
    return RegisterAccess(
        operation, tuple(modifiers), operands, results, guard, bool(negated), reads, writes, addresses
    )


def _split(text: str) -> tuple[str, ...]:
    """Operands: separated by commas outside brackets; `BRX R4 -0x120` has one more operand."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _results(operation: str, operands: tuple[str, ...]) -> int:
    """How many of the first operands are results."""
    if operation in _WITHOUT_RESULT or not operands:
        return 0
    at = 0
    most = _PREDICATE_RESULTS.get(operation, len(operands))
    while at < min(most, len(operands)) and _PREDICATE.match(operands[at]):
        at += 1
    if operation.endswith(_ONLY_PREDICATES) or (operation in _VOTES and at):
        return at
    if at < len(operands) and (
        _REGISTER.match(operands[at]) or operands[at] in ALL_PREDICATES or operands[at][0] == "B"
    ):
        at += 1
        if operation in _SECOND_RESULT and at < len(operands) and _REGISTER.match(operands[at]):
            at += 1 if len(operands) > at + 2 else 0
        after = 0
        while at < len(operands) and after < most and _PREDICATE.match(operands[at]) and operation != "ELECT":
            at, after = at + 1, after + 1
        if "ENL2" in operation or (
            operation == "LDG" and at < len(operands) and _REGISTER.match(operands[at])
        ):
            at += 1
    return at


def _result_place(operands: tuple[str, ...], place: int) -> int:
    """Results are numbered downward from -1, registers only."""
    return -1 - sum(1 for operand in operands[:place] if _REGISTER.match(operand))


def _source_place(operands: tuple[str, ...], results: int, place: int) -> int:
    """Sources are numbered upward from 0, without predicates."""
    return sum(1 for operand in operands[results:place] if not _PREDICATE.match(operand.lstrip("!")))


def _masked(operand: str, mask: str) -> int:
    """The predicates of `P2R R14, PR, RZ, 0x40` and `R2P PR, R5, 0x7e`: those in the mask."""
    every = ALL_PREDICATES[operand]
    first = every & -every
    return every & int(mask, 16) * first if mask.startswith("0x") else every


def _of_texture(kind: widths.Opcode, operands: tuple[str, ...], results: int, place: int) -> int:
    match = _NAMED.fullmatch(operands[place])
    if match is None:
        return 0
    return register(match[1], int(match[2]), widths.of_texture(kind, operands, results, place))


def _named_registers(operand: str, kind: widths.Opcode, place: int) -> int:
    found = 0
    for file, number, suffix in _NAMED.findall(operand):
        found |= register(file, int(number), widths.registers(kind, place, operand, file, suffix))
    return found
