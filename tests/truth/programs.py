"""`generate(seed)`: a program of any kind, with random names, sizes, machine and recorder; always the same one for a seed."""

from __future__ import annotations

import random

from tests.truth import phases
from tests.truth.families import FAMILIES, communicating
from tests.truth.kit import CUDA, DRIVER, HIP, Kit, Phase
from tests.truth.loops import (
    LONGEST_NS,
    Loop,
    Marks,
    helper_thread,
    main_thread,
    other_threads,
    startup,
    stuck,
    tail,
)
from tests.truth.program import Machine, Program, Recorder, Stream, Thread
from tests.truth.shapes import SHAPES
from tests.truth.words import Names

SEEDS = range(200)
#: Families by seed; `script` has no iterations.
KINDS = (*FAMILIES, "script")
#: Seeds of programs of kinds that came later; those of `KINDS` stay what they are.
LATER_SEEDS = range(1_000, 1_100)
#: Families whose iterations may consist of several alike.
REPEATING = ("loading", "launching", "busy", "copying", "allocating", "serving", "tiny_gaps")


def generate(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(f"program {seed}")
    kinds = (*SHAPES,) if seed in LATER_SEEDS else KINDS
    family = kinds[seed % len(kinds)]
    ranks = draw.choice((2, 2, 3)) if family == "communicating" else 1
    if family in ("sharing", "stages"):
        ranks = 2
    if family in ("loading", "serving", "copying") and draw.random() < 0.2:
        ranks = 2
    recorder = _recorder(draw, family, ranks)
    machine = _machine(draw, family)
    threads: list[Thread] = []
    features: dict[str, None] = {}
    for rank in range(ranks):
        kit = _kit(seed, rank, machine, recorder)
        loop = _loop(kit, family, ranks)
        _adorn(kit, loop, seed, family, features)
        if rank and kit.chance(0.6):
            loop.phases.insert(0, phases.host_work(kit, max(50_000, loop.iteration_ns // 3)))
            features["straggler"] = None
        threads += [main_thread(kit, loop, rank), *other_threads(kit, loop, rank)]
        if kit.chance(0.25):
            whole = min(LONGEST_NS, loop.iteration_ns * loop.count)
            threads.append(helper_thread(kit, whole, rank))
            features["helper thread"] = None
    return Program(
        seed,
        family,
        tuple(threads),
        machine,
        recorder,
        family != "script",
        (*features,),
        _begin(draw, recorder),
    )


def _begin(draw: random.Random, recorder: Recorder) -> int:
    """Times are those of a machine that has run for a while; torch's are relative to a base of its own."""
    return draw.randint(10**9, 10**15 if recorder.file == "warp" else 10**14)


def _recorder(draw: random.Random, family: str, ranks: int) -> Recorder:
    annotations = draw.random() < 0.87 or family == "many_threads"
    if ranks == 1 and draw.random() < 0.25:
        frames = draw.choice(("none", "none", "functions"))
        return Recorder("kineto", annotations, frames, names_overhead_thread=False)
    frames = draw.choice(("none", "launches", "samples", "both"))
    tells = ranks > 1 or family == "many_threads" or draw.random() < 0.7
    every = draw.choice((200_000, 1_000_000, 10_000_000))
    return Recorder("warp", annotations, frames, every, tells)


def _machine(draw: random.Random, family: str) -> Machine:
    latency = draw.randint(1_500, 8_000)
    depth = draw.choice((16, 24, 64, 1024)) if family == "busy" else draw.choice((256, 1024))
    return Machine(
        latency_ns=latency,
        jitter=draw.uniform(0.05, 0.25),
        turnaround_ns=round(latency * draw.uniform(0.15, 0.45)),
        wake_ns=draw.randint(3_000, 15_000),
        queue_depth=depth,
    )


def _kit(seed: int, rank: int, machine: Machine, recorder: Recorder) -> Kit:
    """Ranks have the same structure and names, and other noise and devices."""
    draw = random.Random(f"structure {seed}")
    apart = draw.randint(1, 5)
    device = draw.randint(0, 7) + rank * apart
    numbers = draw.sample((0, 7, 13, 2**31 - 1, -5, draw.randint(100, 2**31 - 2), draw.randint(20, 99)), 2)
    if recorder.file == "kineto":
        numbers = [abs(number) for number in numbers]
    return Kit(
        draw=draw,
        noise=random.Random(f"noise {seed} {rank}"),
        names=Names(f"names {seed}"),
        machine=machine,
        recorder=recorder,
        calls=draw.choice((CUDA, CUDA, DRIVER, HIP) if recorder.file == "warp" else (CUDA, CUDA, HIP)),
        stream=Stream(device, numbers[0], rank),
        side=Stream(device, numbers[1], rank),
        operators=draw.random() < 0.4,
        annotating=draw.random() < 0.85,
        early=0.2 if draw.random() < 0.1 else 0.0,
    )


def _loop(kit: Kit, family: str, ranks: int) -> Loop:
    if family == "communicating":
        return communicating(kit, ranks)
    if family != "script":
        return {**FAMILIES, **SHAPES}[family](kit)
    once: list[Phase] = []
    chosen = [kit.draw.choice(("loading", "copying", "allocating", "serving")) for _ in range(3)]
    for kind in chosen:
        once += FAMILIES[kind](kit).phases
    return Loop(once, 1, Marks("none"))


def _adorn(kit: Kit, loop: Loop, seed: int, family: str, features: dict[str, None]) -> None:
    """Decide how often a loop repeats, how it is marked, and what else there is."""
    if family != "script":
        loop.count = _count(kit, loop, seed)
        loop.marks = _marks(kit, family)
    features[f"marks {loop.marks.kind}"] = None
    features[f"calls {kit.calls.launch}"] = None
    if loop.recording_begins:
        features["late recording"] = None
    elif kit.chance(0.35):
        loop.before = startup(kit, loop.iteration_ns * max(2, loop.count // 2))
        features["startup"] = None
    if kit.chance(0.25):
        loop.after = tail(kit, loop.iteration_ns * max(2, loop.count // 2))
        features["tail"] = None
    elif kit.chance(0.08):
        loop.after = [stuck(kit)]
        features["stuck at the end"] = None
    # What repeats inside of an iteration is told from an iteration by its mark alone.
    marked = loop.marks.kind == "ws.step" or (loop.marks.kind == "profiler" and kit.recorder.annotations)
    if family in REPEATING and marked and kit.chance(0.4):
        loop.phases = loop.phases * kit.draw.randint(2, 3)
        loop.count = max(5, loop.count // 3)
        features["micro-batches"] = None
    if family != "script" and loop.count >= 6 and kit.chance(0.25):
        _slow(kit, loop)
        features["slow iterations"] = None


def _count(kit: Kit, loop: Loop, seed: int) -> int:
    """As many iterations as give some hundred works, or in a few programs very many."""
    large = seed % 67 == 5
    works = kit.between(10_000, 17_000) if large else kit.between(100, 1_200)
    longest = LONGEST_NS // 2 // max(1, loop.iteration_ns)
    fewest = kit.draw.randint(5, 9)
    return max(fewest, min(works // max(1, loop.launches), longest, 1_000 if large else 60))


def _marks(kit: Kit, family: str) -> Marks:
    kinds = ["profiler", "numbered", "constant", "none", "none"]
    if kit.recorder.file == "warp":
        kinds += ["ws.step", "ws.step"]
    if family == "many_threads":
        kinds = ["profiler", "numbered"] if kit.recorder.file == "kineto" else ["ws.step", "profiler"]
    kind = kit.draw.choice(kinds)
    return Marks(kind, kit.names.annotation(), kit.draw.choice((0, 1, kit.draw.randint(2, 900))))


def _slow(kit: Kit, loop: Loop) -> None:
    """Let a few iterations take several times as long, for one reason."""
    ns = loop.iteration_ns * kit.draw.randint(3, 8)
    how = kit.draw.choice(("host", "call", "kernels"))
    phase = {
        "host": lambda: phases.host_work(kit, ns),
        "call": lambda: phases.allocations(kit, ns, 1, False),
        "kernels": lambda: phases.kernels(kit, phases.Layers(kit, max(2_000, ns // 6), 1, 3), 5_000, 5_000),
    }[how]()
    for number in kit.draw.sample(range(1, loop.count), kit.draw.randint(1, 2)):
        loop.slow[number] = phase
