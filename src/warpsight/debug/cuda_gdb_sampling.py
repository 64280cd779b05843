"""What a hanging process is doing on the GPU, found by asking cuda-gdb several times.

Attaching stops the process for half a second and lets it go on. It works only where no other CUDA tool is in the process:
the debugger and CUPTI exclude each other, so a process that warpsight records cannot be sampled, which the answer says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpsight.debug import cuda_gdb
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.errors import WarpsightError

#: Kernels whose threads are requested; further ones are only named.
_KERNELS = 4
_CODE_PLACES = 32
_BLOCKING_BEFORE = ("BAR.SYNC", "BAR.RED", "SYNCS.PHASECHK", "NANOSLEEP")
_BLOCKING_AT = ("WARPSYNC", "BSYNC", "UCGABAR_WAIT", "SYNCS.PHASECHK")

Runner = Callable[[Sequence[str], float, int], str]


@dataclass(frozen=True)
class Sample:
    """One look: kernels by grid id, and how many threads of each are at each PC."""

    kernels: tuple[cuda_gdb.Kernel, ...]
    places: tuple[tuple[int, int, int], ...]
    blocks: tuple[tuple[int, cuda_gdb.Coordinates, cuda_gdb.Coordinates], ...]
    code: dict[int, str]


@dataclass(frozen=True)
class HangSampling:
    """The classification of several looks.

    Attributes:
        verdict: `barrier`, `looping`, `mixed`, `no active kernel`, `no hang` or `unavailable`.
        kernels: names of the kernels that were there all the time.
        waiting, looping: threads of the last look that stand at a barrier or other wait, and those that do not.
        samples: the looks; reason: why nothing could be had, or what the verdict rests on.
    """

    verdict: str
    kernels: tuple[str, ...]
    waiting: int
    looping: int
    samples: tuple[Sample, ...]
    reason: str


def sample_process(
    pid: int, count: int = 3, interval_s: float = 0.3, timeout_s: float = 15.0, run: Runner | None = None
) -> HangSampling:
    """Look at a process several times and say whether its kernels hang, and how.

    Args:
        pid: the process; it is stopped for about half a second at each look and goes on afterwards.
        count: looks at most.
        interval_s: seconds between them, in which the program runs.
        timeout_s: for all of it together; what was seen until then is used.
        run: instead of :func:`warpsight.debug.cuda_gdb.run`.
    """
    deadline = time.monotonic() + timeout_s
    ask = run or (lambda commands, limit, target: cuda_gdb.run(commands, limit, target))
    samples: list[Sample] = []
    reason = ""
    for number in range(count):
        left = deadline - time.monotonic()
        if left <= 0:
            reason = f"time was up after {len(samples)} of {count} looks"
            break
        try:
            view = cuda_gdb.parse(ask(_commands(samples), left, pid))
        except WarpsightError as error:
            reason = str(error)
            break
        if view.obstacle and not view.kernels:
            reason = view.obstacle
            break
        samples.append(_sample(view))
        if number + 1 < count:
            time.sleep(max(0.0, min(interval_s, deadline - time.monotonic())))
    if not samples:
        return HangSampling("unavailable", (), 0, 0, (), reason or "no look was taken")
    return classify(samples, reason)


def _commands(samples: Sequence[Sample]) -> list[str]:
    """The commands; from the second look on also the instructions at the places seen before."""
    commands = ["info cuda kernels", *(f"info cuda threads kernel {number}" for number in range(_KERNELS))]
    known = {address for sample in samples for address in sample.code}
    wanted = {pc for sample in samples for _, pc, _ in sample.places}
    new = sorted(wanted - known)[:_CODE_PLACES]
    return [*commands, *(f"x/2i {pc - INSTRUCTION_SIZE:#x}" for pc in new)]


def _sample(view: cuda_gdb.View) -> Sample:
    grid_of = {kernel.number: kernel.grid_id for kernel in view.kernels}
    counts: Counter[tuple[int, int]] = Counter()
    for row in view.threads:
        counts[grid_of.get(row.kernel, row.kernel), row.pc] += row.count
    blocks = {(grid_of.get(row.kernel, row.kernel), row.first_block, row.last_block) for row in view.threads}
    places = tuple((grid, pc, count) for (grid, pc), count in sorted(counts.items()))
    return Sample(view.kernels, places, tuple(sorted(blocks)), view.code)


def classify(samples: Sequence[Sample], note: str = "") -> HangSampling:
    """The verdict on several looks at a process.

    Kernels hang when the same grids, with the same blocks, are there in every look; a grid that came or went, or a block
    that changed, is progress. Of a hang, threads wait when the instruction before their PC, or at it, is a barrier or
    another wait; the rest run, and since their blocks do not change, they run in circles.
    """
    looks = tuple(samples)
    last = looks[-1]
    if not any(sample.kernels for sample in looks):
        return HangSampling(
            "no active kernel", (), 0, 0, looks, note or "no kernel was on the GPU in any look"
        )
    stayed = set.intersection(*({kernel.grid_id for kernel in sample.kernels} for sample in looks))
    names = tuple(dict.fromkeys(kernel.name for kernel in last.kernels if kernel.grid_id in stayed))
    if len(looks) < 2:
        return HangSampling("no hang", names, 0, 0, looks, note or "one look alone cannot show a hang")
    if not stayed or _moved(looks, stayed):
        why = "kernels came and went" if not stayed else "blocks finished between the looks"
        return HangSampling("no hang", names, 0, 0, looks, note or why)
    code = {address: text for sample in looks for address, text in sample.code.items()}
    waiting = sum(count for grid, pc, count in last.places if grid in stayed and _waits(pc, code))
    threads = sum(count for grid, _, count in last.places if grid in stayed)
    if not threads:
        return HangSampling(
            "unavailable", names, 0, 0, looks, note or "cuda-gdb listed no threads of the kernels"
        )
    verdict = "barrier" if waiting == threads else "looping" if waiting == 0 else "mixed"
    reason = f"the same blocks in {len(looks)} looks; {waiting:,} of {threads:,} threads at a barrier or wait"
    return HangSampling(verdict, names, waiting, threads - waiting, looks, note or reason)


def _moved(looks: Sequence[Sample], stayed: set[int]) -> bool:
    """Whether blocks of the grids that stayed came or went."""
    return len({_resident(sample, stayed) for sample in looks}) > 1


def _resident(sample: Sample, stayed: set[int]) -> tuple[tuple[int, int, int], ...]:
    """The blocks of some grids as (grid, first, last) of their linear numbers, ranges that touch joined.

    cuda-gdb lists a range per PC, so the ranges of the same blocks change with the PCs.
    """
    shape = {kernel.grid_id: kernel.grid for kernel in sample.kernels}

    def number(grid: int, block: cuda_gdb.Coordinates) -> int:
        x, y, z = block
        return x + shape[grid][0] * (y + shape[grid][1] * z)

    ranges = sorted(
        (grid, number(grid, first), number(grid, last))
        for grid, first, last in sample.blocks
        if grid in stayed
    )
    found: list[tuple[int, int, int]] = []
    for grid, first, last in ranges:
        if found and found[-1][0] == grid and first <= found[-1][2] + 1:
            found[-1] = (grid, found[-1][1], max(last, found[-1][2]))
        else:
            found.append((grid, first, last))
    return tuple(found)


def _waits(pc: int, code: dict[int, str]) -> bool:
    here, before = _operation(code.get(pc, "")), _operation(code.get(pc - INSTRUCTION_SIZE, ""))
    return here.startswith(_BLOCKING_AT) or before.startswith(_BLOCKING_BEFORE)


def _operation(text: str) -> str:
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0] if words else ""
