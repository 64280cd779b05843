"""What a probe knows about an event, and the places where probes can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from warpsight.errors import UsageError, choices
from warpsight.formats.events.kinds import BY_NAME, CLASSES, DELAY, PREFETCH, READ, WRITE

_MEMORY = ("global", "shared", "local", "remote_shared", "matrix")
_OPERATIONS = {"load": READ, "store": WRITE, "atomic": READ | WRITE}
_FLAGS = READ | WRITE | PREFETCH


class Event:
    """One lane's part of an instruction; at level "warp", the part of the first active lane."""

    #: Operand A (an access: its address; for shared memory an offset) and operand B (`sass events --json` names them).
    address: int
    a: int
    b: int
    #: Bytes that the lane accesses.
    size: int
    #: Low and high 64 bits of the value it stores, or loads (memory just before the load); 0 for atomics.
    value: int
    value_high: int
    #: Of the warp; of the block; of the grid, x fastest.
    lane: int
    warp: int
    thread: int
    block: int
    block_threads: int
    grid_blocks: int
    #: Mask of the lanes that take part; the 32-byte sectors that they ask for.
    active: int
    sectors: int
    #: Bytes from the kernel's start.
    pc: int
    #: Multiprocessor; its cycle counter; nanoseconds of the device's clock.
    sm: int
    clock: int
    time: int
    is_load: bool
    is_store: bool
    is_atomic: bool
    #: Compared with names: "global", "shared", "local", "remote"; kinds as `sass events` names them.
    space: str
    kind: str

    def word(self, number: int) -> int:
        """32 bits of the value, from 0 to 3."""
        _outside()


#: Fields that both the device code and the interpreter compute.
FIELDS = {
    **dict.fromkeys(
        ("address", "a", "b", "size", "value", "value_high", "lane", "warp", "thread", "block", "block_threads",
         "grid_blocks", "active", "sectors", "pc", "sm", "clock", "time", "kind"), "int",
    ),
    **dict.fromkeys(("is_load", "is_store", "is_atomic"), "bool"),
}  # fmt: skip
SPACES = {
    space: tuple(kind.number for kind in BY_NAME.values() if kind.space == space)
    for space in ("global", "shared", "local", "remote")
}
KIND_NUMBERS = {name: kind.number for name, kind in BY_NAME.items()}


@dataclass(frozen=True)
class EventFilter:
    """Events of a kind; with `operation`, accesses with matching flags."""

    kind: int
    operation: int | None = None
    mask: int = _FLAGS


def places(at: tuple[str, ...]) -> tuple[EventFilter, ...]:
    """The events that `at` names: `memory`, `global.store`, `barrier`, ….

    Raises:
        UsageError: for an unknown name.
    """
    found = [where for name in at for where in _places(name)]
    return tuple(dict.fromkeys(found))


def _places(name: str) -> list[EventFilter]:
    first, _, operation = name.partition(".")
    kinds = _MEMORY if first == "memory" else (first,)
    if operation and (first not in ("memory", *_MEMORY) or operation not in _OPERATIONS):
        raise UsageError(
            f"there is no event {name!r}; accesses are written like memory.load, global.store, shared.atomic"
        )
    known = [kind for kind in BY_NAME if kind != DELAY.name]
    for kind in kinds:
        if kind not in known:
            raise UsageError(f"there is no event {name!r}{choices(name, ['memory', *known])}")
    return [
        EventFilter(BY_NAME[kind].number, _OPERATIONS[operation] if operation else None) for kind in kinds
    ]


def class_of(kind: int) -> str:
    """The class of `sass trace --events` that records a kind."""
    return next(name for name, kinds in CLASSES.items() if any(one.number == kind for one in kinds))


def _outside() -> NoReturn:
    raise UsageError("this function is for probes, which run on the GPU")


def as_float16(bits: int) -> float:
    """The low 16 bits of an integer as a float."""
    _outside()


def as_bfloat16(bits: int) -> float:
    """The low 16 bits of an integer as a bfloat16."""
    _outside()


def as_float32(bits: int) -> float:
    """The low 32 bits of an integer as a float."""
    _outside()


def as_float64(bits: int) -> float:
    """The bits of an integer as a float."""
    _outside()


def popcount(bits: int) -> int:
    """How many bits of an integer are set."""
    _outside()


def isnan(value: float) -> bool:
    """Whether a float is not a number."""
    _outside()


def isinf(value: float) -> bool:
    """Whether a float is infinite."""
    _outside()
