"""Advice on arithmetic: slow operations, library routines, tensor cores, instruction fetch, divergent branches."""

from __future__ import annotations

from collections.abc import Mapping

from warpsight.device_code.decoded import Decoded
from warpsight.sass.why.advice.finding import Advice, AdvicePlace, KernelFacts, listed
from warpsight.sass.why.advice.traffic import samples_in
from warpsight.sass.why.blame import Blame

#: A tensor core does at least this many times the multiply-adds of the plain pipe, for 16-bit operands.
_TENSOR_GAIN = 8
_LEAST_PRODUCTS, _LEAST_SUMS = 16, 4
_INTEGER_ROUTINES = ("div_s64", "div_u64", "rem_s64", "rem_u64")
_LIBRARY = ("__cuda_", "__internal_", "__nv_", "__fdiv", "__frcp", "__fsqrt", "__drsqrt", "__ddiv")
_LIBRARY_FILES = ("math_functions", "device_double_functions", "sm_20_intrinsics", "libdevice")


def slow_operations(evidence: KernelFacts) -> list[Advice]:
    """Waits for conversions, special functions and double precision."""
    parts = evidence.matching(
        lambda part: (
            part.detail in ("special function", "double precision")
            or (
                part.reason == "math_pipe_throttle"
                and evidence.instruction(part.cause).kind.pipe in ("transcendental", "fp64", "half")
            )
        )
    )
    doubles = any(evidence.instruction(part.cause).kind.pipe == "fp64" for part in parts)
    why = (
        "Warps wait for conversions, special functions"
        + (" and double precision" if doubles else "")
        + ", which take 14 cycles or more."
    )
    title = "Use cheaper operations: single precision, multiplication by a reciprocal, integers that need no conversion."
    return listed(evidence.ends("strength", title, why, parts))


def fast_math(evidence: KernelFacts) -> list[Advice]:
    """Time in accurate routines of the math library, and in IEEE-rounded divisions."""
    title = (
        "Use the fast versions (-use_fast_math, __fdividef, __sinf, rsqrtf), if their error is acceptable."
    )
    inside = {**dict.fromkeys(_library(evidence, integers=False), 0.5), **_rounded(evidence)}
    return _routines(evidence, "fast-math", title, "exact floating-point routines and divisions", inside)


def _rounded(evidence: KernelFacts) -> dict[int, float]:
    """What the fast version of a division omits, on its source line.

    IEEE rounding takes a reciprocal, 5 multiply-adds, FCHK, which tests the operands, and a branch around a call, whose return
    address is set before. The fast version keeps the reciprocal, and has 4 instructions instead of the multiply-adds. Where the
    loop does not change the divisor, all but 2 of these leave the loop, which they cannot while the call is in it.
    """
    graph = evidence.code.graph
    lines: dict[object, list[Decoded]] = {}
    for one in evidence.code.instructions:
        lines.setdefault(evidence.code.frames(one.index)[:1], []).append(one)
    found: dict[int, float] = {}
    for line, of_line in lines.items():
        divisions = sum(one.operation == "FCHK" for one in of_line)
        if not divisions or not line:
            continue
        products = [one.index for one in of_line if one.operation == "FFMA"]
        reciprocals = [one.index for one in of_line if one.kind.pipe == "transcendental"]
        fixed = [index for index in reciprocals if _invariant(evidence, index)]
        saved = divisions + 2 * len(fixed)
        found |= dict.fromkeys(products, min(saved / max(len(products), 1), 1.0))
        found |= dict.fromkeys(fixed, 1.0)
        found |= {one.index: 1.0 for one in of_line if one.operation == "FCHK" or one.kind.pipe == "control"}
        calls = {graph.block_of[one.index] for one in of_line if one.operation == "CALL"}
        found |= {one.index: 1.0 for one in of_line if graph.block_of[one.index] in calls}
    return found


def _invariant(evidence: KernelFacts, index: int) -> bool:
    """Whether an instruction in a loop has operands that the loop does not change."""
    graph = evidence.code.graph
    loop = graph.loop_of[graph.block_of[index]]
    return loop is not None and not any(
        graph.block_of[one.index] in graph.loops[loop].blocks
        for one in evidence.dependencies.producers(index)
    )


