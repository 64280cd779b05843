"""One thread of a core dump for people: calls, registers, parameters, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

from warpsight.ui.render.dump.summary import frame_lines


def show_thread(state: dict[str, Any], stream: IO[str], memory: int) -> None:
    """Print a thread (:func:`warpsight.debug.gpucore.details.details`); `memory` bytes of each kind at most."""
    for line in _thread_lines(state, memory):
        stream.write(line.rstrip() + "\n")


def _thread_lines(state: dict[str, Any], memory: int) -> Iterator[str]:
    """The lines of :func:`show_thread`."""
    where = state["where"]
    block = tuple(where["block"]) if where["block"] is not None else "?"
    yield (
        f"grid {where['grid']} block {block} thread {tuple(where['thread'])}: device {where['device']}, SM {where['sm']}, "
        f"warp {where['warp']}, lane {where['lane']}; {state['state']}"
    )
    if state["exception"]:
        yield f"  exception {state['exception']}"
    if state["waits_for"]:
        yield f"  waits for {state['waits_for']}"
    for number, call in enumerate(state["calls"]):
        yield f"  #{number} {call['address']}"
        yield from frame_lines(call, indent="     ")
    for instruction in state["code"]:
        mark = "=>" if instruction["address"] == state["pc"] else "  "
        yield f"  {mark} {instruction['address']}  {instruction['text']}"
    yield from _words("registers", "R", state["registers"])
    yield from _words("uniform registers", "UR", state["uniform_registers"])
    yield "  predicates " + _flags("P", state["predicates"])
    yield "  uniform predicates " + _flags("UP", state["uniform_predicates"])
    masks = [f"B{i} {mask:#010x}" for i, mask in enumerate(state["convergence_barriers"]) if mask]
    yield "  convergence barriers " + (", ".join(masks) or "none in use")
    for name in ("parameters", "shared", "local"):
        yield from _memory(name, state[name], memory)


def _words(title: str, prefix: str, values: Sequence[int]) -> Iterator[str]:
    used = len(values)
    while used and values[used - 1] == 0:
        used -= 1
    yield f"  {title}: {len(values)}" + (" (not in the dump)" if not values else "")
    for begin in range(0, used, 4):
        row = [f"{prefix}{i:<3} {values[i]:#010x}" for i in range(begin, min(begin + 4, used))]
        yield "    " + "  ".join(row)
    if used < len(values):
        yield f"    {prefix}{used} to {prefix}{len(values) - 1} are 0"


def _flags(prefix: str, values: Sequence[bool]) -> str:
    return " ".join(f"{prefix}{i}={int(value)}" for i, value in enumerate(values)) or "not in the dump"


def _memory(name: str, found: dict[str, Any] | None, limit: int) -> Iterator[str]:
    if found is None:
        yield f"  {name}: not in the dump"
        return
    data = bytes.fromhex(found["hex"])
    shown = len(data) if name == "parameters" else min(limit, len(data))
    more = "" if shown >= len(data) else " (--memory N shows it)" if not shown else f", the first {shown:,}"
    yield f"  {name}: {len(data):,} bytes at {found['address']}{more}"
    previous = None
    for begin in range(0, shown, 16):
        row = data[begin : begin + 16]
        if row == previous and begin + 16 < shown:
            continue
        previous = row
        words = " ".join(row[i : i + 4][::-1].hex() for i in range(0, len(row), 4))
        yield f"    +{begin:#06x}  {words}"
