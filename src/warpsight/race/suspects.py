"""Suspects: pairs of accesses that race according to some detector, merged from event traces and racecheck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpsight.debug.sanitizer_report import SanitizerFinding
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.sass.races.witness import Race, Side

#: The detectors.
EVENTS, ON_DEVICE, RACECHECK = "event trace", "on the device", "racecheck"


@dataclass(frozen=True)
class Access:
    """One of the two accesses.

    Attributes:
        operation: load, store, atomic, or racecheck's read or write; frames: its source chain, innermost first.
        who: block and thread, if known; sass: the instruction.
    """

    operation: str
    frames: tuple[Frame, ...]
    who: str = ""
    sass: str = ""

    @property
    def line(self) -> str:
        """`file:line` of the innermost frame, with the file's name alone; empty when not known."""
        return line_of(self.frames)

    @property
    def words(self) -> str:
        """The access in words, with its line."""
        if not self.line:
            return f"the {self.operation} ({self.sass or 'line unknown'})"
        outer = line_of(self.frames[-1:])
        inlined = outer and outer.rpartition(":")[0] != self.line.rpartition(":")[0]
        return f"the {self.operation} at {self.line}" + (f", inlined at {outer}" if inlined else "")

    @property
    def barrier(self) -> str:
        """A block's barrier in the language of the access."""
        return "a barrier (in Triton tl.debug_barrier())" if ".py:" in self.line else "__syncthreads()"

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "operation": self.operation, "who": self.who, "sass": self.sass,
            "frames": [{"function": f.function, "file": f.file, "line": f.line} for f in self.frames],
        }  # fmt: skip


@dataclass(frozen=True)
class Suspect:
    """Two racing accesses, or one that comes too late (`second` is None).

    Attributes:
        kernel, space: the kernel and the memory space; reason: why they race; found_by: the detectors.
        repair: what would order them, and on which line; race: the race in the event trace.
    """

    kernel: str
    space: str
    reason: str
    first: Access
    second: Access | None
    found_by: tuple[str, ...]
    repair: str = ""
    race: Race | None = None

    @property
    def lines(self) -> frozenset[str]:
        """The lines of the accesses, which distinguish suspects."""
        return frozenset(access.line for access in (self.first, self.second) if access is not None)

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "kernel": self.kernel, "space": self.space, "reason": self.reason, "found_by": list(self.found_by),
            "repair": self.repair, "first": self.first.to_json(),
            "second": self.second.to_json() if self.second is not None else None,
        }  # fmt: skip


def line_of(frames: Sequence[Frame]) -> str:
    """`file:line` of the innermost frame, with the file's name alone; empty without frames."""
    return f"{Path(frames[0].file).name}:{frames[0].line}" if frames and frames[0].line else ""


def from_races(races: Iterable[Race], detector: str = EVENTS) -> list[Suspect]:
    """The suspects of an event trace, or of races that were found on the device."""
    return [
        Suspect(
            race.kernel,
            race.space,
            race.reason,
            _access(race.first),
            _access(race.second),
            (detector,),
            race=race,
        )
        for race in races
    ]


def _access(side: Side) -> Access:
    return Access(side.operation, side.frames, f"block {side.block}, thread {side.thread}", side.sass)


def from_racecheck(findings: Iterable[SanitizerFinding]) -> list[Suspect]:
    """The suspects of racecheck: races in shared memory, and accesses to blocks of a cluster that may have ended."""
    found = []
    for finding in findings:
        sides = [Access(access.direction, access.chain) for access in finding.accesses]
        found += [
            Suspect(_kernel(other.frames), "shared", finding.message, sides[0], other, (RACECHECK,))
            for other in sides[1:]
        ]
        if not sides and finding.kind == "ClusterEntryExit":
            found.append(
                Suspect(
                    _kernel(finding.frames),
                    "shared",
                    finding.message,
                    Access("read", finding.frames),
                    None,
                    (RACECHECK,),
                )
            )
    return found


def _kernel(frames: Sequence[Frame]) -> str:
    return frames[-1].function if frames else ""


def merged(found: Iterable[Suspect]) -> list[Suspect]:
    """One suspect per pair of lines, with all detectors that found it; the event trace's has more detail."""
    by_lines: dict[Any, Suspect] = {}
    for number, suspect in enumerate(found):
        key: Any = suspect.lines if all(suspect.lines) and suspect.lines else number
        known = by_lines.get(key)
        if known is None:
            by_lines[key] = suspect
            continue
        kept = known if known.race is not None else suspect
        by_lines[key] = replace(kept, found_by=tuple(dict.fromkeys((*known.found_by, *suspect.found_by))))
    return list(by_lines.values())
