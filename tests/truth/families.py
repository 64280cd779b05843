"""Kinds of programs: what an iteration of each is made of. Sizes and everything else are left to chance."""

from __future__ import annotations

from collections.abc import Callable

from tests.truth import phases as f
from tests.truth import program as p
from tests.truth import together, unrecorded
from tests.truth.kit import Kit, Phase
from tests.truth.loops import Loop, Marks

#: What a family makes of a kit: a loop without count and marks.
Family = Callable[[Kit], Loop]


def _loop(*found: Phase) -> Loop:
    return Loop(list(found), 0, Marks("none"))


def _layers(kit: Kit, low_ns: int, high_ns: int, most_layers: int = 8) -> f.Layers:
    return f.Layers(kit, kit.between(low_ns, high_ns), kit.draw.randint(2, most_layers))


def _plain(kit: Kit, work: f.Layers) -> Phase:
    return f.kernels(kit, work, kit.between(2_000, 12_000), kit.between(2_000, 8_000))


def loading(kit: Kit) -> Loop:
    """Host code between iterations, which may or may not be a data loader's."""
    work = _layers(kit, 10_000, 500_000)
    compute = _plain(kit, work)
    ns = min(500_000_000, max(100_000, round(compute.device_ns * kit.draw.choice((0.1, 0.6, 1.5, 4)))))
    usual = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    load = f.host_work(kit, ns, usual if kit.chance(0.3) else None)
    found = [load]
    if kit.chance(0.7):
        found.append(f.upload(kit, kit.between(2_000, 200_000), kit.chance(0.5)))
    end = f.read_back(kit, 2_000) if kit.chance(0.6) else f.wait(kit, compute.device_ns)
    return _loop(*found, compute, end)


def launching(kit: Kit) -> Loop:
    """Kernels shorter than what it takes to launch them."""
    work = _layers(kit, 2_000, 6_000)
    call, gap = kit.draw.choice(((9_000, 800), (7_000, 7_000), (3_000, 30_000), (4_000, 120_000)))
    return _loop(f.kernels(kit, work, gap, call), f.wait(kit, work.device_ns))


def busy(kit: Kit) -> Loop:
    """Long kernels, enqueued far ahead; with a short queue launches block."""
    work = _layers(kit, 200_000, 4_000_000)
    found = [_plain(kit, work)]
    if kit.chance(0.5):
        found.append(f.wait(kit, work.device_ns))
    return _loop(*found)


def copying(kit: Kit) -> Loop:
    """Copies that nothing runs beside, and some that are hidden behind kernels."""
    work = _layers(kit, 10_000, 300_000)
    compute = _plain(kit, work)
    ns = max(5_000, round(compute.device_ns * kit.draw.choice((0.2, 1, 3)) / 2))
    found = [f.upload(kit, ns, kit.chance(0.5))]
    if kit.chance(0.4):
        found.append(f.upload(kit, ns, True, kit.side))
    found.append(compute)
    if kit.chance(0.6):
        found.append(f.read_back(kit, ns, kit.between(5_000, 500_000)))
    else:
        found.append(f.wait(kit, compute.device_ns))
    return _loop(*found)


