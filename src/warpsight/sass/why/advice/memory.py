"""Advice on memory accesses: spills, coalescing, vector width, bank conflicts, asynchronous copies, atomics."""

from __future__ import annotations

from collections import defaultdict

from warpsight.device_code.decoded import Decoded
from warpsight.sass.why.advice.finding import Advice, KernelFacts, listed
from warpsight.sass.why.advice.traffic import LIMIT, samples_in

_WIDEST = 128
_AMPERE = 80


def spills(evidence: KernelFacts) -> list[Advice]:
    """Waits for local memory: spilled registers, or arrays with computed indices."""
    local = [
        index for index in evidence.traffic.accesses if evidence.instruction(index).kind.space == "local"
    ]
    why = (
        "Warps wait for local memory, which is global memory behind the cache; the kernel has "
        f"{evidence.code.registers} registers a thread. Arrays indexed at run time and spills both end there."
    )
    title = "Keep values in registers: raise the register limit, or index arrays by constants."
    parts = evidence.traffic.stalls_of(local)
    return listed(evidence.advice("registers", title, why, parts, _without(evidence, local)))


def coalesce(evidence: KernelFacts) -> list[Advice]:
    """Accesses to global memory that take more sectors than their bytes need."""
    title = "Let neighbouring lanes access neighbouring addresses."
    unknown = "Lanes take more sectors of memory than their bytes fill: the queue is full, and the estimate is for a sector each."
    return _fewer_passes(evidence, "coalesce", title, ("global", "generic"), "sectors", unknown)


def bank_conflicts(evidence: KernelFacts) -> list[Advice]:
    """Accesses to shared memory that take more passes over the banks than they need."""
    title = "Avoid bank conflicts: pad or swizzle the shared array, or exchange through shuffles."
    unknown = (
        "Lanes conflict in banks of shared memory: the queue is full, and the estimate assumes that all lanes "
        "access one bank."
    )
    return _fewer_passes(evidence, "bank-conflicts", title, ("shared",), "passes over the banks", unknown)


def _fewer_passes(
    evidence: KernelFacts, name: str, title: str, spaces: tuple[str, ...], unit: str, unknown: str
) -> list[Advice]:
    wasteful = evidence.traffic.wasteful(spaces)
    if not wasteful:
        return []
    known = {index: parts for index in wasteful if (parts := evidence.lanes.parts(index)) is not None}
    why = unknown
    if known:
        worst = max(known, key=lambda index: known[index][0] * evidence.executions(index))
        now, fewest = known[worst]
        why = (
            f"{len(wasteful)} accesses take more {unit} than they need: that at "
            f"{evidence.instruction(worst).offset:#06x} takes {now} instead of {fewest} for a warp."
        )
    if evidence.traffic.load >= 0.5:
        why += f" Accesses keep the memory pipe busy {evidence.traffic.load:.0%} of the time."
    accesses = evidence.traffic.accesses
    speedup = evidence.traffic.changed(
        {index: accesses[index].fewest / accesses[index].passes for index in wasteful}
    )
    return listed(evidence.advice(name, title, why, evidence.traffic.stalls_of(wasteful), speedup))


def _without(evidence: KernelFacts, gone: list[int]) -> float:
    """Estimated speedup without some accesses."""
    fewer = sum(evidence.traffic.accesses[index].times for index in gone)
    return evidence.traffic.changed(dict.fromkeys(gone, 0.0), fewer)


def vectorize(evidence: KernelFacts) -> list[Advice]:
    """Several narrow accesses by one thread to consecutive addresses, which one wide access could replace."""
    mergeable = _mergeable(evidence)
    parts = [
        part
        for part in evidence.matching(lambda part: part.cause in mergeable)
        if part.reason in ("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle")
    ]
    if not parts:
        return []
    widest = max(mergeable[part.cause] for part in parts)
    why = (
        f"{len(mergeable)} accesses take neighbouring addresses one after another; up to {widest} of them fit into one of "
        "128 bits."
    )
    accesses = {index: one for index, one in evidence.traffic.accesses.items() if index in mergeable}
    fewer = sum(one.times * (1 - 1 / mergeable[index]) for index, one in accesses.items())
    speedup = evidence.traffic.changed({index: 1 / mergeable[index] for index in accesses}, fewer)
    return listed(
        evidence.advice("vectorize", "Load and store vectors (float4, int4) instead of scalars.", why, parts, speedup)
    )  # fmt: skip


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
        "Warps wait for loads whose results go straight to shared memory; an asynchronous copy needs neither registers nor "
        "a wait here."
    )
    name = "TMA or cp.async" if evidence.code.architecture >= 90 else "cp.async"
    speedup = evidence.speedup(min(samples_in(parts), evidence.samples.issued))
    return listed(
        evidence.advice("async-copy", f"Copy to shared memory asynchronously ({name}).", why, parts, speedup)
    )


def atomics(evidence: KernelFacts) -> list[Advice]:
    """Waits for atomics."""
    atomic = [index for index in evidence.traffic.accesses if evidence.instruction(index).kind.atomic]
    why = "Atomics on one address are done one after another, and other accesses wait behind them."
    title = "Add up in registers, in the warp or in shared memory first, so that fewer atomics are left."
    parts = evidence.traffic.stalls_of(atomic)
    if evidence.traffic.queued_atomics >= LIMIT:
        why = (
            f"Atomics of all blocks on one address come at {evidence.traffic.queued_atomics:.1f} a cycle, and the cache does "
            "one a cycle: other accesses wait behind them."
        )
        parts = evidence.traffic.stalls_of(evidence.traffic.beyond_shared())
    return listed(evidence.advice("atomics", title, why, parts, _without(evidence, atomic)))


def constants(evidence: KernelFacts) -> list[Advice]:
    """Misses of the constant cache."""
    parts = evidence.matching(lambda part: part.reason == "imc_miss")
    why = "Constants missed the cache of the multiprocessor; indices that differ between lanes are served one by one."
    return listed(
        evidence.ends("constants", "Move tables that lanes index differently to shared memory.", why, parts)
    )


def _mergeable(evidence: KernelFacts) -> dict[int, int]:
    """Accesses that can be merged, and how many into one: same block, base register and kind, with adjacent offsets."""
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
