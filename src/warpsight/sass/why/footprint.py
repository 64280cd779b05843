"""The bytes of memory among which an access's addresses lie, where the code bounds them: `in[(i + k * n) & 0xffff]`."""

from __future__ import annotations

import re

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.registers import bits, register
from warpsight.sass.why.dependencies import Dependencies

_OPERAND = re.compile(r"^-?(U?R)(\d+|Z)(?:\.\w+)*$")
_CONSTANT = re.compile(r"^c\[")
_AND = 0xC0
_DEEPEST = 32
_SUMS = ("IADD3", "UIADD3", "IADD", "VIADD")
_COPIES = ("MOV", "UMOV", "R2UR")
_NUMBERS = {"TID": 1 << 10, "LANEID": 32}


def footprint(dependencies: Dependencies, index: int) -> int | None:
    """The bytes from the lowest to the highest address of an access, over all threads and times; None if unknown."""
    one = dependencies.graph.instructions[index]
    addresses = [bit for bit in bits(one.access.addresses) if bit < register("UR", 0).bit_length() - 1]
    span = _span(dependencies, index, min(addresses), 0) if addresses else None
    return None if span is None else span + one.kind.bits // 8


def _span(dependencies: Dependencies, index: int, bit: int, depth: int) -> int | None:
    """By how much the values of a register differ; arguments are the same for all."""
    producers = [one for one in dependencies.producers(index) if one.registers >> bit & 1]
    if not producers or depth > _DEEPEST:
        return None
    spans = [
        _result(dependencies, dependencies.graph.instructions[one.index], depth + 1) for one in producers
    ]
    known = [span for span in spans if span is not None]
    return max(known) if len(known) == len(spans) else None


def _result(dependencies: Dependencies, one: Decoded, depth: int) -> int | None:
    sources = one.access.operands[one.access.results :]
    name = one.operation
    if one.kind.space == "constant" or name in ("LDC", "ULDC"):
        return 0
    if name == "S2R":
        return next(
            (most for number, most in _NUMBERS.items() if number in one.text and "CTA" not in one.text), None
        )
    spans = [_source(dependencies, one.index, text, depth) for text in sources[:3]]
    if name in ("LOP3", "ULOP3") and len(sources) > 3 and _number(sources[3]) == _AND:
        bounds = [_number(text) for text in sources[:2]]
        return min((bound for bound in (*bounds, *spans[:2]) if bound), default=None)
    if name in _SUMS:
        return None if None in spans else sum(span for span in spans if span is not None)
    if name in _COPIES:
        return spans[0]
    if name == "SHF" and "L" in one.access.modifiers and spans[0] is not None:
        shift = _number(sources[1])
        return None if shift is None else spans[0] << shift
    if name == "IMAD" and len(spans) == 3 and spans[0] is not None and spans[1] == 0 and spans[2] is not None:
        factor = 0 if spans[0] == 0 else _number(sources[1])
        return None if factor is None else spans[0] * abs(factor) + spans[2]
    return None


def _source(dependencies: Dependencies, index: int, text: str, depth: int) -> int | None:
    if _CONSTANT.match(text) or _number(text) is not None:
        return 0
    found = _OPERAND.match(text)
    if found is None:
        return 0 if text.lstrip("!").startswith(("P", "UP")) else None
    if found[2] == "Z":
        return 0
    (bit,) = bits(register(found[1], int(found[2])))
    return _span(dependencies, index, bit, depth)


def _number(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