def integer_division(evidence: KernelFacts) -> list[Advice]:
    """Time in integer divisions by numbers unknown at compile time."""
    title = "Avoid integer divisions: shift, multiply by a reciprocal, or divide 32 bits instead of 64 if they suffice."
    # A division of 32 bits takes some 20 instructions, one of 64 bits about 80, a multiplication by the reciprocal 4.
    inside = {
        **dict.fromkeys(_library(evidence, integers=True), 0.75),
        **_lines_of(evidence, ("I2F", "RP"), 0.75),
    }
    return _routines(evidence, "division", title, "divisions of integers", inside)


def _lines_of(evidence: KernelFacts, mark: tuple[str, str], share: float) -> dict[int, float]:
    """The arithmetic on source lines with an instruction that only one compiler idiom uses."""
    operation, modifier = mark
    lines = {
        evidence.code.frames(one.index)[:1] for one in evidence.code.instructions
        if one.operation == operation and (not modifier or modifier in one.access.modifiers)
    } - {()}  # fmt: skip
    return {
        one.index: share for one in evidence.code.instructions
        if lines and not one.kind.space and evidence.code.frames(one.index)[:1] in lines
    }  # fmt: skip


def _routines(
    evidence: KernelFacts, name: str, title: str, what: str, inside: Mapping[int, float]
) -> list[Advice]:
    parts = evidence.matching(lambda part: part.stalled in inside or part.cause in inside)
    spent = evidence.time_of(inside)
    if not spent:
        return []
    why = f"{spent / evidence.total:.0%} of the time is in {what}."
    stalls = sum(evidence.waits_in({index}) * share for index, share in inside.items())
    fewer = sum(evidence.executions(index) * share for index, share in inside.items())
    left = {index: 1 - share for index, share in inside.items()}
    return listed(evidence.advice(name, title, why, parts, evidence.speedup(stalls, fewer, left)))


def tensor_cores(evidence: KernelFacts) -> list[Advice]:
    """Loops full of multiply-adds on the regular pipes: products of two values, accumulated in several places."""
    graph, found = evidence.code.graph, []
    for number, loop in enumerate(graph.loops):
        if any(other.parent == number for other in graph.loops):
            continue
        inside = {
            one.index: one for one in evidence.code.instructions
            if graph.block_of[one.index] in loop.blocks and _adds_up(one)
        }  # fmt: skip
        spent = evidence.time_of(inside)
        size = sum(len(graph.blocks[block]) for block in loop.blocks)
        sums = {one.access.writes for one in inside.values()}
        if (
            len(inside) < _LEAST_PRODUCTS
            or len(sums) < _LEAST_SUMS
            or len(inside) < 0.4 * size
            or spent < 0.2 * evidence.total
        ):
            continue
        why = (
            f"{len(inside)} of the loop's {size} instructions multiply and add up in {len(sums)} places; "
            f"they take {spent / evidence.total:.0%} of the time."
        )
        rows = [row for row in evidence.samples.rows if row.index in inside]
        places = tuple(
            AdvicePlace(row.index, row.index, row.samples)
            for row in sorted(rows, key=lambda row: -row.samples)[:5]
        )
        share = 1 - 1 / _TENSOR_GAIN
        left = dict.fromkeys(inside, 1 - share)
        speedup = evidence.speedup(
            evidence.waits_in(inside) * share, evidence.issues_in(inside) * share, left
        )
        found.append(
            Advice("tensor-cores", "Do the products on tensor cores, if 16-bit or TF32 operands are exact enough.",
                   why, float(spent), speedup, places)
        )  # fmt: skip
    return found


def _adds_up(one: Decoded) -> bool:
    """Whether an instruction adds the product of two non-constant values to its own result."""
    if one.operation not in ("FFMA", "HFMA2", "DFMA", "FFMA2", "IDP") or len(one.access.operands) != 4:
        return False
    result, *factors, added = (operand.removesuffix(".reuse") for operand in one.access.operands)
    return result == added and all("R" in factor and factor != result for factor in factors)


