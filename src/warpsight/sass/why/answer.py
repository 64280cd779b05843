"""`sass why`: the answer as data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from warpsight.device_code.registers import names
from warpsight.sass.code import KernelCode
from warpsight.sass.why.advice.all import advice
from warpsight.sass.why.advice.finding import Advice, KernelFacts, LaunchConfiguration
from warpsight.sass.why.blame import Blame, Blamed, blame
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.reasons import NO_STALL, reason
from warpsight.sass.why.samples import StallSamples

#: With fewer samples than this, single instructions are not reliable.
_FEW_SAMPLES = 200


@dataclass(frozen=True)
class Answer:
    """Why one kernel stalls.

    Attributes:
        code: the kernel; samples: its samples; launch: its launch configuration.
        blamed: every stall and what it is blamed on; advice: what to change, largest speedup first.
        notes: what the reader should know about the answer.
    """

    code: KernelCode
    samples: StallSamples
    launch: LaunchConfiguration
    blamed: Blamed
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]

    def causes(self) -> list[tuple[int, list[Blame]]]:
        """Instructions that stalls are blamed on with the stalls, most samples first."""
        by_cause: dict[int, list[Blame]] = defaultdict(list)
        for part in self.blamed.blames:
            by_cause[part.cause].append(part)
        ordered = sorted(by_cause.items(), key=lambda item: (-sum(part.samples for part in item[1]), item[0]))
        return [
            (cause, sorted(parts, key=lambda part: (-part.samples, part.stalled))) for cause, parts in ordered
        ]

    def lines(self) -> list[tuple[tuple[str, int], list[Blame]]]:
        """Lines (file, line) of instructions blamed for stalls, most samples first; `("", 0)` if unknown."""
        by_line: dict[tuple[str, int], list[Blame]] = defaultdict(list)
        for cause, parts in self.causes():
            frames = self.code.frames(cause)
            by_line[(frames[0].file, frames[0].line) if frames else ("", 0)] += parts
        return sorted(by_line.items(), key=lambda item: (-sum(part.samples for part in item[1]), item[0]))

    def reasons(self) -> list[tuple[str, int]]:
        """Samples by stall reason, most first."""
        sums: dict[str, int] = defaultdict(int)
        for row in self.samples.rows:
            sums[row.reason] += row.samples
        return sorted(((name, count) for name, count in sums.items() if name not in NO_STALL),
                      key=lambda item: (-item[1], item[0]))  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As plain data; offsets are in bytes from the start of the kernel's section."""
        return {
            "kernel": self.code.demangled, "name": self.code.name, "checksum": self.code.checksum,
            "architecture": f"sm_{self.code.architecture}", "registers": self.code.registers,
            "launch": asdict(self.launch) if self.launch.threads else None,
            "samples": {"total": self.samples.total, "stalled": self.samples.stalled, "issued": self.samples.issued},
            "reasons": [{"reason": name, "samples": count, "text": reason(name).text} for name, count in self.reasons()],
            "lines": [
                {"file": file, "line": line, "samples": round(sum(part.samples for part in parts), 2)}
                for (file, line), parts in self.lines() if file
            ],
            "causes": [self._cause(cause, parts) for cause, parts in self.causes()],
            "advice": [self._advice(one) for one in self.advice],
            "single_producer": {"before": self.blamed.single_before, "after": self.blamed.single_after},
            "unexplained": self.blamed.unexplained,
            "notes": list(self.notes),
        }  # fmt: skip

    def place(self, index: int) -> dict[str, Any]:
        """One instruction: offset, text, source line."""
        one = self.code.instructions[index]
        frames = self.code.frames(index)
        chain = [{"function": f.function, "file": f.file, "line": f.line} for f in frames]
        return {"offset": one.offset, "instruction": one.text, "lines": chain}

    def _cause(self, cause: int, parts: list[Blame]) -> dict[str, Any]:
        return {
            **self.place(cause),
            "samples": round(sum(part.samples for part in parts), 2),
            "not_issued": round(sum(part.not_issued for part in parts), 2),
            "stalls": [
                {
                    **self.place(part.stalled), "reason": part.reason, "detail": part.detail, "hazard": part.hazard,
                    "registers": names(part.registers), "samples": round(part.samples, 2), "cycles": part.cycles,
                }
                for part in parts
            ],
        }  # fmt: skip

    def _advice(self, one: Advice) -> dict[str, Any]:
        places = [
            {
                "cause": self.place(at.cause),
                "stalled": self.place(at.stalled),
                "samples": round(at.samples, 2),
            }
            for at in one.places
        ]
        return {"name": one.name, "title": one.title, "why": one.why, "speedup": round(one.speedup, 4),
                "saved": round(one.saved, 4), "samples": round(one.samples, 2), "places": places,
                "more_places": one.kept}  # fmt: skip


def why(code: KernelCode, samples: StallSamples, launch: LaunchConfiguration | None = None) -> Answer:
    """Why a kernel stalls, and how to change it."""
    known = launch or LaunchConfiguration()
    dependencies = Dependencies(code.graph)
    inside = StallSamples(tuple(row for row in samples.rows if 0 <= row.index < len(code.instructions)))
    blamed = blame(dependencies, inside)
    evidence = KernelFacts(code, inside, blamed, dependencies, known)
    notes = _notes(code, samples, inside, blamed)
    return Answer(code, inside, known, blamed, tuple(advice(evidence)) if inside.total else (), tuple(notes))


def _notes(code: KernelCode, samples: StallSamples, inside: StallSamples, blamed: Blamed) -> list[str]:
    notes = []
    if samples.total - inside.total:
        notes.append(
            f"{samples.total - inside.total:,} samples are outside the kernel's code and are left out."
        )
    if inside.total < _FEW_SAMPLES:
        notes.append(f"Only {inside.total:,} samples: shares of single instructions are uncertain.")
    if code.graph.unresolved:
        notes.append(
            f"{len(code.graph.unresolved)} indirect branches or calls have unknown targets; "
            "causes behind them are not found."
        )
    if blamed.unexplained:
        notes.append(
            f"{blamed.unexplained:,} samples wait for a scoreboard at instructions without a scoreboard wait; they "
            f"are left there."
        )
    if not code.cubin.has_lines:
        notes.append("The code has no source lines; compile with -lineinfo to see them.")
    return notes
