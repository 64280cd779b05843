"""From phases to threads: iterations with their marks, what is before and after the loop, and slow iterations among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.truth import phases
from tests.truth import program as p
from tests.truth.kit import Kit, Phase

#: The longest program, about.
LONGEST_NS = 10_000_000_000


@dataclass(frozen=True)
class Marks:
    """How iterations are marked: `ws.step`, `profiler` (ProfilerStep#N), `numbered` or `constant` ranges, or `none`."""

    kind: str
    name: str = ""
    first: int = 0

    def iteration(self, number: int, steps: Sequence[p.Step], source: str) -> list[p.Step]:
        """The steps of an iteration, marked."""
        names = {
            "profiler": f"ProfilerStep#{self.first + number}",
            "numbered": f"{self.name} {self.first + number}",
            "constant": self.name,
        }
        found: list[p.Step] = [p.IterationBegins()]
        if self.kind in names:
            origin = "framework" if self.kind == "profiler" else source
            found += phases.within(steps, p.Scope(names[self.kind], "step", source=origin))
        else:
            found += steps
        return [*found, p.StepMark()] if self.kind == "ws.step" else found


@dataclass
class Loop:
    """An iteration's phases, how often it repeats, and what else the thread does.

    slow: by number of an iteration, a phase that only it has.
    threads: bodies of further threads, made by iteration.
    """

    phases: list[Phase]
    count: int
    marks: Marks
    before: list[Phase] = field(default_factory=list)
    after: list[Phase] = field(default_factory=list)
    slow: dict[int, Phase] = field(default_factory=dict)
    others: list[tuple[str, Callable[[int], list[p.Step]]]] = field(default_factory=list)
    recording_begins: bool = False

    @property
    def iteration_ns(self) -> int:
        """About how long an iteration takes."""
        return max(sum(f.device_ns for f in self.phases), sum(f.host_ns for f in self.phases))

    @property
    def launches(self) -> int:
        """Works of an iteration."""
        return sum(phase.launches for phase in self.phases)


def main_thread(kit: Kit, loop: Loop, process: int) -> p.Thread:
    """The thread that runs a loop."""
    source = "framework" if kit.recorder.file == "kineto" else "nvtx"
    steps: list[p.Step] = [step for phase in loop.before for step in phase.make(-1)]
    if loop.recording_begins:
        steps.append(p.RecordingBegins())
    for number in range(loop.count):
        body = [step for phase in loop.phases for step in phase.make(number)]
        if number in loop.slow:
            body += loop.slow[number].make(number)
        steps += loop.marks.iteration(number, body, source)
    steps += [step for phase in loop.after for step in phase.make(loop.count)]
    return p.Thread("MainThread", tuple(rooted(kit, steps)), 4001 + process % 2, process)


def other_threads(kit: Kit, loop: Loop, process: int) -> list[p.Thread]:
    """Threads that take over parts of the loop."""
    found = []
    for place, (name, make) in enumerate(loop.others, 1):
        steps = [step for number in range(loop.count) for step in make(number)]
        found.append(p.Thread(name, tuple(rooted(kit, steps)), 4001 + 13 * place, process))
    return found


def rooted(kit: Kit, steps: Sequence[p.Step]) -> list[p.Step]:
    """Steps below the frames that are below everything."""
    file = kit.names.file()
    return phases.within(
        steps,
        p.Scope("<module>", "root", file, 400),
        p.Scope("main", "root", file, 380),
        p.Scope(kit.names.function(), "root", file, 120),
    )


def startup(kit: Kit, scale_ns: int) -> list[Phase]:
    """Weights are copied first, so that what follows is in the device's span: modules, memory, host code, warm-up."""
    found = [phases.upload(kit, kit.between(20_000, 2_000_000), kit.chance(0.5))]
    if kit.chance(0.6):
        found.append(phases.allocations(kit, kit.between(30_000, max(60_000, scale_ns // 4)), 2, False))
    if kit.chance(0.5):
        found.append(phases.host_work(kit, kit.between(100_000, max(200_000, scale_ns))))
    if kit.chance(0.5):
        found.append(loading_launch(kit, kit.between(1_000_000, max(2_000_000, scale_ns))))
    if kit.chance(0.6):
        found.append(warm_up(kit))
    return found


def loading_launch(kit: Kit, ns: int) -> Phase:
    """A first launch, which loads a module."""
    name = kit.names.kernel()

    def make(_: int) -> list[p.Step]:
        kernel = p.Kernel(name, kit.about(50_000))
        return [p.Launch(kit.stream, (kernel,), 6_000, kit.calls.launch, load_ns=kit.about(ns, 0.1))]

    return Phase(make, 50_000, ns, 1)


def warm_up(kit: Kit) -> Phase:
    """Kernels of which no iteration has the like."""
    work = phases.Layers(kit, kit.between(5_000, 200_000), kit.draw.randint(1, 3))
    return phases.kernels(kit, work, kit.between(3_000, 30_000), kit.between(2_000, 10_000))


def tail(kit: Kit, scale_ns: int) -> list[Phase]:
    """Results are copied back and written, and a last fill ends the device's span."""
    clear_ns = kit.between(5_000, 50_000)

    def clear(_: int) -> list[p.Step]:
        return [p.Transfer(kit.stream, p.Fill(1 << 20, kit.about(clear_ns)), 4_000, kit.calls.fill)]

    return [
        phases.read_back(kit, kit.between(50_000, 1_000_000), kit.between(10_000, 200_000)),
        phases.host_work(kit, kit.between(100_000, max(200_000, scale_ns))),
        Phase(clear, clear_ns, 4_000, 1),
    ]


def stuck(kit: Kit) -> Phase:
    """A kernel that never ends, and the wait for it that never returns."""
    name = kit.names.kernel()

    def make(_: int) -> list[p.Step]:
        endless = p.Kernel(name, 60_000_000_000, visible=False)
        call = p.Launch(kit.stream, (endless,), kit.about(5_000), kit.calls.launch)
        return [call, p.Code(kit.about(50_000)), p.Hang(kit.calls.device)]

    return Phase(make, 0, 50_000, 0)


def helper_thread(kit: Kit, whole_ns: int, process: int) -> p.Thread:
    """A thread that launches nothing and is always in some range, or in calls that block: it holds nobody up."""
    outer, inner = kit.annotation(), kit.function()
    period = max(whole_ns // kit.draw.randint(7, 90), 50_000)
    registers = kit.chance(0.5)
    steps: list[p.Step] = []
    for _ in range(whole_ns // period + 1):
        body: list[p.Step] = [p.Code(kit.about(period * 0.8, 0.2))]
        if registers:
            body.append(p.Call(kit.calls.register, kit.about(period * 0.1, 0.2)))
        steps += phases.within(body, outer, inner)
        steps.append(p.Code(kit.about(period * 0.1, 0.2)))
    if kit.chance(0.3):
        steps.append(p.Hang(kit.calls.event))
    root = p.Scope("_bootstrap", "root", "/usr/lib/python3.11/threading.py", 1002)
    return p.Thread("helper", tuple(phases.within(steps, root)), 4777, process)
