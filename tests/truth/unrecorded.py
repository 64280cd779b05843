"""Parts of iterations that the recorder has lost, cannot see, or takes time for."""

from __future__ import annotations

from dataclasses import replace

from tests.truth import program as p
from tests.truth.kit import Kit, Phase
from tests.truth.phases import launch


def losing(kit: Kit, phase: Phase, part: float) -> Phase:
    """A phase some of whose launches the recorder has lost."""

    def lost(step: p.Step) -> p.Step:
        if isinstance(step, p.Within):
            return replace(step, body=tuple(lost(inner) for inner in step.body))
        if isinstance(step, p.Launch) and kit.noise.random() < part:
            return replace(step, seen=False)
        return step

    return replace(phase, make=lambda number: [lost(step) for step in phase.make(number)])


def unseen_work(kit: Kit, ns: int) -> Phase:
    """Work of somebody else in this stream, which is not in the file; what follows it starts late."""

    def make(_: int) -> list[p.Step]:
        kernel = p.Kernel("unseen", kit.about(ns, 0.1), visible=False)
        return [p.Launch(kit.stream, (kernel,), 1_000, kit.calls.launch, seen=False)]

    return Phase(make, ns, 1_000, 0)


def recorder_pause(kit: Kit, ns: int, every: int, inside: bool) -> Phase:
    """The recorder writes out what it has, now and then: between calls, or inside of a launch."""
    name = kit.names.kernel()

    def make(number: int) -> list[p.Step]:
        if number % every:
            return []
        if not inside:
            return [p.RecorderWork(kit.about(ns, 0.2))]
        plain = launch(kit, kit.stream, name, 10_000)
        return [replace(plain, recorder_ns=kit.about(ns, 0.2))]

    return Phase(make, 0, ns // every, 1 if inside else 0)
