"""How long results take, in cycles.

Fixed times are the distances at which compilers space instructions: the smallest distance, in stall counts, that nvcc 13.0 leaves
between a producer and its reader in code for sm_80, sm_90 and sm_100 (the three agree except for matrix products). Variable times
are bounds that only contention exceeds. GPA has a similar table (V100: integer 4, IMAD 5, predicate 5, fp64 8, shared 19-80,
other memory 28-1024).
"""

from __future__ import annotations

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.registers import only

_SAME_PIPE, _OTHER_PIPE, _TO_FP64 = 4, 5, 6
_GUARD = 13
_OF_PIPE = {"fp64": 8, "half": 5, "uniform": 6, "tensor": 35, "transcendental": 8, "exchange": 12}
_FP64_ELSEWHERE = 10
_UNIFORM_TO_THREAD, _UNIFORM_LOAD = 12, 12
#: Usual times, and upper bounds, of what releases a scoreboard barrier, by memory or pipe.
_TYPICAL = {
    "global": 500, "generic": 500, "local": 300, "texture": 500, "surface": 500, "global to shared": 700, "bulk": 1000,
    "shared to global": 700, "shared": 30, "cluster shared": 200, "constant": 40, "tensor memory": 60, "transcendental": 20,
    "exchange": 25, "uniform": 25, "fp64": 16, "tensor": 35, "control": 30,
}  # fmt: skip
_BOUNDS = {
    "global": 2048, "generic": 2048, "local": 2048, "texture": 2048, "surface": 2048, "global to shared": 4096, "bulk": 8192,
    "shared to global": 4096, "shared": 512, "cluster shared": 1024, "constant": 512, "tensor memory": 512, "transcendental": 64,
    "exchange": 96, "uniform": 96, "fp64": 64, "tensor": 128, "control": 1024,
}  # fmt: skip


def fixed_latency(producer: Decoded, consumer: Decoded, registers: int) -> int:
    """Cycles from the issue of a producer of fixed time until a consumer may issue.

    Args:
        producer: the instruction that writes the registers.
        consumer: the one that reads them.
        registers: those it reads, as bits.
    """
    from_, to = producer.kind.pipe, consumer.kind.pipe
    if only(registers, "P") | only(registers, "UP"):
        carries = not consumer.access.guard & registers and to == "alu" and from_ == "alu"
        return _SAME_PIPE if carries else _GUARD
    if from_ == "memory":
        return _UNIFORM_LOAD
    if from_ == "fp64":
        return _OF_PIPE["fp64"] if to == "fp64" else _FP64_ELSEWHERE
    if from_ == "half":
        return _OF_PIPE["half"] if to == "half" else _FP64_ELSEWHERE
    if from_ == "uniform":
        return _OF_PIPE["uniform"] if to == "uniform" else _UNIFORM_TO_THREAD
    if from_ in _OF_PIPE:
        return _OF_PIPE[from_]
    if to == "fp64":
        return _TO_FP64
    return _SAME_PIPE if from_ == to else _OTHER_PIPE


def usual_latency(producer: Decoded) -> int:
    """The cycles that an instruction of variable time usually takes when nothing contends."""
    return _TYPICAL.get(producer.kind.space or producer.kind.pipe, _TYPICAL["control"])


def longest_latency(producer: Decoded) -> int:
    """An upper bound of the cycles until an instruction of variable time releases its scoreboard barrier."""
    return _BOUNDS.get(producer.kind.space or producer.kind.pipe, _BOUNDS["control"])
