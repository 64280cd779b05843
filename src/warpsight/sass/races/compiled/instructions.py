"""Instructions of PTX that access memory or order accesses, as race detection needs to know them.

The facts are the words of native/sanitizer/race_layout.h; without PTX, code_facts.cpp reads the same from machine code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

READS, WRITES = 1, 2
BLOCK, DEVICE = 1, 2
SCOPE, ATOMIC, RELEASES, ACQUIRES, PROXY_FENCE, COPIES = 11, 13, 14, 16, 18, 19
#: Classes of the Sanitizer (formats/events/kinds.py).
ARRIVE, PASS, WARP, COMMIT, WAIT, ALL_COPIED = 6, 29, 33, 15, 16, 34
_SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared", "const": "", "param": "", "local": "",
           "param::entry": "", "param::func": ""}  # fmt: skip
_BITS = re.compile(r"[busf](\d+)|bf(16)|[a-z]+\d+x2")
_NARROW = {"f16x2": 4, "bf16x2": 4, "pred": 1}
#: Instructions with an address that race detection leaves out: textures and surfaces, hints, and kernels' parameters.
_IGNORED = (
    "tex", "tld4", "txq", "suld", "sust", "sured", "suq", "prefetch", "prefetchu", "discard", "applypriority", "createpolicy",
    "isspacep", "istypep",
)  # fmt: skip
#: What is not followed here: clusters, mbarriers, asynchronous proxies, and what takes registers from calls.
_UNKNOWN = (
    "mbarrier.", "cp.async.bulk", "cp.async.mbarrier", "cp.reduce", "barrier.cluster", "mapa", "wgmma.", "tcgen05.", "st.async",
    "st.bulk", "red.async", "multimem.", "wmma.load", "wmma.store", "setmaxnreg", "clusterlaunchcontrol", "tensormap.",
)  # fmt: skip


class UnsuitableModuleError(ValueError):
    """A module that is left to the Sanitizer's patches: the text says why, such as an instruction that is not known here."""


class NoKernelsError(UnsuitableModuleError):
    """A module without kernels to check."""


@dataclass(frozen=True)
class PtxAccess:
    """A load, a store, an atomic or a copy.

    Attributes:
        space: `global`, `shared`, `generic`, `matrices` (rows in shared memory) or `copy` (cp.async).
        size: bytes of a lane; flags: READS and WRITES; facts: without the number of the site.
        address: operand, as in `%rd1+4`; source: of a copy, in global memory; count: matrices.
        after: facts of a fence behind it.
    """

    space: str
    size: int
    flags: int
    facts: int
    address: str
    source: str = ""
    count: int = 0
    after: int = 0


@dataclass(frozen=True)
class Order:
    """A barrier, or the commit or wait of copies: calls before and behind it, as (class, first operand, second)."""

    before: tuple[tuple[int, str, str], ...] = ()
    behind: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True)
class Fence:
    """A fence, with its facts."""

    facts: int


@dataclass(frozen=True)
class Arrival:
    """An arrival at a named barrier that does not wait; `number` is an operand."""

    number: str


def meaning(operation: str, arguments: str) -> PtxAccess | Order | Fence | Arrival | None:
    """What an instruction does to memory; None for nothing that matters here.

    Raises:
        UnsuitableModuleError: when that is not known.
    """
    words = operation.split(".")
    if operation.startswith(_UNKNOWN):
        raise UnsuitableModuleError(f"instruction {operation}")
    if words[0] in ("bar", "barrier"):
        return _barrier(words, arguments)
    if words[0] in ("membar", "fence"):
        return _fence(words)
    if operation.startswith("cp.async."):
        return _copy(words, arguments)
    if words[0] in ("ld", "ldu", "st", "atom", "red"):
        return _access(operation, words, arguments)
    if words[0] in ("ldmatrix", "stmatrix"):
        count = next((int(word[1:]) for word in words if word in ("x1", "x2", "x4")), 1)
        flags = READS if words[0] == "ldmatrix" else WRITES
        return PtxAccess("matrices", 16, flags, 0, _address(arguments), count=count)
    if "[" in arguments and words[0] not in (*_IGNORED, "call"):
        raise UnsuitableModuleError(f"instruction {operation}")
    return None


