"""What `known.cu` executes, worked out from its text: launches with their numbers, lanes, addresses and banks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("known.cu")
_LAUNCH = re.compile(r"(\w+)(?:<(\d+)>)?<<<(\d+), (\d+)>>>\((.*)\);")
_WARP, _WORD, _SECTOR, _LINE, _BANKS = 32, 4, 32, 128, 32
LANES = range(_WARP)


@dataclass(frozen=True)
class Launch:
    """One launch of `main`: a kernel, its template argument (0 for none), its size, and the numbers among its arguments."""

    kernel: str
    stride: int
    blocks: int
    warps: int
    numbers: tuple[int, ...]

    @property
    def name(self) -> str:
        """The kernel, with its template argument."""
        return f"{self.kernel}<{self.stride}>" if self.stride else self.kernel


def launches() -> list[Launch]:
    """Of one repetition."""
    found = []
    for kernel, stride, blocks, threads, arguments in _LAUNCH.findall(SOURCE.read_text()):
        numbers = tuple(int(one) for one in arguments.split(", ") if one.isdigit())
        found.append(
            Launch(kernel, int(stride or 0), int(blocks), int(blocks) * int(threads) // _WARP, numbers)
        )
    return found


def added_by_cupti(launch: Launch) -> int:
    """Instructions that CUPTI 13.0 adds to a launch on an H100 to record its time beside others."""
    return 5 * launch.blocks + 8 * launch.warps


def accessed(lanes: Iterable[int], stride: int) -> dict[str, int]:
    """Sectors and tags of 4 bytes from every `stride`-th word by some lanes of a warp, and sectors if those lay together."""
    addresses = [lane * stride * _WORD for lane in lanes]
    return {
        "sectors_mem_global": len({address // _SECTOR for address in addresses}),
        "sectors_mem_global_ideal": -(-len(addresses) * _WORD // _SECTOR),
        "l1tex_tags_mem_global": len({address // _LINE for address in addresses}),
    }


def wavefronts(stride: int) -> dict[str, int]:
    """Of words `stride` apart in shared memory: as many as the bank with the most different words has of them."""
    banks = Counter(lane * stride % _BANKS for lane in LANES)
    ideal = "l1tex_pipe_lsu_wavefronts_mem_shared_ideal"
    return {"l1tex_pipe_lsu_wavefronts_mem_shared": max(banks.values()), ideal: 1}


def _executed(times: int, threads: int, on: int, more: dict[str, int] | None = None) -> dict[str, int]:
    """Counts of one warp that executes an instruction so often, with `threads` lanes of which a predicate leaves `on`."""
    return {"inst_executed": times, "thread_inst_executed": times * threads, "thread_inst_executed_pred_on": times * on,
            **{metric: value * times for metric, value in (more or {}).items()}}  # fmt: skip


def _trips(launch: Launch) -> dict[str, dict[str, int]]:
    (count,) = launch.numbers
    return {"FFMA": _executed(count, 32, 32), "STG": _executed(1, 32, 32, accessed(LANES, 1))}


def _diverge(launch: Launch) -> dict[str, dict[str, int]]:
    many, few = launch.numbers
    first = sum(lane < 8 for lane in LANES)
    rest = _WARP - first
    return {"POPC": _executed(many, first, first), "BREV": _executed(few, rest, rest),
            "STG": _executed(1, 32, 32, accessed(LANES, 1))}  # fmt: skip


def _predicated(_: Launch) -> dict[str, dict[str, int]]:
    even = [lane for lane in LANES if lane % 2 == 0]
    return {
        "@!P0 STG": _executed(1, 32, len(even), accessed(even, 1)),
        "STG": _executed(1, 32, 32, accessed(LANES, 1)),
    }


def _strided(launch: Launch) -> dict[str, dict[str, int]]:
    return {
        "LDG": _executed(1, 32, 32, accessed(LANES, launch.stride)),
        "STG": _executed(1, 32, 32, accessed(LANES, 1)),
    }


def _banks(launch: Launch) -> dict[str, dict[str, int]]:
    conflicts = _executed(1, 32, 32, wavefronts(launch.stride))
    return {"STS": conflicts, "LDS": conflicts, "STG": _executed(1, 32, 32, accessed(LANES, 1))}


_OF_A_WARP: dict[str, Callable[[Launch], dict[str, dict[str, int]]]] = {
    "trips": _trips, "diverge": _diverge, "predicated": _predicated, "strided": _strided, "banks": _banks,
}  # fmt: skip

#: (kernel, start of an instruction) → its counts in one launch.
KNOWN = {
    (launch.name, text): {metric: value * launch.warps for metric, value in counts.items()}
    for launch in launches()
    for text, counts in _OF_A_WARP[launch.kernel](launch).items()
}


def counted_as_known(kernels: list[dict[str, Any]], name: str, text: str, repetitions: int) -> None:
    """Compare one instruction of `sass counts --json` with what is known of it."""
    [kernel] = [kernel for kernel in kernels if f"{name}(" in kernel["name"]]
    [found] = [one for one in kernel["instructions"] if one["sass"].startswith(text)]
    expected = {metric: value * repetitions for metric, value in KNOWN[name, text].items()}
    assert {metric: found["metrics"][metric] for metric in expected} == expected
    assert kernel["launches"] == repetitions