def fetch(evidence: KernelFacts) -> list[Advice]:
    """Waits for instructions."""
    parts = evidence.matching(lambda part: part.reason == "no_instructions")
    size = len(evidence.code.code) >> 10
    looped = any(evidence.code.graph.loop_at(part.stalled) is not None for part in parts)
    why = f"Warps wait for instructions to be fetched; the code is {size or 1} KiB long" + (
        ", loops included." if looped else "."
    )
    title = "Make the code smaller: unroll less, inline less" + (
        "." if looped else ", or do more work per launch."
    )
    return listed(evidence.ends("code-size", title, why, parts))


def divergence(evidence: KernelFacts) -> list[Advice]:
    """Branches where lanes of a warp may diverge: both sides are issued in sequence."""
    idle = _idle(evidence)
    spent = evidence.time_of(idle)

    def fits(part: Blame) -> bool:
        meets = evidence.instruction(part.cause).operation in ("BSYNC", "WARPSYNC")
        return (
            part.reason == "branch_resolving" or (part.reason == "barrier" and meets) or part.stalled in idle
        )

    parts = evidence.matching(fits)
    if not parts:
        return []
    why = "Warps wait for branches to be resolved."
    if idle:
        lanes = sum(evidence.time_of({index}) * (1 - share) for index, share in idle.items()) / (spent or 1)
        why = (
            f"Divergent branches come before {spent / evidence.total:.0%} of the time; {lanes:.0%} of "
            "the lanes take part in it, if half do where data decides."
        )
    title = "Take branches that all lanes of a warp agree on: sort the work, or use selects."
    stalls = samples_in(part for part in parts if part.stalled not in idle)
    waits = sum(evidence.waits_in({index}) * share for index, share in idle.items())
    fewer = sum(evidence.issues_in({index}) * share for index, share in idle.items())
    left = {index: 1 - share for index, share in idle.items()}
    return listed(
        evidence.advice("divergence", title, why, parts, evidence.speedup(stalls + waits, fewer, left))
    )


def _idle(evidence: KernelFacts) -> dict[int, float]:
    """Instructions after divergent branches, and the share of lanes that do not execute them."""
    graph = evidence.code.graph
    found: dict[int, float] = {}
    for block in graph.blocks:
        shares = evidence.lanes.taken(block.last) if len(block.successors) > 1 else None
        if shares is None or not any(_meet(evidence, one) for one in block.successors):
            continue
        own = [one for one in block.successors if graph.blocks[one].predecessors == (block.number,)]
        runs = [evidence.executions(graph.blocks[one].first) for one in (block.number, *own)]
        # Warps that take one way only are not divided: what runs on both ways is more than what comes to the branch.
        divided = (sum(runs[1:]) - runs[0]) / max(runs[0], 1e-9) if len(own) == len(block.successors) else 1.0
        for successor in own:
            jumps = graph.blocks[successor].first != block.last + 1
            idle = (1 - (shares[0] if jumps else shares[1])) * min(max(divided, 0.0), 1.0)
            for number, other in enumerate(graph.blocks):
                if graph.dominates(successor, number):
                    for index in range(other.first, other.last + 1):
                        found[index] = max(found.get(index, 0.0), idle)
    return {index: idle for index, idle in found.items() if 0 < idle < 1}


def _meet(evidence: KernelFacts, block: int) -> bool:
    """Whether diverged lanes reconverge at or after the end of a block."""
    graph = evidence.code.graph
    near = {block, *graph.blocks[block].successors}
    return any(evidence.instruction(at).operation in ("BSYNC", "WARPSYNC") for one in near
               for at in range(graph.blocks[one].first, graph.blocks[one].last + 1))  # fmt: skip


def _library(evidence: KernelFacts, integers: bool) -> frozenset[int]:
    """Instructions of library routines, called or inlined: of integers of 64 bits, or of floating-point numbers."""
    found: set[int] = set()
    for one in evidence.code.cubin.functions:
        divides = any(name in one.name for name in _INTEGER_ROUTINES)
        if one.section == evidence.code.section and one.name.startswith(_LIBRARY) and divides == integers:
            found.update(range(one.offset // 16, (one.offset + one.size) // 16))
    if not integers:
        for index in {row.index for row in evidence.samples.rows} - found:
            if any(name in frame.file for frame in evidence.code.frames(index) for name in _LIBRARY_FILES):
                found.add(index)
    return frozenset(found)
