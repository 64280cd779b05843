"""Parts of iterations in which streams, devices, ranks or threads wait for each other."""

from __future__ import annotations

from dataclasses import replace

from tests.truth import program as p
from tests.truth.kit import Kit, Phase
from tests.truth.phases import Layers, launch, within


def collective(kit: Kit, ns: int, members: int, count: int, overlapping: bool, work: Layers) -> Phase:
    """Collectives on a stream of their own, after what was computed; computing waits for them at once or goes on meanwhile."""
    names = [kit.names.collective() for _ in range(count)]
    between = work.layer[: max(1, len(work.layer) // 2)]
    scope = kit.annotation(kit.draw.choice(("nccl:all_reduce", None))) if kit.chance(0.5) else None
    kinds = kit.calls

    def make(number: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for place, name in enumerate(names):
            key = f"{number}.{place}"
            kernel = p.Kernel(name, kit.about(ns), f"meeting {key}", members, collective=True)
            comm = p.Launch(kit.side, (kernel,), kit.about(5_000, 0.15), kinds.launch)
            waiting = p.WaitFor(f"reduced {key}", kit.stream, kinds.wait)
            steps += [p.Record(f"computed {key}", kit.stream, kinds.record)]
            steps += [p.WaitFor(f"computed {key}", kit.side, kinds.wait), *within([comm], scope)]
            steps += [p.Record(f"reduced {key}", kit.side, kinds.record)]
            following: list[p.Step] = [launch(kit, kit.stream, *kernel) for kernel in between]
            steps += [*following, waiting] if overlapping else [waiting, *following]
        return steps

    device = count * (ns + sum(ns for _, ns in between))
    return Phase(make, device, count * 20_000, count * (1 + len(between)))


def across(kit: Kit, first: Layers, second: Layers, other: p.Stream, gap_ns: int) -> Phase:
    """Two devices in turn: the second's stream waits for the first's work, and then the first's for the second's."""
    kinds = kit.calls
    outer = kit.annotation() if kit.chance(0.5) else None

    def stage(work: Layers, stream: p.Stream) -> list[p.Step]:
        steps: list[p.Step] = []
        for name, ns in work.listed:
            steps += [p.Code(kit.about(gap_ns)), launch(kit, stream, name, ns)]
        return steps

    def make(number: int) -> list[p.Step]:
        there, back = f"there {number}", f"back {number}"
        steps = stage(first, kit.stream)
        steps += [p.Record(there, kit.stream, kinds.record), p.WaitFor(there, other, kinds.wait)]
        steps += stage(second, other)
        steps += [p.Record(back, other, kinds.record), p.WaitFor(back, kit.stream, kinds.wait)]
        steps += [launch(kit, kit.stream, *kernel) for kernel in first.epilogue]
        return within(steps, outer)

    count = len(first.listed) + len(second.listed) + len(first.epilogue)
    return Phase(make, first.device_ns + second.device_ns, count * (gap_ns + 4_000), count)


def elsewhere(kit: Kit, phase: Phase, name: str) -> tuple[Phase, Phase]:
    """A phase on another thread, while this one waits for it: what this thread does, and what the other does."""
    outer = kit.annotation() if kit.chance(0.6) else kit.function()

    def here(number: int) -> list[p.Step]:
        handed: list[p.Step] = [p.Signal(f"{name} {number}"), p.Await(f"{name} {number} done")]
        return within(handed, outer)

    def there(number: int) -> list[p.Step]:
        return [p.Await(f"{name} {number}"), *phase.make(number), p.Signal(f"{name} {number} done")]

    return replace(phase, make=here), replace(phase, make=there)
