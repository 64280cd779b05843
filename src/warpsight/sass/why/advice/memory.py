"""Advice on memory accesses: spills, coalescing, vector width, bank conflicts, asynchronous copies, atomics."""

from __future__ import annotations

from collections import defaultdict

from warpsight.device_code.decoded import Decoded
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.finding import Advice, KernelFacts
from warpsight.sass.why.blame import Blame

_WIDEST = 128
_AMPERE = 80
_SHARED_QUEUE = ("mio_throttle",)
#: Bits of a sector of global memory; lanes of a warp; the share of samples from which waits alone speak of conflicts.
_SECTOR, _LANES, _MUCH = 256, 32, 0.1


def spills(evidence: KernelFacts) -> list[Advice]:
    """Waits for local memory: spilled registers, or arrays with computed indices."""
    parts = evidence.matching(
        lambda part: (
            part.detail == "local memory"
            or (part.reason == "lg_throttle" and evidence.instruction(part.cause).kind.space == "local")
        )
    )
    why = (
        "Warps wait for local memory, which is global memory behind the cache; the kernel has "
        f"{evidence.code.registers} registers a thread. Arrays indexed at run time and spills both end there."
    )
    title = "Keep values in registers: raise the register limit, or index arrays by constants."
    return _one(evidence.ends("registers", title, why, parts))


def coalesce(evidence: KernelFacts) -> list[Advice]:
    """A full queue for global memory: each warp's access takes many transactions."""
    full = evidence.matching(
        lambda part: part.reason == "lg_throttle" and evidence.instruction(part.cause).kind.space != "local"
    )
    if not full:
        return []
    accesses = {part.cause for part in full}
    waits = evidence.matching(lambda part: part.reason == "long_scoreboard" and part.cause in accesses)
    bits = max(evidence.instruction(index).kind.bits for index in accesses) or 32
    stalls = _with_waits(evidence, full, waits) * max(1 - bits / _SECTOR, 0)
    why = (
        "The queue for global memory is full: accesses come faster than their transactions are done, as with strides between "
        f"lanes. The estimate is for lanes that now take a sector each: {_SECTOR // bits or 1} of them would share one."
    )
    title = "Let neighbouring lanes access neighbouring addresses."
    speedup = estimates.removed(evidence.total, stalls)
    return _one(evidence.advice("coalesce", title, why, [*full, *waits], speedup))


def _with_waits(evidence: KernelFacts, full: list[Blame], waits: list[Blame]) -> float:
    """The stalls of a full queue, and waits for what is in it as far as the queue is what they wait for."""
    queued, waited = sum(map(evidence.cost, full)), sum(map(evidence.cost, waits))
    return queued + waited * queued / (queued + waited) if queued else 0.0


def vectorize(evidence: KernelFacts) -> list[Advice]:
    """Several narrow accesses to consecutive addresses, by the same thread, that one wide access would do."""
    mergeable = _mergeable(evidence)
    parts = [
        part
        for part in evidence.matching(lambda part: part.cause in mergeable)
        if part.reason in ("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle")
    ]
    if not parts:
        return []
    stalls = sum(evidence.cost(part) * (1 - 1 / mergeable[part.cause]) for part in parts)
    issued = sum(
        row.samples * (1 - 1 / mergeable[row.index])
        for row in evidence.samples.rows
        if not row.stalled and row.index in mergeable
    )
    widest = max(mergeable[part.cause] for part in parts)
    why = (
        f"{len(mergeable)} accesses take neighbouring addresses one after the other; up to {widest} of them fit into one of "
        "128 bits."
    )
    # What is in flight together takes the time of one: only what a narrow access keeps busy is saved.
    throttled = sum(
        evidence.cost(part) * (1 - 1 / mergeable[part.cause]) for part in parts if "throttle" in part.reason
    )
    speedup = estimates.removed(evidence.total, min(stalls, throttled + issued))
    return _one(
        evidence.advice("vectorize", "Load and store vectors (float4, int4) instead of scalars.", why, parts, speedup)
    )  # fmt: skip


def bank_conflicts(evidence: KernelFacts) -> list[Advice]:
    """The shared-memory queue is full, or waits for shared memory last longer than a conflict-free access takes."""
    shared = evidence.matching(lambda part: evidence.instruction(part.cause).kind.space == "shared"
                               and part.detail != "mbarrier")  # fmt: skip
    full = [part for part in shared if part.reason in _SHARED_QUEUE]
    waits = [part for part in shared if part.reason == "short_scoreboard"]
    waited = sum(map(evidence.cost, waits))
    if not full and waited < _MUCH * evidence.total:
        return []
    why = (
        "The queue of the shared memory unit is full, as with lanes that hit one bank. The estimate is for all lanes in one."
        if full
        else "Warps wait for shared memory, which takes longer the more lanes hit one bank."
    )
    stalls = _with_waits(evidence, full, waits) * (1 - 1 / _LANES) if full else waited / 2
    title = "Avoid bank conflicts: pad or swizzle the shared array, or exchange through shuffles."
    speedup = estimates.removed(evidence.total, stalls)
    return _one(evidence.advice("bank-conflicts", title, why, [*full, *waits], speedup))


