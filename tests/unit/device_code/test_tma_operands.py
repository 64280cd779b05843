"""Operands of TMA instructions: what ptxas makes of every form is followed back to the parameters of its kernel."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import pytest

from warpsight.device_code.tma.tma_operands import CopyOperands, instruction, operands_of

_FORMS = [
    line.split(" | ")
    for line in (Path(__file__).parents[2] / "golden" / "device_code" / "tma_operands.txt")
    .read_text()
    .splitlines()
    if not line.startswith("#")
]
_LAYOUT = {
    "map": 8, "dst": 4, "bar": 4, "c0": 4, "c1": 4, "c2": 4, "c3": 4, "c4": 4, "h0": 2, "h1": 2, "h2": 2, "mask": 2, "pol": 8,
    "src": 8, "size": 4, "dst2": 4,
}  # fmt: skip
_BEGIN = {"sm_90a": 0x210, "sm_100a": 0x380}
_CODE = re.compile(r"(\S+) (\S+)(?:, (.*))?")


def _parameters(chance: random.Random) -> dict[str, int]:
    """Values for a kernel's parameters; offsets and sizes are of those that instructions can take."""
    made = {name: chance.getrandbits(8 * size) for name, size in _LAYOUT.items()}
    made |= {f"h{i}": chance.randrange(32) for i in range(3)}
    return made | {"size": 16 * chance.randrange(1 << 16)}


def _bank(given: dict[str, int], begin: int) -> bytes:
    """The constant bank with the parameters, each aligned to its size."""
    data = bytearray(begin)
    for name, size in _LAYOUT.items():
        data += bytes(-(len(data) - begin) % size) + given[name].to_bytes(size, "little")
    return bytes(data) + bytes(16)


def _run(code: str, bank: bytes) -> list[int]:
    """The uniform registers after some code."""
    held = [0] * 64

    def value(text: str) -> int:
        if text == "URZ":
            return 0
        return held[int(text[2:])] if text.startswith("UR") else int(text, 0)

    for one in filter(None, code.split(" ; ")):
        match = _CODE.fullmatch(one)
        assert match, one
        operation, target, sources = match[1], int(match[2].rstrip(",")[2:]), match[3].split(", ")
        name, _, modifier = operation.partition(".")
        if name in ("ULDC", "LDCU"):
            at, words = int(sources[0][2:-1], 16), {"64": 2, "128": 4}.get(modifier, 1)
            found = struct.unpack_from(f"<{words}I", bank, at)
            held[target : target + words] = [word & 0xFFFF if modifier == "U16" else word for word in found]
            continue
        a, *others = (value(source) for source in sources)
        if name == "UMOV":
            held[target] = a
        elif operation == "USHF.R.U32.HI":
            held[target] = others[1] >> others[0]
        elif name == "ULEA":
            held[target] = (others[0] + (a << others[1])) % (1 << 32)
        else:
            assert name == "UPRMT", one
            parts = struct.pack("<II", a, others[1])
            held[target] = sum(parts[others[0] >> 4 * i & 7] << 8 * i for i in range(4))
    return held


