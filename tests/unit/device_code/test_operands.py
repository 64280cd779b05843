"""Registers that instructions read and write, by their text."""

from __future__ import annotations

import pytest

from warpsight.device_code.operands import access
from warpsight.device_code.registers import names


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("IADD3 R4, P0, R2, R3.reuse, RZ", "R4 P0", "R2 R3"),
        ("IADD3.X R5, R6, R7, RZ, P0, !PT", "R5", "R6 R7 P0"),
        ("@!P2 LOP3.LUT P1, R0, R3, 0x1, RZ, 0xc0, !PT", "R0 P1", "R3 P2"),
        ("LDG.E.128 R8, desc[UR4][R2.64+0x10]", "R8 R9 R10 R11", "R2 R3 UR4 UR5"),
        ("STG.E.64 desc[UR4][R2.64], R6", "", "R2 R3 R6 R7 UR4 UR5"),
        ("ISETP.GE.AND P0, PT, R2, UR4, PT", "P0", "R2 UR4"),
        ("IMAD.WIDE R2, R7, 0x4, R4", "R2 R3", "R4 R5 R7"),
        ("DFMA R6, R8, -R14, 1", "R6 R7", "R8 R9 R14 R15"),
        ("F2F.F64.F32 R2, R4", "R2 R3", "R4"),
        ("F2I.S64.F64.TRUNC R2, R4", "R2 R3", "R4 R5"),
        ("I2F.F64.U64 R6, R8", "R6 R7", "R8 R9"),
        ("HMMA.16816.F32 R4, R8, R12, R4", "R4 R5 R6 R7", "R4 R5 R6 R7 R8 R9 R10 R11 R12 R13"),
        ("HMMA.16816.F16 R4, R8, R12, R6", "R4 R5", "R6 R7 R8 R9 R10 R11 R12 R13"),
        ("SHFL.DOWN P0, R0, R5, 0x2, 0x1f", "R0 P0", "R5"),
        ("VOTE.ANY R13, PT, P0", "R13", "P0"),
        ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P0", "P1 P2"),
        ("ATOMG.E.CAS.64.STRONG.GPU PT, R4, [R18], R4, R6", "R4 R5", "R4 R5 R6 R7 R18 R19"),
        ("HGMMA.64x8x16.F32 R32, gdesc[UR4], R32", "R32 R33 R34 R35", "R32 R33 R34 R35 UR4 UR5 UR6 UR7"),
        ("UTMALDG.2D [UR8], [UR14]", "", "UR8 UR9 UR10 UR11 UR14 UR15"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R0", "P0", "R0 UR5"),
        ("S2R R0, SR_TID.X", "R0", ""),
        ("CS2R R12, SRZ", "R12 R13", ""),
        ("R2P PR, R0, 0x7f", "P0 P1 P2 P3 P4 P5 P6", "R0"),
        ("P2R R0, PR, RZ, 0x3", "R0", "P0 P1"),
        ("R2P PR, R0, 0x6", "P1 P2", "R0"),
        (
            "HGMMA.64x16x16.F32 R88, gdesc[UR4].tnspB, R88",
            "R88 R89 R90 R91 R92 R93 R94 R95",
            "R88 R89 R90 R91 R92 R93 R94 R95 UR4 UR5 UR6 UR7",
        ),
        (
            "UTCHMMA gdesc[UR8], gdesc[UR6], tmem[UR4], tmem[UR2], idesc[UR3], UPT",
            "",
            "UR2 UR3 UR4 UR6 UR7 UR8 UR9",
        ),
        ("FADD2 R8, R8.F32x2.HI_LO, -R10.F32", "R8 R9", "R8 R9 R10"),
        ("TEX.LL R25, R28, R40, R4, UR4, 0x0, 2D, 0x7", "R25 R28 R29", "R4 R40 R41 UR4 UR5"),
        ("TEX RZ, R4, R8, UR4, CUBE, 0x3", "R4 R5", "R8 R9 R10 UR4 UR5"),
        ("TEX.SCR.LL R6, R4, R4, R6, 0x0, 0x58, 3D", "R4 R5 R6 R7", "R4 R5 R6 R7"),
        ("TLD4.SCR.B R6, R4, R0, R5, 0x0, 0x58, 2D", "R4 R5 R6 R7", "R0 R5"),
        ("TLD.LZ RZ, R5, R0, UR4, 1D, 0x1", "R5", "R0 UR4 UR5"),
        ("TXD RZ, R5, R4, R8, UR4, 2D, 0x1", "R5", "R4 R5 R8 R9 R10 R11 UR4 UR5"),
        ("SULD.D.BA.3D.64.STRONG.SM.TRAP R4, [R8], UR6", "R4 R5", "R8 R9 R10 UR6"),
        ("SUST.D.BA.2D_ARRAY.U8.STRONG.SM.TRAP [R12], R4, UR6", "", "R4 R12 R13 R14 UR6"),
        ("BSSY B1, 0x270", "B1", ""),
        ("@P0 BRA P2, 0x260", "", "P0 P2"),
        ("NOP", "", ""),
    ],
)
def test_registers_of(text: str, writes: str, reads: str) -> None:
    found = access(text)
    assert (set(names(found.writes)), set(names(found.reads))) == (set(writes.split()), set(reads.split()))


def test_a_switched_off_instruction_has_no_guard_register() -> None:
    found = access("@!PT LDS RZ, [RZ]")
    assert found.negated and not found.guard and not found.reads and not found.writes


@pytest.mark.parametrize(
    "text", ["", ";", "@P0", "????", "LDG", "IADD3 R999, R1", "LDG R0, [", "@!P9 MOV R1, R2"]
)
def test_text_that_makes_no_sense_is_read_without_an_error(text: str) -> None:
    access(text)
