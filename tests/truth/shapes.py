"""Kinds of programs that were added after the analysis had passed all others: it has not been made for any of them."""

from __future__ import annotations

from dataclasses import replace

from tests.truth import phases as f
from tests.truth import program as p
from tests.truth import together, unrecorded
from tests.truth.families import Family, _layers, _loop, _plain
from tests.truth.kit import Kit, Phase
from tests.truth.loops import Loop


def sharing(kit: Kit) -> Loop:
    """Two processes work on one device."""
    kit.stream = replace(kit.stream, device=kit.draw.randint(0, 7))
    compute = _plain(kit, _layers(kit, 10_000, 200_000))
    load = f.host_work(kit, max(50_000, round(compute.device_ns * kit.draw.choice((0.2, 0.8, 2)))))
    return _loop(load, compute, f.wait(kit, compute.device_ns))


def prefetching(kit: Kit) -> Loop:
    """A loader thread that is two batches ahead at most, with batches of very different lengths."""
    compute = _plain(kit, _layers(kit, 20_000, 300_000))
    ns = max(100_000, round(compute.device_ns * kit.draw.choice((0.4, 1, 1.8))))
    asks, makes = kit.annotation(), kit.function()

    def take(number: int) -> list[p.Step]:
        steps = [p.Await(f"batch {number}"), p.Code(kit.about(5_000)), p.Signal(f"taken {number}")]
        return f.within(steps, asks)

    def load(number: int) -> list[p.Step]:
        room: list[p.Step] = [p.Await(f"taken {number - 2}")] if number >= 2 else []
        code = p.Code(max(20_000, round(ns * kit.noise.lognormvariate(-0.1, 0.5))))
        return [*room, *f.within([code], makes), p.Signal(f"batch {number}")]

    upload = f.upload(kit, kit.between(2_000, 50_000), kit.chance(0.5))
    loop = _loop(Phase(take, 0, ns, 0), upload, compute, f.wait(kit, compute.device_ns))
    loop.others.append(("loader", load))
    return loop


def ragged(kit: Kit) -> Loop:
    """Iterations of very different sizes, as sequences of different lengths make them: few are long."""
    work = _layers(kit, 8_000, 100_000, 3)
    compute = f.kernels(kit, work, kit.between(2_000, 20_000), kit.between(2_000, 8_000))

    def make(number: int) -> list[p.Step]:
        times = min(12, max(1, round(kit.noise.paretovariate(1.3))))
        return [step for _ in range(times) for step in compute.make(number)]

    several = Phase(make, 2 * compute.device_ns, 2 * compute.host_ns, 2 * compute.launches)
    pick = f.host_work(kit, kit.between(20_000, 400_000), spread=0.2)
    return _loop(several, f.read_back(kit, 2_000), pick)


