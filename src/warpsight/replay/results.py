"""The output of `warpsight-replay`: times, differences and failures, as arrays and records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.errors import WarpsightError


@dataclass(frozen=True)
class Differing:
    """A piece of memory whose bytes differ: the first byte in it, and how many."""

    run: int
    version: int
    piece: int
    first: int
    count: int


@dataclass(frozen=True)
class Wrote:
    """A write found in a run one by one: an operation changed a piece between two offsets; `hash` is that of the new piece."""

    run: int
    step: int
    piece: int
    start: int
    end: int
    hash: str


@dataclass(frozen=True)
class Failure:
    """A failure; `step` -1: outside of operations. `error` is the driver's name for it."""

    step: int
    error: str
    what: str


@dataclass
class ReplayResults:
    """The outcome of a replay.

    Attributes:
        device: name and compute capability of the GPU.
        totals: (run, version) -> ns of all operations. times: (run, version, step) -> ns from and to.
        recorded: pieces that differ from the recording; between: pieces that differ from the first run of the same version;
            versions: pieces in which the second version differs from the first.
        globals: (run, version, global, first byte) that differ from the recording.
        outside: addresses outside of all allocations that were written to.
        issued: ns at which the host issued each operation of one run, and had issued the last, if requested.
        notes: what else a reader should know.
        taken: an address that was already in use, and by what.
    """

    device: tuple[str, tuple[int, int]] | None = None
    totals: dict[tuple[int, int], float] = field(default_factory=dict)
    times: dict[tuple[int, int, int], tuple[float, float]] = field(default_factory=dict)
    recorded: list[Differing] = field(default_factory=list)
    between: list[Differing] = field(default_factory=list)
    versions: list[Differing] = field(default_factory=list)
    globals: list[tuple[int, int, int, int]] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    wrote: list[Wrote] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failure: Failure | None = None
    taken: tuple[int, str] | None = None
    ended: bool = False


def read(path: Path) -> ReplayResults:
    """The results of a replay, including one that stopped early.

    Raises:
        WarpsightError: when there are none, or they are invalid.
    """
    try:
        return parse(path.read_text("utf-8", "replace").splitlines())
    except OSError as error:
        raise WarpsightError(f"the replay left no results: {error.strerror or error}") from None
    except (ValueError, KeyError) as error:
        raise WarpsightError(f"the results of the replay are damaged: {error}") from None


def parse(lines: Iterable[str]) -> ReplayResults:
    """Results from their lines."""
    found = ReplayResults()
    for line in lines:
        word, _, rest = line.partition(" ")
        parts = rest.split(" ")
        if word in ("recorded", "between", "versions"):
            getattr(found, word).append(Differing(*map(int, parts)))
        elif word == "wrote":
            run, step, piece, start, end = map(int, parts[:5])
            found.wrote.append(Wrote(run, step, piece, start, end, parts[5]))
        elif word == "total":
            found.totals[int(parts[0]), int(parts[1])] = float(parts[2]) * 1e6
        elif word == "time":
            run, version, step = map(int, parts[:3])
            found.times[run, version, step] = (float(parts[3]) * 1e6, float(parts[4]) * 1e6)
        elif word == "issued":
            found.issued.append(int(parts[0]))
        elif word == "global":
            run, version, number, first = map(int, parts)
            found.globals.append((run, version, number, first))
        elif word == "outside":
            found.outside.append(int(parts[1], 16))
        elif word == "device":
            found.device = (" ".join(parts[2:]), (int(parts[0]), int(parts[1])))
        elif word == "taken":
            found.taken = (int(parts[0], 16), " ".join(parts[1:]))
        elif word == "failed":
            found.failure = Failure(int(parts[0]), parts[1], " ".join(parts[2:]))
        elif word == "note":
            found.notes.append(rest)
        elif word == "end":
            found.ended = True
    return found
