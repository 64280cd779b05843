"""Names of instructions without a disassembler: the operation of each, for Volta to Blackwell.

The lower nine bits of an instruction are its operation, the next three the form of its operands. The table was taken from
nvdisasm's output for compiled code of sm_80, sm_90 and sm_100; other instructions have no name here.
"""

from __future__ import annotations

_NAMES: dict[int, str] = {
    0x002: "MOV", 0x003: "P2R", 0x005: "CS2R", 0x007: "SEL", 0x008: "FSEL", 0x00B: "FSETP", 0x00C: "ISETP",
    0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x016: "PRMT", 0x017: "IMNMX", 0x019: "SHF", 0x01B: "BMSK",
    0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD", 0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD", 0x029: "DADD",
    0x02A: "DSETP", 0x030: "HADD2", 0x031: "HFMA2", 0x035: "HFMA2", 0x036: "VIADD", 0x03E: "F2FP", 0x045: "I2FP", 0x082: "UMOV",
    0x086: "VOTEU", 0x087: "USEL", 0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3", 0x096: "UPRMT",
    0x099: "USHF", 0x09B: "UBMSK", 0x0A4: "UIMAD", 0x0A5: "UIMAD", 0x0B9: "ULDC", 0x0BD: "UFLO", 0x0CA: "R2UR",
    0x100: "FLO", 0x104: "F2F", 0x105: "F2I", 0x106: "I2F", 0x110: "F2F", 0x111: "F2I", 0x112: "I2F", 0x118: "NOP",
    0x119: "S2R", 0x11A: "DEPBAR", 0x11B: "ENDCOLLECTIVE", 0x11C: "B2R", 0x11D: "BAR", 0x141: "BSYNC",
    0x142: "BREAK", 0x143: "CALL", 0x144: "CALL", 0x145: "BSSY", 0x146: "YIELD", 0x147: "BRA", 0x148: "WARPSYNC",
    0x14A: "JMP", 0x14D: "EXIT", 0x14E: "LEPC", 0x150: "RET", 0x155: "BMOV", 0x156: "BMOV", 0x15C: "BPT",
    0x15D: "NANOSLEEP", 0x180: "LD", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x185: "ST",
    0x186: "STG", 0x187: "STL", 0x188: "STS", 0x189: "SHFL", 0x18A: "ATOM", 0x18B: "ATOM", 0x18C: "ATOMS", 0x18D: "ATOMS",
    0x18E: "REDG", 0x1A2: "ATOM", 0x1A3: "ATOMG", 0x1A6: "REDG",
    0x18F: "CCTL", 0x192: "MEMBAR", 0x199: "SULD", 0x19D: "SUST", 0x1A7: "SYNCS", 0x1A8: "ATOMG", 0x1A9: "ATOMG",
    0x1AC: "LDCU", 0x1B2: "SYNCS", 0x1C3: "S2UR", 0x1C4: "REDUX",
    0x006: "VOTE", 0x009: "FMNMX", 0x023: "FFMA", 0x02B: "DFMA", 0x02D: "PREEXIT", 0x02E: "ACQBULK", 0x02F: "ELECT",
    0x037: "IMMA", 0x03B: "LDSM", 0x03C: "HMMA", 0x03F: "DMMA", 0x044: "STSM", 0x101: "BREV", 0x108: "MUFU",
    0x109: "POPC", 0x160: "TEX", 0x1A1: "MATCH", 0x1AA: "QSPC", 0x1AE: "LDGSTS", 0x1AF: "LDGDEPBAR", 0x1B4: "UTMALDG",
    0x1B5: "UTMASTG", 0x1B6: "UTMAREDG", 0x1B7: "UTMACMDFLUSH", 0x1B8: "UTMAPF", 0x1B9: "UTMACCTL", 0x1BA: "UBLKCP",
    0x1BB: "UBLKRED", 0x1BE: "REDAS", 0x1C5: "WARPGROUP", 0x1C6: "FENCE", 0x1E3: "UTCATOMSWS", 0x1E7: "UTCCP",
    0x1E9: "UTCBAR", 0x1ED: "STTM", 0x1EE: "LDTM", 0x1F0: "HGMMA", 0x1F1: "IGMMA", 0x1F3: "QGMMA",
}  # fmt: skip
#: Where the form is needed to distinguish two operations.
_FORMS: dict[int, str] = {0x5AB: "CGAERRBAR", 0x9AB: "ERRBAR", 0x9C7: "UCGABAR_ARV", 0xDC7: "UCGABAR_WAIT"}
_MEANINGS: dict[str, str] = {
    "LD": "load from memory", "LDG": "load from global memory", "LDS": "load from shared memory",
    "LDL": "load from local memory", "LDC": "load of a constant", "ST": "store to memory",
    "STG": "store to global memory", "STS": "store to shared memory", "STL": "store to local memory",
    "ATOM": "atomic on memory", "ATOMG": "atomic on global memory", "ATOMS": "atomic on shared memory",
    "REDG": "reduction on global memory", "BAR": "barrier of the block", "WARPSYNC": "barrier of the warp",
    "BSYNC": "reconvergence", "SYNCS": "mbarrier", "UCGABAR_WAIT": "barrier of the cluster", "BPT": "trap",
    "NANOSLEEP": "sleep", "CALL": "call", "BRA": "branch", "SHFL": "shuffle", "MEMBAR": "memory fence",
    "ISETP": "comparison", "EXIT": "exit", "HGMMA": "matrix product of the warpgroup", "IGMMA": "matrix product of the warpgroup",
    "QGMMA": "matrix product of the warpgroup", "WARPGROUP": "order of, or wait for, matrix products of the warpgroup",
    "UTMALDG": "TMA load of a tile", "UTMASTG": "TMA store of a tile", "UTMAREDG": "TMA reduction of a tile",
    "UBLKCP": "bulk copy", "UBLKRED": "bulk reduction", "LDGSTS": "copy from global to shared memory",
    "ACQBULK": "wait for the grid before", "UTCBAR": "arrival of tensor-core work at an mbarrier",
    "LDTM": "load from tensor memory", "STTM": "store to tensor memory",
}  # fmt: skip


def operation(code: bytes) -> str | None:
    """The operation of a 16-byte instruction, such as `LDG`, or None."""
    if len(code) < 2:
        return None
    low = int.from_bytes(code[:2], "little")
    return _FORMS.get(low & 0xFFF) or _NAMES.get(low & 0x1FF)


def meaning(name: str) -> str:
    """The purpose of an operation in words; empty if its name says it."""
    return _MEANINGS.get(name, "")
