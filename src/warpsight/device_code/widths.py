"""How many registers an operand spans, by the operation and its modifiers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: Place of the guard.
GUARD = -100
_BITS = {"64": 2, "128": 4, "256": 8, "96": 3, "F64": 2, "U64": 2, "S64": 2}
_MEMORY = frozenset({
    "LD", "LDG", "LDS", "LDL", "LDC", "ULDC", "LDCU", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "SULD",
    "SUST", "STAS", "REDAS", "UATOM", "SYNCS", "ATOMGRED",
})  # fmt: skip
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DMNMX", "DSETP", "FFMA2", "FADD2", "FMUL2"})
_WIDE_SOURCE = frozenset({"RET", "CALL", "BRX", "JMX", "BRXU", "JMXU"})
#: Registers of A, B and C for one warp, by shape: `HMMA.16816`.
_PRODUCTS = {
    ("HMMA", "16816"): (4, 2, 4), ("HMMA", "1688"): (2, 1, 4), ("HMMA", "1684"): (2, 1, 4), ("HMMA", "884"): (2, 2, 8),
    ("IMMA", "8816"): (1, 1, 2), ("IMMA", "8832"): (1, 1, 2), ("IMMA", "16816"): (2, 1, 4), ("IMMA", "16832"): (4, 2, 4),
    ("IMMA", "16864"): (4, 2, 4), ("BMMA", "88128"): (1, 1, 2), ("BMMA", "168128"): (2, 1, 4), ("BMMA", "168256"): (4, 2, 4),
    ("DMMA", "884"): (2, 2, 4), ("DMMA", "8x8x4"): (2, 2, 4), ("DMMA", "16x8x4"): (4, 2, 8), ("DMMA", "16x8x8"): (8, 4, 8),
    ("DMMA", "16x8x16"): (16, 8, 8), ("QMMA", "16832"): (4, 2, 4), ("QMMA", "16816"): (2, 1, 4), ("OMMA", "16864"): (4, 2, 4),
    ("HMMA", "168128"): (4, 2, 4),
}  # fmt: skip
_WARPGROUP = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
_TENSOR_LOADS = frozenset({"LDTM", "STTM"})
_LANES_OF_WARPGROUP = 128
_TENSOR_COPIES = frozenset(
    {"UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UTMACCTL", "UBLKCP", "UBLKRED", "UBLKPF"}
)
TEXTURES = frozenset({"TEX", "TLD", "TLD4", "TXD", "TMML", "TXQ"})
_SURFACES = frozenset({"SULD", "SUST", "SURED"})
_COORDINATES = {
    "1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "ARRAY_CUBE": 4, "1D_ARRAY": 2, "2D_ARRAY": 3,
}  # fmt: skip
_LONG_ADDRESSES = frozenset({"LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "QSPC", "CCTL"})


@dataclass(frozen=True, slots=True)
class Opcode:
    """An operation and its modifiers: `LDG`, `("E", "128")`."""

    name: str
    modifiers: tuple[str, ...]

    def has(self, modifier: str) -> bool:
        """Whether a modifier is there."""
        return modifier in self.modifiers

    @property
    def wide(self) -> int:
        """The number of registers of the widest size modifier, or 1."""
        return max((_BITS.get(one, 1) for one in self.modifiers), default=1)


def registers(kind: Opcode, place: int, operand: str, file: str, suffix: str) -> int:
    """How many registers an operand spans.

    Args:
        kind: the operation.
        place: -1, -2 … for results, 0, 1 … for sources, :data:`GUARD`.
        operand: the operand's whole text.
        file: register file of one register in it: `R` of `[R2.64+0x10]`.
        suffix: suffix of that register: `.64`.
    """
    if file in ("P", "UP", "B") or place == GUARD:
        return 1
    if "[" in operand:
        return _in_brackets(kind, operand, place, file, suffix)
    if ".64" in suffix:
        return 2
    if suffix.endswith(".F32") and kind.name in _DOUBLE:
        return 1  # `FADD2 R8, R8.F32x2.HI_LO, -R10.F32`: one value for both halves
    if kind.name in _SURFACES and file == "UR":
        return 1
    if kind.name in _MEMORY:
        return kind.wide
    if kind.name in _WARPGROUP:
        return _of_warpgroup(kind, place, file)
    if kind.name in ("LDSM", "STSM"):
        return int(kind.modifiers[-1]) if kind.modifiers and kind.modifiers[-1] in "24" else 1
    if kind.name in _TENSOR_LOADS:
        return _of_tensor_memory(kind)
    for modifier in kind.modifiers:
        shape = _PRODUCTS.get((kind.name, modifier))
        if shape is not None:
            return _of_product(kind, shape, place, modifier)
    return _of_arithmetic(kind, place, file)


def _in_brackets(kind: Opcode, operand: str, place: int, file: str, suffix: str) -> int:
    if operand.startswith("gdesc"):
        # Also two descriptors if A is in shared memory; fifth-generation instructions are handled separately.
        return 4 if place == 0 and kind.name in _WARPGROUP else 2
    if file == "UR" and ".U32+" in operand:
        return 2
    if ".64" in suffix or (operand.startswith("desc[UR") and file == "UR"):
        return 2
    if kind.name in _TENSOR_COPIES:
        return _of_tensor_copy(kind, place)
    if kind.name in _SURFACES and file == "R":
        return max((_COORDINATES.get(one, 0) for one in kind.modifiers), default=1) or 1
    # Global and generic addresses have 64 bits; `.E` marks them, except where nvdisasm omits it.
    return 2 if file == "R" and kind.has("E") and not suffix and kind.name in _LONG_ADDRESSES else 1


def _of_tensor_copy(kind: Opcode, place: int) -> int:
    """A TMA's uniform registers: the descriptor's address; shared address, mbarrier and a coordinate for each dimension."""
    if kind.name == "UTMACCTL" or (place == 1 and kind.name.startswith("UTMA")):
        return 2
    if kind.name in ("UBLKCP", "UBLKRED", "UBLKPF"):
        shared_first = kind.modifiers[:1] == ("S",)
        return 1 if place == 1 and not shared_first else 2
    dimensions = next((int(one[0]) for one in kind.modifiers if re.fullmatch("[1-5]D", one)), 1)
    return dimensions + {"UTMALDG": 2, "UTMAPF": 0}.get(kind.name, 1)


def _of_warpgroup(kind: Opcode, place: int, file: str) -> int:
    """The product's own registers; `R24, gdesc[UR4], R24` has both factors in shared memory, `R24, R4, gdesc[UR4], R24` one."""
    match = next((m for m in map(_SHAPE.fullmatch, kind.modifiers) if m), None)
    if match is None:
        return 1
    if place and file == "R":
        rows, columns = int(match[1]), int(match[2])
        halves = kind.name == "HGMMA" and kind.modifiers[kind.modifiers.index(match[0]) + 1 :][:1] == ("F16",)
        return rows * columns // _LANES_OF_WARPGROUP // (2 if halves else 1)
    return 4