def communicating(kit: Kit, members: int = 2) -> Loop:
    """Ranks that reduce: each waits for the slowest."""
    work = _layers(kit, 20_000, 400_000)
    compute = _plain(kit, work)
    ns = max(10_000, round(compute.device_ns * kit.draw.choice((0.1, 0.5, 2))))
    count = kit.draw.randint(1, 4)
    reduce = together.collective(kit, ns // count, members, count, kit.chance(0.5), work)
    return _loop(compute, reduce, f.wait(kit, compute.device_ns))


def alternating(kit: Kit) -> Loop:
    """Two devices that work in turn: each one's stream waits for the other's."""
    first, second = _layers(kit, 30_000, 400_000), _layers(kit, 30_000, 400_000)
    other = p.Stream(kit.stream.device + kit.draw.randint(1, 5), kit.draw.randint(1, 2**31 - 1))
    turn = together.across(kit, first, second, other, kit.between(2_000, 8_000))
    return _loop(f.unhurried(kit, kit.draw.randint(6, 10)), turn, f.wait(kit, turn.device_ns))


def allocating(kit: Kit) -> Loop:
    """Allocations, frees, registrations or module loads in the loop."""
    work = _layers(kit, 10_000, 200_000)
    compute = _plain(kit, work)
    ns = max(20_000, round(compute.device_ns * kit.draw.choice((0.15, 0.5, 1.5))))
    calls = f.allocations(kit, ns, kit.draw.randint(1, 3), kit.chance(0.5))
    order = [calls, compute] if kit.chance(0.5) else [compute, calls]
    return _loop(*order, f.wait(kit, compute.device_ns))


def lost_launches(kit: Kit) -> Loop:
    """The recorder has lost launches, so that nobody knows what was before their kernels."""
    work = _layers(kit, 5_000, 60_000)
    compute = f.kernels(kit, work, kit.between(10_000, 60_000), kit.between(2_000, 8_000))
    return _loop(
        unrecorded.losing(kit, compute, kit.draw.choice((0.1, 0.4, 1.0))), f.wait(kit, compute.device_ns)
    )


def hidden_nodes(kit: Kit) -> Loop:
    """Graphs some of whose nodes are not in the file, or streams in which others' work is not."""
    work = _layers(kit, 10_000, 100_000)
    hidden = max(60 * kit.machine.latency_ns, round(work.device_ns * kit.draw.choice((0.2, 0.7, 2))))
    usual = f.unhurried(kit, kit.draw.randint(4, 7))
    if kit.chance(0.5):
        graph = f.graphs(kit, work, kit.between(4_000, 20_000), kit.between(3_000, 9_000), hidden)
        return _loop(usual, graph, f.wait(kit, work.device_ns + hidden))
    return _loop(usual, unrecorded.unseen_work(kit, hidden), _plain(kit, work), f.wait(kit, work.device_ns))


def late_recording(kit: Kit) -> Loop:
    """The recording begins when much is enqueued already."""
    work = _layers(kit, 20_000, 200_000)
    early = f.Layers(kit, kit.between(100_000, 3_000_000), kit.draw.randint(1, 3))
    before = [
        f.kernels(kit, early, 3_000, 4_000),
        unrecorded.unseen_work(kit, kit.between(1_000_000, 20_000_000)),
    ]
    before += [f.kernels(kit, early, 3_000, 4_000)]
    loop = _loop(_plain(kit, work), f.wait(kit, work.device_ns))
    loop.before, loop.recording_begins = before, True
    return loop


def serving(kit: Kit) -> Loop:
    """Tokens: a graph or small kernels each, then a copy back, and host code that picks the next one."""
    work = _layers(kit, 4_000, 40_000)
    if kit.chance(0.6):
        decode = f.graphs(kit, work, kit.between(3_000, 20_000), kit.between(3_000, 9_000))
    else:
        decode = f.kernels(kit, work, kit.between(2_000, 25_000), kit.between(2_000, 8_000))
    pick = f.host_work(kit, kit.between(20_000, 2_000_000), spread=0.1)
    return _loop(decode, f.read_back(kit, 1_500), pick)


def tiny_gaps(kit: Kit) -> Loop:
    """Very many tiny gaps, and few large ones, either of which may be more in all."""
    work = _layers(kit, 3_000, 12_000)
    compute = f.kernels(kit, work, kit.between(6_000, 30_000), kit.between(2_000, 6_000))
    ns = max(100_000, round(compute.host_ns * kit.draw.choice((0.15, 0.6, 2.5))))
    return _loop(compute, f.wait(kit, work.device_ns), f.host_work(kit, ns))


def many_threads(kit: Kit) -> Loop:
    """Further threads launch to streams of their own meanwhile."""
    loop = loading(kit) if kit.chance(0.5) else busy(kit)
    for _ in range(kit.draw.randint(1, 3)):
        stream = p.Stream(kit.stream.device, kit.draw.randint(1, 2**31 - 1))
        compute = f.kernels(kit, _layers(kit, 5_000, 150_000, 3), kit.between(5_000, 60_000), 4_000, stream)

        def work(number: int, made: Phase = compute, where: p.Stream = stream) -> list[p.Step]:
            return [*made.make(number), p.Synchronise(where, kit.calls.stream)]

        loop.others.append((kit.names.function(), work))
    return loop


def recording(kit: Kit) -> Loop:
    """The recorder takes time of its own."""
    work = _layers(kit, 10_000, 200_000)
    compute = _plain(kit, work)
    ns = max(30_000, round(compute.device_ns * kit.draw.choice((0.08, 0.2))))
    pause = unrecorded.recorder_pause(kit, ns, kit.draw.randint(1, 3), kit.chance(0.4))
    return _loop(compute, f.wait(kit, compute.device_ns), pause)


def training(kit: Kit) -> Loop:
    """Load, copy, forward, loss, backward on a thread of its own, update."""
    forward, backward = _layers(kit, 10_000, 200_000), _layers(kit, 10_000, 300_000)
    ns = max(100_000, round(forward.device_ns * kit.draw.choice((0.1, 1, 4))))
    there = f.kernels(kit, backward, kit.between(3_000, 15_000), kit.between(2_000, 6_000))
    here, elsewhere = together.elsewhere(kit, there, "backward")
    update = f.kernels(kit, _layers(kit, 3_000, 20_000, 3), kit.between(3_000, 20_000), 4_000)
    found = [f.host_work(kit, ns), f.upload(kit, kit.between(2_000, 100_000), kit.chance(0.5))]
    loop = _loop(*found, _plain(kit, forward), here, update, f.read_back(kit, 2_000))
    loop.others.append(("pt_autograd_0", elsewhere.make))
    return loop


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        loading,
        launching,
        busy,
        copying,
        communicating,
        alternating,
        allocating,
        lost_launches,
        hidden_nodes,
        late_recording,
        serving,
        tiny_gaps,
        many_threads,
        recording,
        training,
    )
}