def stages(kit: Kit) -> Loop:
    """Pipeline parallelism: a rank sends micro-batches to the next one, which waits for the first and is alone with the last."""
    compute = _plain(kit, _layers(kit, 20_000, 200_000, 3))
    micros, ns = kit.draw.randint(2, 4), kit.between(10_000, 100_000)
    names = [kit.names.collective() for _ in range(2)]
    first = kit.stream.process == 0

    def passed(key: str, name: str) -> list[p.Step]:
        kernel = p.Kernel(name, kit.about(ns), f"meeting {key}", 2, collective=True)
        return [p.Code(kit.about(4_000)), p.Launch(kit.stream, (kernel,), kit.about(5_000), kit.calls.launch)]

    def make(number: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for way, name in zip(("there", "back"), names, strict=True):
            for micro in range(micros):
                met, own = passed(f"{number}.{way}.{micro}", name), compute.make(number)
                steps += [*own, *met] if first == (way == "there") else [*met, *own]
        return steps

    count = 2 * micros
    whole = Phase(
        make, count * (compute.device_ns + ns), count * compute.host_ns, count * (compute.launches + 1)
    )
    return _loop(whole, f.wait(kit, whole.device_ns))


def small_graphs(kit: Kit) -> Loop:
    """Many graphs of few short kernels."""
    call = kit.between(3_000, 9_000)
    found = [
        f.graphs(kit, f.Layers(kit, kit.between(2_000, 8_000), 1, 3), kit.between(2_000, 30_000), call)
        for _ in range(kit.draw.randint(3, 7))
    ]
    return _loop(*found, f.wait(kit, sum(phase.device_ns for phase in found)))


def compiling(kit: Kit) -> Loop:
    """At the front code is compiled, loaded and tried out: the same kernel again and again, each time waited for."""
    compute = _plain(kit, _layers(kit, 20_000, 300_000))
    loop = _loop(compute, f.wait(kit, compute.device_ns))
    scope, inner = kit.annotation(), kit.function()
    candidates = [(kit.names.kernel(), kit.between(5_000, 200_000)) for _ in range(kit.draw.randint(2, 5))]
    ns, tries = kit.between(2_000_000, 200_000_000), kit.draw.randint(5, 25)

    def make(_: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for name, long in candidates:
            steps += f.within(
                [p.Code(kit.about(ns, 0.3)), p.Call(kit.calls.module, kit.about(300_000))], inner
            )
            for _try in range(tries):
                steps += [p.Code(kit.about(3_000)), f.launch(kit, kit.stream, name, long)]
                steps += [p.Synchronise(kit.stream, kit.calls.stream)]
        return f.within(steps, scope)

    loop.before = [f.upload(kit, kit.between(20_000, 500_000), True), Phase(make)]
    return loop


def watched(kit: Kit) -> Loop:
    """The recorder stops the program in the middle of its work, often and for long."""
    halves = [_plain(kit, _layers(kit, 10_000, 100_000, 4)) for _ in range(2)]
    ns = max(40_000, round(sum(phase.device_ns for phase in halves) * kit.draw.choice((0.3, 0.8))))
    pauses = [unrecorded.recorder_pause(kit, ns, kit.draw.randint(1, 2), False) for _ in range(2)]
    waits = [f.wait(kit, phase.device_ns) for phase in halves]
    return _loop(halves[0], waits[0], pauses[0], halves[1], waits[1], pauses[1])


def locked_out(kit: Kit) -> Loop:
    """Another thread holds the interpreter's lock while the launching one wants to go on."""
    compute = _plain(kit, _layers(kit, 10_000, 150_000))
    ns = max(80_000, round(compute.device_ns * kit.draw.choice((0.3, 1, 3))))
    here, there = together.elsewhere(kit, f.host_work(kit, ns), "lock")
    loop = _loop(compute, f.wait(kit, compute.device_ns), here)
    loop.others.append((kit.names.function(), there.make))
    return loop


def streaming(kit: Kit) -> Loop:
    """Copies in both directions on streams of their own are what takes the time; kernels are short and wait for them."""
    compute = _plain(kit, _layers(kit, 5_000, 40_000, 3))
    ns, size = compute.device_ns * kit.draw.randint(2, 5), kit.between(1_000_000, 100_000_000)
    back = replace(kit.side, number=kit.draw.randint(200, 2**31 - 2))

    def moved(kind: str, stream: p.Stream) -> p.Transfer:
        ends = ("pinned", "device") if kind == "HtoD" else ("device", "pinned")
        copy = p.Copy(kind, size, kit.about(ns), *ends)
        return p.Transfer(stream, copy, kit.about(4_000, 0.2), f.copy_function(kit, kind, blocking=False))

    def make(number: int) -> list[p.Step]:
        there, done = f"there {number}", f"done {number}"
        steps: list[p.Step] = [p.Code(kit.about(5_000)), moved("HtoD", kit.side)]
        steps += [p.Record(there, kit.side, kit.calls.record), p.WaitFor(there, kit.stream, kit.calls.wait)]
        steps += compute.make(number)
        steps += [p.Record(done, kit.stream, kit.calls.record), p.WaitFor(done, back, kit.calls.wait)]
        return [*steps, moved("DtoH", back)]

    whole = Phase(make, compute.device_ns + 2 * ns, compute.host_ns, compute.launches + 2)
    return _loop(whole, f.wait(kit, whole.device_ns))


def epochs(kit: Kit) -> Loop:
    """After some iterations each the program does something else for long, and the device nothing."""
    compute = _plain(kit, _layers(kit, 20_000, 200_000))
    every, ns = kit.draw.randint(3, 9), max(1_000_000, compute.device_ns * kit.draw.randint(4, 30))
    between = f.host_work(kit, ns)

    def make(number: int) -> list[p.Step]:
        return between.make(number) if number % every == every - 1 else []

    return _loop(compute, f.wait(kit, compute.device_ns), Phase(make, 0, ns // every, 0))


SHAPES: dict[str, Family] = {
    family.__name__: family
    for family in (
        sharing,
        prefetching,
        ragged,
        stages,
        small_graphs,
        compiling,
        watched,
        locked_out,
        streaming,
        epochs,
    )
}
