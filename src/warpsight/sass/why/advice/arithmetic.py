"""Advice on arithmetic: slow operations, library routines, tensor cores, instruction fetch, divergent branches."""

from __future__ import annotations

from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.finding import Advice, Evidence, Place
from warpsight.sass.why.blame import Blame

#: A tensor core does at least this many times the multiply-adds of the plain pipe, for 16-bit operands.
_TENSOR_GAIN = 8
_LEAST_PRODUCTS = 16
_LIBRARY = ("__cuda_", "__internal_", "__nv_", "__fdiv", "__frcp", "__fsqrt", "__drsqrt", "__ddiv")
_LIBRARY_FILES = ("math_functions", "device_double_functions", "sm_20_intrinsics", "libdevice")


def slow_operations(evidence: Evidence) -> list[Advice]:
    """Waits for conversions, special functions and double precision."""
    parts = evidence.matching(
        lambda part: part.detail in ("special function", "double precision")
        or part.reason == "math_pipe_throttle"
        and evidence.instruction(part.cause).kind.pipe in ("transcendental", "fp64", "half")
    )
    doubles = any(evidence.instruction(part.cause).kind.pipe == "fp64" for part in parts)
    why = "Warps wait for conversions, special functions" + (" and double precision" if doubles else "") + ", which take 14 cycles or more."
    title = "Use cheaper operations: single precision, multiplication by a reciprocal, integers that need no conversion."
    return _one(evidence.ends("strength", title, why, parts))


def fast_math(evidence: Evidence) -> list[Advice]:
    """Time in exact routines of the math library."""
    inside = _library(evidence)
    parts = evidence.matching(lambda part: part.stalled in inside or part.cause in inside)
    issued = sum(row.samples for row in evidence.samples.rows if not row.stalled and row.index in inside)
    stalls = sum(map(evidence.cost, parts))
    if not parts and not issued:
        return []
    why = f"{(issued + stalls) / evidence.total:.0%} of the samples are in exact routines of the math library (division, square root, sine)."
    speedup = estimates.removed(evidence.total, (issued + stalls) / 2)
    title = "Use the fast versions (-use_fast_math, __fdividef, __sinf, rsqrtf), if their error is acceptable."
    return _one(evidence.advice("fast-math", title, why, parts, speedup))


def tensor_cores(evidence: Evidence) -> list[Advice]:
    """Loops full of multiply-adds on the plain pipes."""
    graph, found = evidence.code.graph, []
    for number, loop in enumerate(graph.loops):
        if any(other.parent == number for other in graph.loops):
            continue
        inside = {
            one.index for one in evidence.code.instructions
            if one.operation in ("FFMA", "HFMA2", "DFMA", "FFMA2", "IDP") and graph.block_of[one.index] in loop.blocks
            and one.access.writes & one.access.reads
        }  # fmt: skip
        rows = [row for row in evidence.samples.rows if row.index in inside]
        spent = sum(row.samples if not row.stalled else evidence.cost(row) for row in rows)
        size = sum(len(graph.blocks[block]) for block in loop.blocks)
        if len(inside) < _LEAST_PRODUCTS or len(inside) < 0.4 * size or spent < 0.2 * evidence.total:
            continue
        why = f"{len(inside)} of the loop's {size} instructions are multiply-adds onto their own result; they hold {spent / evidence.total:.0%} of the samples."
        places = tuple(
            Place(row.index, row.index, row.samples) for row in sorted(rows, key=lambda row: -row.samples)[:5]
        )
        speedup = estimates.removed(evidence.total, spent * (1 - 1 / _TENSOR_GAIN))
        found.append(
            Advice("tensor-cores", "Do the products on tensor cores, if 16-bit or TF32 operands are exact enough.",
                   why, float(spent), speedup, places)
        )  # fmt: skip
    return found


def fetch(evidence: Evidence) -> list[Advice]:
    """Waits for instructions."""
    parts = evidence.matching(lambda part: part.reason == "no_instructions")
    size = len(evidence.code.code) >> 10
    looped = any(evidence.code.graph.loop_at(part.stalled) is not None for part in parts)
    why = f"Warps wait for instructions to be fetched; the code has {size or 1} KiB" + (", and loops are part of it." if looped else ".")
    title = "Make the code smaller: unroll less, inline less" + ("." if looped else ", or do more work per launch.")
    return _one(evidence.ends("code-size", title, why, parts))


def divergence(evidence: Evidence) -> list[Advice]:
    """Waits at branches and where lanes come together again."""
    def fits(part: Blame) -> bool:
        meets = evidence.instruction(part.cause).operation in ("BSYNC", "WARPSYNC")
        return part.reason == "branch_resolving" or (part.reason == "barrier" and meets)

    why = "Warps wait for branches to be resolved and for their lanes to come together."
    title = "Take branches that all lanes of a warp agree on: sort the work, or use selects."
    return _one(evidence.ends("divergence", title, why, evidence.matching(fits)))


def _library(evidence: Evidence) -> frozenset[int]:
    """Instructions of math library routines: of functions named so, or inlined from the library's headers."""
    found = set()
    functions = [
        (one.offset // 16, (one.offset + one.size) // 16)
        for one in evidence.code.cubin.functions
        if one.section == evidence.code.section and one.name.startswith(_LIBRARY)
    ]
    for begin, end in functions:
        found.update(range(begin, end))
    for index in {part.stalled for part in evidence.blamed.blames}:
        if any(name in frame.file for frame in evidence.code.frames(index) for name in _LIBRARY_FILES):
            found.add(index)
    return frozenset(found)


def _one(advice: Advice | None) -> list[Advice]:
    return [advice] if advice else []
