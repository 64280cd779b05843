"""Parts of iterations: kernels, host work, copies, waits, allocations."""

from __future__ import annotations

from collections.abc import Sequence

from tests.truth import program as p
from tests.truth.kit import Kit, Phase

MICROSECOND, MILLISECOND = 1_000, 1_000_000
#: What a kernel takes on any device.
SHORTEST_KERNEL, LONGEST_KERNEL = 2 * MICROSECOND, 50 * MILLISECOND


def within(steps: Sequence[p.Step], *scopes: p.Scope | None) -> list[p.Step]:
    """Steps inside of scopes, the outermost first."""
    body = tuple(steps)
    for scope in reversed(scopes):
        body = body if scope is None else (p.Within(scope, body),)
    return list(body)


def launch(kit: Kit, stream: p.Stream, name: str, ns: int, call_ns: int = 4 * MICROSECOND) -> p.Launch:
    """A launch of one kernel."""
    early = kit.early > 0 and kit.noise.random() < kit.early
    ns = min(LONGEST_KERNEL, max(SHORTEST_KERNEL, kit.about(ns, 0.03)))
    return p.Launch(stream, (p.Kernel(name, ns),), kit.about(call_ns, 0.15), kit.calls.launch, early=early)


class Layers:
    """The kernels of an iteration: some at its start, the same ones in every layer, some at its end."""

    def __init__(self, kit: Kit, scale_ns: int, layers: int, most: int = 6) -> None:
        self.layers = layers
        self._kit = kit
        self._scale_ns = scale_ns
        self.prologue = [self._kernel() for _ in range(kit.draw.randint(1, 2))]
        own = [self._kernel() for _ in range(kit.draw.randint(2, most))]
        again = [kit.draw.choice(own) for _ in range(kit.draw.randint(0, 2))]
        self.layer = own + again
        self.epilogue = [self._kernel() for _ in range(kit.draw.randint(1, 3))]

    def _kernel(self) -> tuple[str, int]:
        ns = self._scale_ns * self._kit.draw.lognormvariate(0, 0.7)
        return self._kit.names.kernel(), round(min(LONGEST_KERNEL, max(SHORTEST_KERNEL, ns)))

    @property
    def listed(self) -> list[tuple[str, int]]:
        """All kernels of an iteration, in order."""
        return self.prologue + self.layer * self.layers + self.epilogue

    @property
    def device_ns(self) -> int:
        """What they take on the device."""
        return sum(ns for _, ns in self.listed)


def kernels(kit: Kit, work: Layers, gap_ns: int, call_ns: int, stream: p.Stream | None = None) -> Phase:
    """Launches one after another, with host code before each; in operators and annotated layers where the kit says so."""
    outer = kit.annotation() if kit.chance(0.7) else kit.function()
    inner = kit.function() if kit.chance(0.5) else None
    block = kit.annotation() if kit.chance(0.4) else None
    operators = {name: kit.operator() for name, _ in work.listed} if kit.operators else {}
    attributed = {name for name, _ in work.listed if kit.chance(0.15)}
    where = stream or kit.stream

    def one(name: str, ns: int) -> list[p.Step]:
        steps: list[p.Step] = [p.Code(kit.about(gap_ns, 0.2)), launch(kit, where, name, ns, call_ns)]
        if name in attributed:
            steps.insert(1, p.Call(kit.calls.attributes, kit.about(800, 0.3), blocking=False))
        return within(steps, operators.get(name))

    def make(_: int) -> list[p.Step]:
        steps = [step for kernel in work.prologue for step in one(*kernel)]
        for _layer in range(work.layers):
            steps += within([step for kernel in work.layer for step in one(*kernel)], block)
        steps += [step for kernel in work.epilogue for step in one(*kernel)]
        return within(steps, outer, inner)

    count = len(work.listed)
    return Phase(make, work.device_ns, count * (gap_ns + call_ns), count)


