"""Advice on arithmetic: slow operations, library routines, tensor cores, instruction fetch, divergent branches."""

from __future__ import annotations

from warpsight.device_code.decoded import Decoded
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.finding import Advice, AdvicePlace, KernelFacts
from warpsight.sass.why.blame import Blame

#: A tensor core does at least this many times the multiply-adds of the plain pipe, for 16-bit operands.
_TENSOR_GAIN = 8
_LEAST_PRODUCTS, _LEAST_SUMS = 16, 4
_INTEGER_ROUTINES = ("div_s64", "div_u64", "rem_s64", "rem_u64")
#: Divided warps cost time where issuing does.
_ISSUE_BOUND = 0.3
_STEPS, _NEAR, _LANES = 64, 3, 32
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
    return _one(evidence.ends("strength", title, why, parts))


def fast_math(evidence: KernelFacts) -> list[Advice]:
    """Time in exact routines of the math library."""
    title = (
        "Use the fast versions (-use_fast_math, __fdividef, __sinf, rsqrtf), if their error is acceptable."
    )
    what = "exact floating-point routines of the math library"
    return _routines(evidence, "fast-math", title, what, integers=False, saved=0.5)


def integer_division(evidence: KernelFacts) -> list[Advice]:
    """Time in the routines for division of integers of 64 bits."""
    title = "Avoid divisions of 64-bit integers: divide 32 bits where they suffice, shift, or multiply by a reciprocal."
    # A division of 32 bits takes some 20 instructions, one of 64 bits about 80.
    what = "the routine for division of 64-bit integers"
    return _routines(evidence, "division", title, what, integers=True, saved=0.75)


def _routines(
    evidence: KernelFacts, name: str, title: str, what: str, *, integers: bool, saved: float
) -> list[Advice]:
    inside = _library(evidence, integers)
    parts = evidence.matching(lambda part: part.stalled in inside or part.cause in inside)
    spent = evidence.time_of(inside)
    if not inside or not spent:
        return []
    why = f"{spent / evidence.total:.0%} of the time is in {what}."
    return _one(evidence.advice(name, title, why, parts, estimates.removed(evidence.total, spent * saved)))


def tensor_cores(evidence: KernelFacts) -> list[Advice]:
    """Loops full of multiply-adds on the plain pipes: products of two values, added up in several places."""
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
        speedup = estimates.removed(evidence.total, spent * (1 - 1 / _TENSOR_GAIN))
        found.append(
            Advice("tensor-cores", "Do the products on tensor cores, if 16-bit or TF32 operands are exact enough.",
                   why, float(spent), speedup, places)
        )  # fmt: skip
    return found


def _adds_up(one: Decoded) -> bool:
    """Whether an instruction adds the product of two values that are not constants of the code onto its own result."""
    if one.operation not in ("FFMA", "HFMA2", "DFMA", "FFMA2", "IDP") or len(one.access.operands) != 4:
        return False
    result, *factors, added = (operand.removesuffix(".reuse") for operand in one.access.operands)
    return result == added and all("R" in factor and factor != result for factor in factors)


def fetch(evidence: KernelFacts) -> list[Advice]:
    """Waits for instructions."""
    parts = evidence.matching(lambda part: part.reason == "no_instructions")
    size = len(evidence.code.code) >> 10
    looped = any(evidence.code.graph.loop_at(part.stalled) is not None for part in parts)
    why = f"Warps wait for instructions to be fetched; the code has {size or 1} KiB" + (
        ", and loops are part of it." if looped else "."
    )
    title = "Make the code smaller: unroll less, inline less" + (
        "." if looped else ", or do more work per launch."
    )
    return _one(evidence.ends("code-size", title, why, parts))


def divergence(evidence: KernelFacts) -> list[Advice]:
    """Branches that lanes of a warp may take apart: both sides are issued one after the other."""
    regions = _divided(evidence)
    inside = {index: idle for region, idle in regions.values() for index in region}
    spent = evidence.time_of(inside)
    idle = sum(evidence.time_of({index}) * share for index, share in inside.items())

    def fits(part: Blame) -> bool:
        meets = evidence.instruction(part.cause).operation in ("BSYNC", "WARPSYNC")
        return (
            part.reason == "branch_resolving"
            or (part.reason == "barrier" and meets)
            or part.stalled in inside
        )

    parts = evidence.matching(fits)
    stalls = sum(evidence.cost(part) for part in parts if part.stalled not in inside)
    if not parts:
        return []
    why = "Warps wait for branches to be resolved."
    if regions:
        why = (
            f"{len(regions)} branches depend on the lane or on data; the code behind them takes {spent / evidence.total:.0%} of "
            "the time. Samples do not show how many lanes take each: one is assumed for an equality of lanes, half for data."
        )
    title = "Take branches that all lanes of a warp agree on: sort the work, or use selects."
    saved = stalls + (idle * evidence.issue_bound if evidence.issue_bound > _ISSUE_BOUND else 0)
    return _one(evidence.advice("divergence", title, why, parts, estimates.removed(evidence.total, saved)))


def _divided(evidence: KernelFacts) -> dict[int, tuple[list[int], float]]:
    """Branches around BSYNC on an equality of lanes or on data: what only one side runs, and the idle share of its lanes."""
    graph = evidence.code.graph
    found: dict[int, tuple[list[int], float]] = {}
    for block in graph.blocks:
        ahead = [one for one in block.successors if graph.blocks[one].predecessors == (block.number,)]
        if evidence.instruction(block.last).operation != "BRA" or len(block.successors) != 2 or not ahead:
            continue
        idle = _idle_lanes(evidence, block.last)
        meets = any(evidence.instruction(index).operation == "BSYNC" for one in block.successors
                    for index in range(graph.blocks[one].first, graph.blocks[one].last + 1))  # fmt: skip
        if idle and meets:
            region = [
                index for one in ahead for number in range(len(graph.blocks)) if graph.dominates(one, number)
                for index in range(graph.blocks[number].first, graph.blocks[number].last + 1)
            ]  # fmt: skip
            found[block.last] = (region, idle)
    return found


def _idle_lanes(evidence: KernelFacts, branch: int) -> float:
    """The share of lanes that one side of a branch leaves idle: 0 where nothing says that the lanes of a warp differ.

    An equality with a part of the lane's number holds for one of as many lanes as that part has values; for data half is assumed.
    """
    equality, values, seen, waiting = False, _LANES, {branch}, [branch]
    while waiting and len(seen) < _STEPS:
        here = waiting.pop()
        known = evidence.instruction(here)
        compares = known.operation == "ISETP" and known.access.modifiers[:1] in (("EQ",), ("NE",))
        equality |= compares and len(seen) <= _NEAR
        values = min(values, _values_left(known))
        if known.kind.load and known.kind.space in ("global", "generic", "shared"):
            return 0.5
        if (
            known.operation == "S2R"
            and equality
            and any(name in "".join(known.access.operands) for name in ("TID", "LANEID"))
        ):
            return 1 - 1 / values
        for one in evidence.dependencies.producers(here):
            if one.index not in seen:
                seen.add(one.index)
                waiting.append(one.index)
    return 0.0


def _values_left(one: Decoded) -> int:
    """How many values an AND with a mask of low bits leaves; many for other instructions."""
    if one.operation == "LOP3" and "0xc0" in one.access.operands:
        for operand in one.access.operands:
            if operand.startswith("0x") and operand != "0xc0":
                mask = int(operand, 16)
                return mask + 1 if mask & (mask + 1) == 0 else _LANES
    return _LANES


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


def _one(advice: Advice | None) -> list[Advice]:
    return [advice] if advice else []