def _barrier(words: list[str], arguments: str) -> Order | Arrival:
    if "warp" in words:
        return Order(behind=((WARP, "0", "0"),))
    operands = [operand.strip() for operand in arguments.split(",")]
    if "arrive" in words:
        return Arrival(operands[0])
    if "red" in words:
        operands = operands[1:-1]
    number, threads = operands[0], operands[1] if len(operands) > 1 else "0"
    return Order(((ARRIVE, number, threads),), ((PASS, number, threads),))


def _fence(words: list[str]) -> Fence | None:
    if "proxy" in words:
        return Fence(1 << PROXY_FENCE) if "async" in words or any("async" in word for word in words) else None
    if "mbarrier_init" in words:
        return None
    scope = BLOCK if "cta" in words else DEVICE
    releases = scope << RELEASES if "acquire" not in words else 0
    acquires = scope << ACQUIRES if "release" not in words else 0
    return Fence(releases | acquires)


def _copy(words: list[str], arguments: str) -> PtxAccess | Order:
    if "commit_group" in words:
        return Order(behind=((COMMIT, "0", "0"),))
    if "wait_group" in words:
        return Order(behind=((WAIT, arguments.strip(), "0"),))
    if "wait_all" in words:
        return Order(behind=((ALL_COPIED, "0", "0"),))
    found = re.fullmatch(r"\[([^\]]+)\],\s*\[([^\]]+)\],\s*(\d+|0x[0-9a-fA-F]+)\b.*", arguments)
    if found is None:
        raise UnsuitableModuleError(f"instruction {'.'.join(words)}")
    return PtxAccess("copy", int(found[3], 0), WRITES, 1 << COPIES, found[1].strip(), found[2].strip())


def _access(operation: str, words: list[str], arguments: str) -> PtxAccess | None:
    if any(word in ("shared::cluster", "cluster") for word in words) and "shared::cluster" in operation:
        raise UnsuitableModuleError(f"instruction {operation}")
    space = next((_SPACES[word] for word in _spaces(operation)), "generic")
    if not space:
        return None
    atomic = words[0] in ("atom", "red")
    flags = READS | WRITES if atomic else WRITES if words[0] == "st" else READS
    facts = _scope(words, atomic, space) << SCOPE | atomic << ATOMIC
    after = 0
    wide = _widest(words)
    if any(word in ("release", "acq_rel") for word in words):
        facts |= wide << RELEASES
    if any(word in ("acquire", "acq_rel") for word in words):
        after = wide << ACQUIRES
    return PtxAccess(space, _size(operation, words), flags, facts, _address(arguments), after=after)


def _spaces(operation: str) -> list[str]:
    return [
        word
        for word in re.findall(r"[a-z_0-9]+(?:::[a-z]+)?", operation.partition(".")[2])
        if word in _SPACES
    ]


def _widest(words: list[str]) -> int:
    return BLOCK if "cta" in words else DEVICE


def _scope(words: list[str], atomic: bool, space: str) -> int:
    """Of a strong access, 0 for others; loads and stores in shared memory are never strong."""
    if atomic:
        return BLOCK if space == "shared" else _widest(words)
    if space == "shared" or not {"volatile", "relaxed", "acquire", "release", "mmio"} & set(words):
        return 0
    return _widest(words)


def _size(operation: str, words: list[str]) -> int:
    kind = words[-1]
    vector = next((int(word[1:]) for word in words if word in ("v2", "v4", "v8")), 1)
    if kind in _NARROW:
        return _NARROW[kind] * vector
    bits = _BITS.fullmatch(kind)
    if bits is None or not (bits[1] or bits[2]):
        raise UnsuitableModuleError(f"instruction {operation}")
    return int(bits[1] or bits[2]) // 8 * vector


def _address(arguments: str) -> str:
    found = re.search(r"\[([^\]]+)\]", arguments)
    if found is None:
        raise UnsuitableModuleError(f"operand {arguments}")
    return found[1].strip()
