"""The operations and bytes of one instruction, from its text as nvdisasm prints it.

Counting follows Nsight Compute: an addition or a product is one operation, a fused multiply-add two; comparisons, conversions and
special functions are none. A matrix product of shape MxNxK is 2·M·N·K operations of one warp (half of that where it is sparse),
and a warpgroup's product is divided among its four warps, each of which executes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.device_code.operands import RegisterAccess, access
from warpsight.device_code.operation_classes import OperationClass, classify

#: Operations of a thread: type → operation → number.
_SCALAR = {
    "fp32": {"FADD": 1, "FMUL": 1, "FFMA": 2, "FADD2": 2, "FMUL2": 2, "FFMA2": 4, "FSWZADD": 1},
    "fp64": {"DADD": 1, "DMUL": 1, "DFMA": 2},
    "fp16": {"HADD2": 2, "HMUL2": 2, "HFMA2": 4},
}
_SCALAR_OF = {name: (kind, number) for kind, names in _SCALAR.items() for name, number in names.items()}
#: Matrix products: the type of their elements unless a modifier says otherwise.
_MATRIX = {
    "HMMA": "fp16", "IMMA": "int8", "BMMA": "int1", "DMMA": "fp64", "QMMA": "fp8", "HGMMA": "fp16", "IGMMA": "int8",
    "QGMMA": "fp8", "BGMMA": "int1",
}  # fmt: skip
#: Blackwell's, whose shape is in a descriptor.
_DESCRIBED = frozenset({"UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "OMMA"})
_WARPGROUP = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})
_TYPES = {"BF16": "bf16", "TF32": "tf32", "BF16_V2": "bf16", "U4": "int4", "S4": "int4"}
_SEPARATED = re.compile(r"(\d+)x(\d+)x(\d+)")
_PACKED = re.compile(r"(16|8)(8)(4|8|16|32|64|128|256)")
_WARPS_OF_WARPGROUP = 4
_UNIFORM = frozenset({"ULDC", "LDCU"})
_REGISTER_BYTES = 4


@dataclass(frozen=True)
class InstructionWork:
    """The work of each execution of an instruction.

    Attributes:
        operation: name without modifiers; kind: the unit that executes it.
        type: type of its arithmetic: fp32, bf16, int8, …; "" for none.
        per_thread, per_warp: operations; matrix products have the second.
        unknown: whether it computes or moves more than its text says: a shape or a size in a descriptor.
        bytes: bytes that each thread (or the warp, if it is uniform) moves to or from `kind.space`.
        uniform: whether the warp moves them once, to registers that its threads share.
    """

    operation: str
    kind: OperationClass
    type: str = ""
    per_thread: int = 0
    per_warp: float = 0
    unknown: bool = False
    bytes: int = 0
    uniform: bool = False

    @property
    def matrix(self) -> bool:
        """Whether the matrix units execute it."""
        return self.per_warp > 0


def work_of(text: str) -> InstructionWork:
    """The work of one instruction."""
    known = access(text)
    kind = classify(known)
    if kind.pipe == "memory":
        return _moved(known, kind)
    if known.operation in _MATRIX:
        size = _product(known)
        return InstructionWork(known.operation, kind, _matrix_type(known), per_warp=size, unknown=not size)
    name, number = _SCALAR_OF.get(known.operation, ("", 0))
    if not number or _moves_only(known):
        return InstructionWork(known.operation, kind, unknown=known.operation in _DESCRIBED)
    return InstructionWork(
        known.operation, kind, _TYPES["BF16_V2"] if "BF16_V2" in known.modifiers else name, per_thread=number
    )


def _moves_only(known: RegisterAccess) -> bool:
    """Whether half-precision arithmetic only converts (`HADD2.F32`), or loads a constant (`HFMA2 R1, -RZ, RZ, 1, 0`)."""
    if not known.operation.startswith("H"):
        return False
    sources = [operand.lstrip("-|").split(".")[0] for operand in known.operands[known.results :]]
    return "F32" in known.modifiers or (known.operation == "HFMA2" and sources[:2] == ["RZ", "RZ"])


def _matrix_type(known: RegisterAccess) -> str:
    if known.operation == "HMMA" or known.operation == "HGMMA":
        return next((_TYPES[one] for one in known.modifiers if one in ("BF16", "TF32")), "fp16")
    return next((_TYPES[one] for one in known.modifiers if one in ("U4", "S4")), _MATRIX[known.operation])


def _product(known: RegisterAccess) -> float:
    """Operations of one warp; 0 if the instruction's text has no shape."""
    for modifier in known.modifiers:
        shape = _SEPARATED.fullmatch(modifier) or _PACKED.fullmatch(modifier)
        if shape:
            rows, columns, depth = map(int, shape.groups())
            sparse = 2 if "SP" in known.modifiers else 1
            warps = _WARPS_OF_WARPGROUP if known.operation in _WARPGROUP else 1
            return 2 * rows * columns * depth / sparse / warps
    return 0


def _moved(known: RegisterAccess, kind: OperationClass) -> InstructionWork:
    if known.operation in ("LDSM", "STSM"):
        registers = next((int(one) for one in reversed(known.modifiers) if one in ("1", "2", "4")), 1)
        return InstructionWork(known.operation, kind, bytes=registers * _REGISTER_BYTES)
    described = known.operation.startswith(("UTM", "UBLK", "UTC", "LDT", "STT"))
    moves = kind.load or kind.store or kind.atomic
    size = kind.bits // 8 if moves and not described else 0
    return InstructionWork(
        known.operation, kind, unknown=described, bytes=size, uniform=known.operation in _UNIFORM
    )