def async_copy(evidence: KernelFacts) -> list[Advice]:
    """Values loaded from global memory only to be stored to shared memory."""
    if evidence.code.architecture < _AMPERE:
        return []
    parts = evidence.matching(
        lambda part: (
            part.detail == "global memory"
            and evidence.instruction(part.stalled).operation == "STS"
            and evidence.instruction(part.cause).operation == "LDG"
        )
    )
    why = (
        "Warps wait for loads whose results go straight to shared memory; an asynchronous copy takes no registers and no "
        "wait here."
    )
    name = "TMA or cp.async" if evidence.code.architecture >= 90 else "cp.async"
    stalls = sum(map(evidence.cost, parts))
    speedup = estimates.hidden(evidence.total, stalls, float(evidence.samples.issued))
    return _one(
        evidence.advice("async-copy", f"Copy to shared memory asynchronously ({name}).", why, parts, speedup)
    )


def atomics(evidence: KernelFacts) -> list[Advice]:
    """Waits for atomics."""
    parts = evidence.matching(
        lambda part: (
            part.detail.startswith("atomic in")
            or (
                part.reason in ("lg_throttle", "mio_throttle")
                and evidence.instruction(part.cause).kind.atomic
            )
        )
    )
    why = "Atomics on one address are done one after the other."
    title = "Add up in registers, in the warp or in shared memory first, so that fewer atomics are left."
    return _one(evidence.ends("atomics", title, why, parts))


def constants(evidence: KernelFacts) -> list[Advice]:
    """Misses of the constant cache."""
    parts = evidence.matching(lambda part: part.reason == "imc_miss")
    why = "Constants missed the cache of the multiprocessor; indices that differ between lanes are served one by one."
    return _one(
        evidence.ends("constants", "Move tables that lanes index differently to shared memory.", why, parts)
    )


def _mergeable(evidence: KernelFacts) -> dict[int, int]:
    """Accesses that can be merged, and how many into one: of one block, base register and kind, with adjacent offsets."""
    groups: dict[tuple[object, ...], list[tuple[int, Decoded]]] = defaultdict(list)
    versions: dict[int, int] = defaultdict(int)
    for block in evidence.code.graph.blocks:
        for one in evidence.code.instructions[block.first : block.last + 1]:
            place = _place(one)
            if place is not None:
                base = tuple(versions[bit] for bit in _bits(one.access.addresses))
                groups[block.number, one.operation, one.access.modifiers, place[0], base].append(
                    (place[1], one)
                )
            for bit in _bits(one.access.writes):
                versions[bit] += 1
    found: dict[int, int] = {}
    for accesses in groups.values():
        size = accesses[0][1].kind.bits // 8
        for run in _runs(sorted(accesses, key=lambda item: item[0]), size):
            most = min(_largest_power(len(run)), _WIDEST // (size * 8))
            if most > 1:
                found.update({one.index: most for one in run})
    return found


def _bits(registers: int) -> list[int]:
    from warpsight.device_code.registers import bits

    return list(bits(registers))


def _place(one: Decoded) -> tuple[str, int] | None:
    """Base and offset of an access to global or shared memory of less than 128 bits."""
    if one.operation not in ("LDG", "STG", "LDS", "STS") or one.kind.bits >= _WIDEST or one.access.guard:
        return None
    operand = next((text for text in one.access.operands if "[" in text), "")
    inner = operand[operand.rindex("[") + 1 : -1] if operand.endswith("]") else ""
    base, _, offset = inner.partition("+0x")
    base, sign, negative = base.partition("+-0x") if not offset else (base, "", "")
    try:
        number = -int(negative, 16) if sign else int(offset, 16) if offset else 0
    except ValueError:
        return None
    return (base, number) if base else None


def _runs(accesses: list[tuple[int, Decoded]], size: int) -> list[list[Decoded]]:
    runs: list[list[Decoded]] = []
    last = None
    for offset, one in accesses:
        if last is not None and offset == last + size:
            runs[-1].append(one)
        elif offset != last:
            runs.append([one])
        last = offset
    return runs


def _largest_power(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number else 0


def _one(advice: Advice | None) -> list[Advice]:
    return [advice] if advice else []