def _of_tensor_memory(kind: Opcode) -> int:
    times = next((int(m[1:]) for m in kind.modifiers if re.fullmatch(r"x\d+", m)), 1)
    shape = next((m for m in map(re.compile(r"(\d+)dp(\d+)bit").fullmatch, kind.modifiers) if m), None)
    per = int(shape[1]) * int(shape[2]) // 1024 if shape else 1
    return max(times * max(per, 1) // (2 if kind.has("PACK16B") or kind.has("UNPACK16B") else 1), 1)


def _of_product(kind: Opcode, shape: tuple[int, int, int], place: int, modifier: str) -> int:
    a, b, c = shape
    if kind.name == "HMMA" and kind.has("TF32"):
        a, b = (4, 2) if modifier == "1688" else (2, 1)
    if kind.name in ("HMMA", "QMMA") and kind.modifiers[kind.modifiers.index(modifier) + 1 :][:1] == ("F16",):
        c //= 2
    if kind.has("SP"):
        b *= 2
    return {-1: c, 0: a, 1: b, 2: c}.get(place, 1)


def _of_arithmetic(kind: Opcode, place: int, file: str) -> int:
    name, modifiers = kind.name, kind.modifiers
    if name in _DOUBLE:
        return 2
    if name in ("IMAD", "UIMAD") and kind.has("WIDE"):
        return 2 if place in (-1, 2) else 1
    if name in ("CS2R", "CS2UR"):
        return 1 if kind.has("32") else 2
    if name in _WIDE_SOURCE or name == "LEPC":
        return 2
    if name in ("F2F", "F2I", "I2F", "FRND", "I2I"):
        return _of_conversion(name, modifiers, place)
    if name == "MUFU":
        return 1
    return 2 if name in _OF_64_BITS and any(one in _BITS for one in modifiers) else 1


def of_texture(kind: Opcode, operands: Sequence[str], results: int, at: int) -> int:
    """How many registers an operand of a texture operation spans.

    `TEX.LL R25, R28, R40, R4, UR4, 0x0, 2D, 0x7`: the mask 0x7 is for three components, the first two of which go to the second
    result; then two coordinates, the level of detail, and a texture named by two uniform registers. `.SCR` divides the
    coordinates and the level evenly between both sources.

    Args:
        kind: the operation.
        operands: all of them.
        results: how many of them are results.
        at: the operand in question.
    """
    if operands[at].startswith("UR"):
        return 2
    shape = next((n for n, one in enumerate(operands) if one in _COORDINATES), len(operands) - 1)
    if at < results:
        mask = operands[shape + 1 :] or ("0xf",)
        components = int(mask[0], 16).bit_count() if mask[0].startswith("0x") else 4
        paired = min(components, 2) if results > 1 else components
        return paired if at == results - 1 else max(components - paired, 1)
    coordinates = _COORDINATES.get(operands[shape], 2)
    sources = [n for n in range(results, shape) if operands[n].startswith("R")]
    if kind.name == "TXD":
        return coordinates if at == sources[0] else 2 * coordinates
    if kind.has("SCR") and len(sources) > 1:
        total = coordinates + any(one in kind.modifiers for one in ("LL", "LB", "LC"))
        return (total + 1) // 2 if at == sources[0] else max(total // 2, 1)
    return coordinates if at == sources[0] else 1


_OF_64_BITS = frozenset({
    "MOV", "UMOV", "IADD", "UIADD3", "IADD3", "VIADD", "SEL", "USEL", "ISETP", "UISETP", "R2UR", "UIADD", "LEA", "CREDUX",
})  # fmt: skip


def _of_conversion(name: str, modifiers: tuple[str, ...], place: int) -> int:
    """`F2F.F64.F32 R4, R2`: the result's type comes first; with only one type, the other is 32 bits wide."""
    types = [one for one in modifiers if re.fullmatch(r"(?:F|BF|U|S|TF|E)\d+\w*", one)]
    if len(types) >= 2:
        chosen = types[0] if place < 0 else types[1]
    elif types:
        default = {"F2I": ("S32", types[0]), "I2F": ("F32", types[0])}.get(name, (types[0], types[0]))
        if name == "I2F" and types[0].startswith("F"):
            default = (types[0], "S32")
        if name == "F2I" and types[0][0] in "US":
            default = (types[0], "F32")
        chosen = default[0] if place < 0 else default[1]
    else:
        return 1
    return 2 if chosen.endswith("64") else 1