def unhurried(kit: Kit, count: int) -> Phase:
    """Short kernels, each launched when the one before has ended: how long launches take when nothing is before them."""
    names = [kit.names.kernel() for _ in range(count)]
    ns = kit.between(SHORTEST_KERNEL, 2 * SHORTEST_KERNEL)
    gap_ns = 3 * kit.machine.latency_ns + 2 * ns

    def make(_: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for name in names:
            steps += [p.Code(kit.about(gap_ns)), launch(kit, kit.stream, name, ns)]
        return [*steps, p.Code(kit.about(gap_ns))]

    return Phase(make, count * ns, (count + 1) * gap_ns + count * 4_000, count)


def graphs(kit: Kit, work: Layers, gap_ns: int, call_ns: int, hidden_ns: int = 0) -> Phase:
    """A launch, a graph of all layers, and a launch; `hidden_ns`: a node of the graph that is not in the file."""
    outer = kit.annotation() if kit.chance(0.6) else kit.function()
    number = kit.draw.randint(3, 90)

    def make(_: int) -> list[p.Step]:
        nodes: list[p.Work] = [p.Kernel(name, kit.about(ns)) for name, ns in work.layer * work.layers]
        if hidden_ns:
            nodes.insert(len(nodes) // 2, p.Kernel("hidden", kit.about(hidden_ns, 0.1), visible=False))
        graph = p.Launch(kit.stream, tuple(nodes), kit.about(2 * call_ns), kit.calls.graph, graph=number)
        steps: list[p.Step] = []
        for name, ns in work.prologue:
            steps += [p.Code(kit.about(gap_ns)), launch(kit, kit.stream, name, ns, call_ns)]
        steps += [p.Code(kit.about(gap_ns)), graph]
        for name, ns in work.epilogue:
            steps += [p.Code(kit.about(gap_ns)), launch(kit, kit.stream, name, ns, call_ns)]
        return within(steps, outer)

    count = 1 + len(work.prologue) + len(work.epilogue)
    return Phase(make, work.device_ns + hidden_ns, count * (gap_ns + call_ns), len(work.listed))


def host_work(kit: Kit, ns: int, name: str | None = None, spread: float = 0.05) -> Phase:
    """Host code in nested scopes: all of it in one, or parts of it in several."""
    outer = kit.annotation(name) if name or kit.chance(0.7) else kit.function()
    middle = kit.function() if kit.chance(0.6) else None
    leaves = [kit.library() if kit.chance(0.6) else kit.function() for _ in range(3)]
    parts = kit.draw.choice(((0.98, 0.02), (1.0,), (0.5, 0.3, 0.2), (0.4, 0.35, 0.25)))

    def make(_: int) -> list[p.Step]:
        whole = kit.about(ns, spread)
        body: list[p.Step] = []
        for part, leaf in zip(parts, leaves, strict=False):
            body += within([p.Code(round(whole * part))], leaf)
        return within(body, outer, middle)

    return Phase(make, 0, ns, 0)


def copy_function(kit: Kit, kind: str, blocking: bool) -> str:
    """The function that copies in a direction."""
    if kit.calls.launch == "cuLaunchKernel":
        return f"cuMemcpy{kind}_v2" if blocking else f"cuMemcpy{kind}Async_v2"
    return kit.calls.copy if blocking else kit.calls.copy_async


def upload(kit: Kit, ns: int, pinned: bool, stream: p.Stream | None = None) -> Phase:
    """Copies to the device: pinned ones go on by themselves, pageable ones are staged by the host inside the call."""
    where, pieces = stream or kit.stream, kit.draw.randint(1, 3)
    scope = kit.function() if kit.chance(0.5) else None
    size = max(64, ns * kit.draw.randint(8, 25))
    source = "pinned" if pinned else "pageable"
    function = copy_function(kit, "HtoD", not pinned and kit.chance(0.4))
    stage_ns = 0 if pinned else round(ns * kit.draw.uniform(0.3, 1.5))

    def make(_: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for _piece in range(pieces):
            copy = p.Copy("HtoD", size, max(1_000, kit.about(ns)), source, "device")
            stage = kit.about(stage_ns) if stage_ns else 0
            call = p.Transfer(
                where, copy, kit.about(4_000, 0.2), function, stage_ns=stage, blocking=not pinned
            )
            steps += [p.Code(kit.about(5_000)), call]
        return within(steps, scope)

    return Phase(make, pieces * ns, pieces * (9_000 + stage_ns), pieces)


def read_back(kit: Kit, ns: int, after_ns: int = 0) -> Phase:
    """A blocking copy to pageable memory, as `.item()` and `.cpu()` make it; it ends because the device has ended."""
    scope = kit.operator() if kit.operators else (kit.function() if kit.chance(0.5) else None)
    size = max(4, ns // 2)
    function = copy_function(kit, "DtoH", kit.chance(0.5))

    def make(_: int) -> list[p.Step]:
        copy = p.Copy("DtoH", size, max(1_000, kit.about(ns)), "device", "pageable")
        after = kit.about(after_ns) if after_ns else 0
        call = p.Transfer(kit.stream, copy, kit.about(5_000, 0.2), function, blocking=True, after_ns=after)
        return within([p.Code(kit.about(4_000)), call], scope)

    return Phase(make, ns, after_ns + 10_000, 1)


def wait(kit: Kit, busy_ns: int) -> Phase:
    """The host waits for the device, a stream, an event, or asks until an event has happened.

    busy_ns: about how long it waits; it asks some twenty times.
    """
    how = kit.draw.choice(("device", "stream", "event", "query"))
    scope = kit.function() if kit.chance(0.5) else None

    def make(number: int) -> list[p.Step]:
        event = f"done {number}"
        record = p.Record(event, kit.stream, kit.calls.record)
        steps: dict[str, list[p.Step]] = {
            "device": [p.Synchronise(kit.stream.device, kit.calls.device)],
            "stream": [p.Synchronise(kit.stream, kit.calls.stream)],
            "event": [record, p.Synchronise(event, kit.calls.event)],
            "query": [
                record,
                p.Poll(event, kit.calls.query, pause_ns=kit.about(20_000 + busy_ns // 20, 0.3)),
            ],
        }
        return within([p.Code(kit.about(3_000)), *steps[how]], scope)

    return Phase(make, 0, 10_000, 0)


def allocations(kit: Kit, ns: int, count: int, free_waits: bool) -> Phase:
    """Calls that take long and block: allocations and frees, which may wait for the device first, registrations, modules."""
    scope = kit.function() if kit.chance(0.5) else None
    names = [*kit.calls.allocate, kit.calls.register, kit.calls.module]
    functions = [kit.draw.choice(names) for _ in range(count)]
    size = 1 << kit.draw.randint(16, 30)

    def make(_: int) -> list[p.Step]:
        steps: list[p.Step] = []
        for function in functions:
            steps += [p.Code(kit.about(6_000)), p.Call(function, kit.about(ns, 0.15), bytes=size)]
        if free_waits:
            steps += [
                p.Code(kit.about(6_000)),
                p.Call(kit.calls.free, kit.about(ns, 0.15), waits=kit.stream.device),
            ]
        return within(steps, scope)

    return Phase(make, 0, (count + free_waits) * ns, 0)
