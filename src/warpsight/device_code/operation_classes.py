"""The unit that executes an instruction, the memory it touches, and the latency of its result.

Instructions of a fixed time are spaced by the compiler through stall counts; the others release a scoreboard barrier when they
are done (:mod:`warpsight.device_code.scheduling`). The classes are those that stall reasons refer to: memory by space, the
pipes of arithmetic, synchronization by kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.device_code.operands import RegisterAccess

_SPACES = {
    "LDG": "global", "STG": "global", "ATOMG": "global", "REDG": "global", "RED": "global", "LD": "generic", "ST": "generic",
    "ATOM": "generic", "LDS": "shared", "STS": "shared", "ATOMS": "shared", "LDSM": "shared", "STSM": "shared", "LDL": "local",
    "STL": "local", "LDC": "constant", "LDCU": "constant", "ULDC": "constant", "LDGSTS": "global to shared",
    "STAS": "cluster shared",
    "REDAS": "cluster shared", "TEX": "texture", "TLD": "texture", "TLD4": "texture", "TXD": "texture", "TXQ": "texture",
    "TMML": "texture", "SULD": "surface", "SUST": "surface", "SURED": "surface", "LDTM": "tensor memory", "STTM": "tensor memory",
    "UTMALDG": "global to shared", "UBLKCP": "bulk", "UTMASTG": "shared to global", "UTMAREDG": "shared to global",
    "UBLKRED": "bulk", "UTCCP": "tensor memory", "SYNCS": "shared", "CCTL": "global", "ATOMGRED": "global",
}  # fmt: skip
_STORES = frozenset({"ST", "STG", "STS", "STL", "STSM", "STAS", "SUST", "STTM", "UTMASTG"})
_ATOMICS = frozenset(
    {"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS", "SURED", "UTMAREDG", "UBLKRED", "ATOMGRED"}
)
_SYNCHRONIZATION = {
    "BAR": "barrier", "SYNCS": "mbarrier", "WARPGROUP": "warpgroup", "DEPBAR": "scoreboard", "LDGDEPBAR": "scoreboard",
    "MEMBAR": "fence", "FENCE": "fence", "ERRBAR": "fence", "CGAERRBAR": "fence", "UTMAFENCE": "fence", "WARPSYNC": "warp",
    "BSYNC": "reconvergence", "BSSY": "reconvergence", "BREAK": "reconvergence", "NANOSLEEP": "sleep", "UCGABAR_WAIT": "cluster",
    "UCGABAR_ARV": "cluster", "ACQBULK": "earlier grid", "PREEXIT": "earlier grid", "UTMACMDFLUSH": "tma commit",
    "UTCBAR": "mbarrier", "B2R": "barrier",
}  # fmt: skip
_FLOW = frozenset(
    {"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "CALL", "RET", "EXIT", "YIELD", "KILL", "BPT", "RTT"}
)
_PIPES = {
    "tensor": ("HMMA", "IMMA", "BMMA", "QMMA", "OMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA", "UTCIMMA",
               "UTCQMMA", "UTCOMMA"),
    "fp64": ("DADD", "DMUL", "DFMA", "DMNMX", "DSETP"),
    "fma": ("FADD", "FMUL", "FFMA", "IMAD", "FSWZADD", "FADD2", "FMUL2", "FFMA2", "IDP"),
    "half": ("HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2"),
    "transcendental": ("MUFU", "F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV", "FCHK", "I2I"),
    "uniform": ("S2UR", "R2UR", "REDUX", "CREDUX", "VOTEU", "CS2UR"),
}  # fmt: skip
_PIPE_OF = {name: pipe for pipe, names in _PIPES.items() for name in names}
_EXCHANGES = frozenset({"SHFL", "MATCH", "S2R", "B2R", "VOTE"})


@dataclass(frozen=True, slots=True)
class OperationClass:
    """Classification of an instruction.

    Attributes:
        pipe: `alu`, `fma`, `half`, `fp64`, `transcendental`, `tensor`, `uniform`, `memory`, `exchange`, `control`.
        space: the memory it accesses: `global`, `shared`, `local`, …; empty for other instructions.
        load, store, atomic: what it does there.
        synchronizes: `barrier`, `mbarrier`, `warpgroup`, `scoreboard`, `fence`, …; empty for other instructions.
        bits: size of an access, per thread; 0 for other instructions.
    """

    pipe: str
    space: str = ""
    load: bool = False
    store: bool = False
    atomic: bool = False
    synchronizes: str = ""
    bits: int = 0


def classify(known: RegisterAccess) -> OperationClass:
    """The class of a decoded instruction."""
    name = known.operation
    synchronizes = _SYNCHRONIZATION.get(name, "")
    space = _SPACES.get(name, "")
    if space:
        atomic, store = name in _ATOMICS, name in _STORES
        load = not (store or synchronizes or name in ("RED", "REDG", "CCTL"))
        return OperationClass("memory", space, load, store, atomic, synchronizes, _bits(known))
    if synchronizes or name in _FLOW:
        return OperationClass("control", synchronizes=synchronizes)
    if name in _EXCHANGES:
        return OperationClass("exchange")
    pipe = _PIPE_OF.get(name) or ("uniform" if name.startswith("U") else "alu")
    return OperationClass(pipe)


def _bits(known: RegisterAccess) -> int:
    for modifier in known.modifiers:
        if modifier in ("8", "16", "32", "64", "128", "256"):
            return int(modifier)
        if modifier in ("U8", "S8", "U16", "S16"):
            return int(modifier[1:])
        if modifier in ("F64", "F64x2"):
            return 64
    return 32