def _expected(ptx: str, given: dict[str, int]) -> CopyOperands:
    """The operands that an instruction of PTX names."""
    opcode, arguments = ptx.split(" ", 1)
    words = re.split(r"\.|::", opcode)
    places = re.findall(r"\[[^\]]*\]|\{[^}]*\}|\w+", arguments)
    names = [re.findall(r"\w+", place) for place in places]
    tensor, prefetch, reduces = "tensor" in words, "prefetch" in words, "reduce" in words
    used = {name for listed in names for name in listed}
    spaces = [word for word in words if word in ("shared", "global")]
    source, target = ("global", "L2") if prefetch else (spaces[1], spaces[0])
    operation = "reduce" if reduces else "prefetch" if prefetch else "copy"
    reduction = next((w for w in words if w in ("add", "min", "max", "inc", "dec", "and", "or", "xor")), "")
    masked, both = "mask" in used, source == target == "shared"
    common = {
        "barrier": given["bar"] if "bar" in used else None, "policy": given["pol"] if "pol" in used else None,
        "multicast": given["mask"] if masked and "multicast" in words else None,
    }  # fmt: skip
    if not tensor:
        return CopyOperands(
            operation, reduction, source, target, bytes=given["size"],
            shared_address=given["dst"] if "dst" in used else None,
            other_shared_address=given["dst2"] if both else None, address=given["src"] if "src" in used else None,
            mask=given["mask"] if masked and "cp_mask" in words else None, **common,
        )  # fmt: skip
    if operation == "copy":
        operation = "load" if target == "shared" else "store"
    rows = bool({"gather4", "scatter4"} & set(words))
    mode = "rows" if rows else "tile" if "tile" in words else "im2col"
    if "w" in words:
        mode = "im2col w 128" if "128" in words else "im2col w"
    coordinates = [given[name] for listed in names for name in listed if re.fullmatch(r"c\d", name)]
    return CopyOperands(
        operation, reduction, source, target, int(next(w for w in words if re.fullmatch(r"\dd", w))[0]), mode,
        tuple(value - (value >> 31 << 32) for value in coordinates),
        tuple(given[name] for listed in names for name in listed if re.fullmatch(r"h\d", name)),
        shared_address=given["dst"] if "dst" in used else None, map_address=given["map"],
        pair="cta_group" in words and "2" in words, **common,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_operands_are_those_of_the_ptx_instruction(seed: int) -> None:
    chance = random.Random(seed)
    for architecture, ptx, code, text in _FORMS:
        given = _parameters(chance)
        held = _run(code, _bank(given, _BEGIN[architecture]))
        parsed = instruction(text)
        assert parsed is not None, text
        values = [held[number] if number >= 0 else 0 for number in parsed.registers]
        found = operands_of(parsed, values)
        assert found is not None, text
        # The types of a reduction have tests of their own.
        plain = CopyOperands(**{**vars(found), "reduction": found.reduction.split(".")[0]})
        assert plain == _expected(ptx, given), (text, ptx)


def test_forms_of_every_kind_are_there() -> None:
    kinds = {text.split()[0].split(".")[0] for _, _, _, text in _FORMS}
    assert kinds == {"UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UBLKCP", "UBLKRED", "UBLKPF"}
    assert len(_FORMS) > 200


@pytest.mark.parametrize(
    "text",
    [
        "UTMALDG.6D [UR8], [UR4]", "UTMALDG.2D.SOMEHOW [UR8], [UR4]", "UTMALDG.2D [UR8], [UR4], UR6", "UTMALDG.2D [UR8]",
        "UTMALDG.3D.IM2COL [UR8], [UR4]", "UTMALDG.2D [UR8], [UR4], 0x3", "UTMAXYZ.2D [UR8], [UR4]", "UTMALDG [UR8], [UR4]",
        "UTMALDG.2D [UR8], UR4, [UR6]", "UTMAREDG.2D [UR8], [UR4]", "UTMASTG.2D.MULTICAST [UR8], [UR4], UR6",
        "UBLKCP.G.G [UR4], [UR6], UR8", "UBLKCP.S.T [UR4], [UR6], UR8", "UBLKCP.S.G [UR4], [UR6]",
        "UBLKCP.S.G.ODD [UR4], [UR6], UR8", "UBLKRED.G.S [UR4], [UR6], UR8", "UBLKPF [UR4], UR6",
        "UBLKNEW.S.G [UR4], [UR6], UR8", "UTMALDG.2D [UR8], desc[UR4], [UR6]",
    ],
)  # fmt: skip
def test_an_unknown_layout_is_not_guessed(text: str) -> None:
    parsed = instruction(text)
    assert parsed is not None
    assert operands_of(parsed, list(range(len(parsed.registers)))) is None
    assert parsed.registers  # they are recorded nevertheless


@pytest.mark.parametrize(
    "text", ["UTMACMDFLUSH", "UTMACCTL.PF [UR4]", "UMOV UR4, UR5", "@P0 BRA 0x10", "", "LDG.E R2, [R4]"]
)
def test_other_instructions_copy_nothing(text: str) -> None:
    assert instruction(text) is None


def test_registers_that_do_not_exist_are_zero() -> None:
    parsed = instruction("@!UP3 UTMASTG.2D [UR60], [URZ], desc[UR62] ;")
    assert parsed is not None
    assert parsed.registers == (60, 61, 62, -1, -1, -1, -1, -1, -1, 62, -1)
