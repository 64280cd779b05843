"""How many registers each operand of an instruction spans, as NVIDIA's disassembler and the PTX manual have it."""

from __future__ import annotations

import pytest

from warpsight.device_code.widths import GUARD, Opcode, registers

#: Operation, place (-1 the result, 0 the first source), operand, register file and suffix, registers.
SPANS = """
    # memory: the value as wide as the size says, the address by its own suffix
    LDG.E -1 R4 R 1; LDG.E.64 -1 R4 R 2; LDG.E.128 -1 R4 R 4; LDG.E.ENL2.256 -1 R4 R 8; LDS.U.96 -1 R4 R 3;
    STG.E.64 1 R4 R 2; LDG.E.128 0 [R2.64] R.64 2; LDG.E.128 0 [R2] R 2; LDG.128 0 [R2] R 1; LDS.128 0 [R2] R 1;
    LDG.E 0 [R2.U32+UR4] R.U32 1; LDG.E 0 [R2.U32+UR4] UR 2; LDG.E 0 desc[UR4][R2.64] UR 2;
    LDG.E 0 desc[UR4][R2.64] R.64 2; LDS.E 0 [R2] R 1; LDG.E 0 [UR4] UR 1; ATOMG.E.ADD.F64 1 R4 R 2;
    LDSM.16.M88.4 -1 R4 R 4; LDSM.16.M88.2 -1 R4 R 2; LDSM.16.M88 -1 R4 R 1; STSM.16.MT88.4 1 R4 R 4; LDSM -1 R4 R 1;
    # predicates and guards are single, whatever else is wide
    LDG.E.128 guard @P0 P 1; DSETP.GEU.AND -1 P0 P 1; DADD guard R4 R 1; BSSY -1 B0 B 1; USETP.64 -1 UP0 UP 1;
    # arithmetic
    FADD -1 R4 R 1; DFMA 2 R4 R 2; FFMA2 0 R4 R 2; MUFU.RCP64H -1 R4 R 1; IMAD.WIDE -1 R4 R 2; IMAD.WIDE 2 R4 R 2;
    IMAD.WIDE 0 R4 R 1; IMAD.WIDE.U32 1 R4 R 1; UIMAD.WIDE 2 UR4 UR 2; IMAD -1 R4 R 1; CS2R -1 R4 R 2;
    CS2R.32 -1 R4 R 1; CS2UR -1 UR4 UR 2; MOV.64 -1 R4 R 2; MOV -1 R4 R 1; IADD.64 1 R4 R 2; FADD.64 -1 R4 R 1;
    RET.REL.NODEC 0 R4 R 2; BRX 0 R4 R 2; LEPC -1 R4 R 2; FADD 0 R4.64 R.64 2;
    # conversions: the result's type stands first
    F2F.F64.F32 -1 R4 R 2; F2F.F64.F32 0 R2 R 1; F2F.F32.F64 -1 R4 R 1; F2F.F32.F64 0 R2 R 2; F2I.F64 -1 R4 R 1;
    F2I.F64 0 R2 R 2; F2I.U64 -1 R4 R 2; F2I.U64 0 R2 R 1; F2I.S64.F64 0 R2 R 2; I2F.F64 -1 R4 R 2; I2F.F64 0 R2 R 1;
    I2F.S64 0 R2 R 2; I2F.S64 -1 R4 R 1; I2F -1 R4 R 1; FRND.F64.FLOOR -1 R4 R 2; FRND.F64.FLOOR 0 R4 R 2;
    # products of one warp: A, B and C of m16n8k16 in halves are 4, 2 and 4 registers
    HMMA.16816.F32 -1 R4 R 4; HMMA.16816.F32 0 R4 R 4; HMMA.16816.F32 1 R4 R 2; HMMA.16816.F32 2 R4 R 4;
    HMMA.16816.F16 2 R4 R 2; HMMA.16816.F16 -1 R4 R 2; HMMA.1688.F32.TF32 0 R4 R 4; HMMA.1688.F32.TF32 1 R4 R 2;
    HMMA.1684.F32.TF32 0 R4 R 2; HMMA.1684.F32.TF32 1 R4 R 1; HMMA.SP.16816.F32 1 R4 R 4; HMMA.SP.16816.F32 0 R4 R 4;
    HMMA.16816.F32 3 R4 R 1; IMMA.16832.S8.S8 0 R4 R 4; IMMA.16816.S8.S8 1 R4 R 1; IMMA.8816.S8.S8 2 R4 R 2;
    DMMA.16x8x16 1 R4 R 8; DMMA.16x8x16 0 R4 R 16; QMMA.16832.F16.E4M3.E4M3 -1 R4 R 2;
    # products of four warps: 64 x n results over 128 lanes
    HGMMA.64x128x16.F32 -1 R4 R 64; HGMMA.64x128x16.F32 2 R4 R 64; HGMMA.64x128x16.F16 -1 R4 R 32;
    HGMMA.64x128x16.F32 0 R4 R 4; HGMMA -1 R4 R 1; IGMMA.64x8x32.S8.S8 -1 R4 R 4; QGMMA.64x16x32.F16 -1 R4 R 8;
    HGMMA.64x128x16.F32 0 gdesc[UR4] UR 4; HGMMA.64x128x16.F32 1 gdesc[UR4] UR 2;
    # tensor memory: lanes x bits over 32 lanes of 32 bits
    LDTM.16dp256bit.x4 -1 R4 R 16; LDTM.32dp32bit.x8 -1 R4 R 8; LDTM.x2 -1 R4 R 2; LDTM.16dp32bit.x1 -1 R4 R 1;
    LDTM.32dp32bit.x8.PACK16B -1 R4 R 4; LDTM -1 R4 R 1; STTM.32dp32bit.x8.UNPACK16B 1 R4 R 4;
    LDTM.32dp32bit.x1.PACK16B -1 R4 R 1;
    # copies by the tensor memory accelerator: descriptor, addresses and coordinates in uniform registers
    UTMALDG.3D 0 [UR8] UR 5; UTMASTG.2D 0 [UR8] UR 3; UTMAPF.L2.4D 0 [UR8] UR 4; UTMALDG 0 [UR8] UR 3;
    UTMALDG.3D 1 [UR4] UR 2; UTMACCTL.PF 0 [UR4] UR 2; UBLKCP.S.G 0 [UR4] UR 2; UBLKCP.S.G 1 [UR4] UR 2;
    UBLKCP.G.S 1 [UR4] UR 1; UBLKCP.G.S 0 [UR4] UR 2; UBLKPF 1 [UR4] UR 1
"""


def listed() -> list[tuple[str, int, str, str, str, int]]:
    out = []
    for text in "".join(line for line in SPANS.splitlines() if "#" not in line).split(";"):
        operation, place, operand, register, count = text.split()
        file, dot, suffix = register.partition(".")
        out.append(
            (operation, GUARD if place == "guard" else int(place), operand, file, dot + suffix, int(count))
        )
    return out


@pytest.mark.parametrize(("text", "place", "operand", "file", "suffix", "count"), listed())
def test_registers_of_an_operand(
    text: str, place: int, operand: str, file: str, suffix: str, count: int
) -> None:
    name, *modifiers = text.split(".")
    assert registers(Opcode(name, tuple(modifiers)), place, operand, file, suffix) == count


def test_the_widest_size_counts() -> None:
    assert [Opcode("LDG", one).wide for one in ((), ("E",), ("E", "64"), ("U64", "128"), ("96", "64"))] == [
        1,
        1,
        2,
        4,
        3,
    ]
