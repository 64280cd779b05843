"""What instructions are, by their text, and how long their results take."""

from __future__ import annotations

from typing import Any, cast

import pytest

from warpsight.device_code import latencies
from warpsight.device_code.decoded import Decoded
from warpsight.device_code.operands import access
from warpsight.device_code.operation_classes import OperationClass, classify
from warpsight.device_code.registers import register


def decoded(text: str) -> Decoded:
    known = access(text)
    return Decoded(0, text, known, cast(Any, None), classify(known))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LDG.E.128 R4, [R2]", OperationClass("memory", "global", load=True, bits=128)),
        ("STG.E.U8 [R2], R4", OperationClass("memory", "global", store=True, bits=8)),
        ("LDS.S16 R4, [R2]", OperationClass("memory", "shared", load=True, bits=16)),
        ("ATOMG.E.ADD.F64 R4, [R2], R6", OperationClass("memory", "global", load=True, atomic=True, bits=64)),
        ("REDG.E.ADD [R2], R6", OperationClass("memory", "global", atomic=True, bits=32)),
        ("LDL R4, [R1]", OperationClass("memory", "local", load=True, bits=32)),
        ("SYNCS.ARRIVE R4, [R2]", OperationClass("memory", "shared", synchronizes="mbarrier", bits=32)),
        ("UTMASTG.2D [UR4], [UR8]", OperationClass("memory", "shared to global", store=True, bits=32)),
        ("BAR.SYNC 0x0", OperationClass("control", synchronizes="barrier")),
        ("EXIT", OperationClass("control")),
        ("SHFL.DOWN R4, R2, 0x1, 0x1f", OperationClass("exchange")),
        ("FFMA R4, R2, R3, R5", OperationClass("fma")),
        ("HMMA.16816.F32 R4, R8, R12, R4", OperationClass("tensor")),
        ("DADD R4, R2, R6", OperationClass("fp64")),
        ("UIADD3 UR4, UR4, 0x1, URZ", OperationClass("uniform")),
        ("R2UR UR4, R2", OperationClass("uniform")),
        ("IADD3 R4, R2, R3, RZ", OperationClass("alu")),
    ],
)
def test_classes(text: str, expected: OperationClass) -> None:
    assert decoded(text).kind == expected


@pytest.mark.parametrize(
    ("producer", "consumer", "registers", "cycles"),
    [
        ("IADD3 R4, R2, R3, RZ", "LOP3 R5, R4, R3, RZ", ("R", 4), 4),
        ("IADD3 R4, R2, R3, RZ", "FADD R5, R4, R3", ("R", 4), 5),
        ("IADD3 R4, R2, R3, RZ", "DADD R6, R4, R8", ("R", 4), 6),
        ("FFMA R4, R2, R3, R5", "FADD R5, R4, R3", ("R", 4), 4),
        ("DADD R4, R2, R6", "DMUL R8, R4, R6", ("R", 4), 8),
        ("DADD R4, R2, R6", "IADD3 R8, R4, R6, RZ", ("R", 4), 10),
        ("HADD2 R4, R2, R6", "HMUL2 R8, R4, R6", ("R", 4), 5),
        ("HADD2 R4, R2, R6", "IADD3 R8, R4, R6, RZ", ("R", 4), 10),
        ("UIADD3 UR4, UR5, 0x1, URZ", "UIADD3 UR6, UR4, 0x1, URZ", ("UR", 4), 6),
        ("UIADD3 UR4, UR5, 0x1, URZ", "IADD3 R6, R2, UR4, RZ", ("UR", 4), 12),
        ("ULDC UR4, c[0x0][0x28]", "IADD3 R6, R2, UR4, RZ", ("UR", 4), 12),
        ("HMMA.16816.F32 R4, R8, R12, R4", "FADD R5, R4, R3", ("R", 4), 35),
        ("ISETP.NE.AND P0, PT, R2, RZ, PT", "SEL R4, R2, R3, P0", ("P", 0), 4),
        ("ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 IADD3 R4, R2, R3, RZ", ("P", 0), 13),
        ("ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA 0x40", ("P", 0), 13),
    ],
)
def test_cycles_until_a_result_can_be_used(
    producer: str, consumer: str, registers: tuple[str, int], cycles: int
) -> None:
    assert latencies.fixed_latency(decoded(producer), decoded(consumer), register(*registers)) == cycles


def test_memory_takes_longer_the_farther_it_is_and_never_longer_than_its_bound() -> None:
    near_to_far = (
        "LDS R4, [R2]",
        "LDL R4, [R1]",
        "LDG R4, [R2]",
        "LDGSTS [R2], [R4]",
        "UBLKCP [UR4], [UR8], UR6",
    )
    usual = [latencies.usual_latency(decoded(text)) for text in near_to_far]
    assert usual == [30, 300, 500, 700, 1_000]
    others = ("MUFU.RCP R4, R2", "SHFL.IDX R4, R2, R3, 0x1f", "S2UR UR4, SR_CTAID.X", "LDC R4, c[0x0][R2]", "BAR.SYNC 0x0",
              "DFMA R4, R2, R6, R8", "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", "LDTM R4, tmem[UR4]")  # fmt: skip
    for text in (*near_to_far, *others):
        one = decoded(text)
        assert 2 <= latencies.longest_latency(one) / latencies.usual_latency(one) <= 35
        assert latencies.longest_latency(one) in (64, 96, 128, 512, 1024, 2048, 4096, 8192)
