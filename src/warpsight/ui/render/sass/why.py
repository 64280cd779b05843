"""`sass why` for a terminal: stall reasons, the instructions that cause them, what to change."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import PurePath
from typing import IO

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.registers import names
from warpsight.sass.why.advice.finding import Advice
from warpsight.sass.why.answer import Answer
from warpsight.sass.why.blame import Blame
from warpsight.sass.why.reasons import reason
from warpsight.ui.render import terminal

_BAR = 20
_MOST_REASONS, _MOST_CAUSES, _MOST_STALLS, _MOST_ADVICE, _MOST_PLACES = 6, 8, 2, 6, 2
_LEAST_SHARE = 0.01
_WIDEST = 140


def show(answer: Answer, stream: IO[str], everything: bool = False) -> None:
    """Print the answer; with `everything`, leave nothing out."""
    _Page(answer, stream, everything).write()


class _Page:
    def __init__(self, answer: Answer, stream: IO[str], everything: bool) -> None:
        self.answer, self.stream, self.everything = answer, stream, everything
        self.width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
        colored = terminal.colored(stream)
        self.bold, self.dim, self.plain = ("\033[1m", "\033[2m", "\033[0m") if colored else ("", "", "")
        self.total = max(answer.samples.total, 1)

    def write(self) -> None:
        """All sections."""
        self._head()
        self._reasons()
        self._causes()
        self._advice()
        self._foot()

    def line(self, text: str = "") -> None:
        """One line, cut to the width unless everything is requested."""
        shown = text if self.everything or len(text) <= self.width else text[: self.width - 1] + "…"
        self.stream.write(shown.rstrip() + "\n")

    def title(self, text: str) -> None:
        """The title of a section."""
        self.stream.write(f"\n{self.bold}{text}{self.plain}\n")

    def _head(self) -> None:
        code, samples = self.answer.code, self.answer.samples
        facts = [f"sm_{code.architecture}", f"{code.registers} registers", f"{samples.total:,} samples",
                 f"{samples.stalled / self.total:.0%} stalled"]  # fmt: skip
        launch = self.answer.launch
        if launch.threads:
            facts.insert(2, f"{launch.blocks:,} blocks of {launch.threads:,}")
        self.stream.write(
            f"{self.bold}{code.short_name}{self.plain}  {self.dim}{' · '.join(facts)}{self.plain}\n"
        )

    def _reasons(self) -> None:
        found = self.answer.reasons()
        shown = found if self.everything else found[:_MOST_REASONS]
        if not shown:
            self.line("No warp was found stalled.")
            return
        self.title("Why warps do not issue")
        wide = max(len(name) for name, _ in shown)
        most = shown[0][1]
        for name, count in shown:
            bar = "█" * max(round(_BAR * count / most), 1)
            self.line(f"  {count / self.total:>4.0%}  {bar:<{_BAR}}  {name:<{wide}}  {reason(name).text}")
        left = sum(count for _, count in found[len(shown) :])
        if left:
            self.line(f"  {left / self.total:>4.0%}  {'':<{_BAR}}  other reasons")

    def _causes(self) -> None:
        found = [
            (self._where(parts[0].cause) if line else "", parts) for (_, line), parts in self.answer.lines()
        ]
        if not any(where for where, _ in found):
            found = [(self._instruction(cause), parts) for cause, parts in self.answer.causes()]
        least = 0 if self.everything else _LEAST_SHARE * self.total
        shown = [(where, parts) for where, parts in found if sum(part.samples for part in parts) >= least]
        shown = shown if self.everything else shown[:_MOST_CAUSES]
        if not shown:
            return
        self.title("What makes them wait")
        for where, parts in shown:
            share = sum(part.samples for part in parts) / self.total
            self.line(f"  {share:>4.0%}  {where or '(no source line)'}")
            self._kinds(parts)

    def _kinds(self, parts: list[Blame]) -> None:
        """The instructions of a line by operation and stall reason, with the most sampled one of each."""
        kinds: dict[tuple[str, str], list[Blame]] = {}
        for part in parts:
            kinds.setdefault((self.answer.code.instructions[part.cause].operation, part.detail), []).append(
                part
            )
        ordered = sorted(kinds.items(), key=lambda item: (-sum(part.samples for part in item[1]), item[0]))
        least = 0 if self.everything else _LEAST_SHARE * self.total
        kept = [one for one in ordered if sum(part.samples for part in one[1]) >= least] or ordered[:1]
        for (operation, detail), alike in kept if self.everything else kept[:_MOST_STALLS]:
            share = sum(part.samples for part in alike) / self.total
            count = len({part.cause for part in alike})
            name = f"{count} × {operation}" if count > 1 else operation
            self.line(f"        {share:>4.0%}  {name:<16} {detail:<26} {self._example(alike)}")

    def _example(self, alike: list[Blame]) -> str:
        most = max(alike, key=lambda part: (part.samples, -part.cause))
        at = f"{most.cause * INSTRUCTION_SIZE:#06x}"
        if most.stalled == most.cause:
            return f"at {at}"
        shared = ", ".join(names(most.registers)[:2]) + ("…" if most.registers.bit_count() > 2 else "")
        via = f" ({shared})" if most.registers else ""
        return f"{at}, waited for at {self._instruction(most.stalled)}{via}"

    def _instruction(self, index: int) -> str:
        one = self.answer.code.instructions[index]
        return f"{one.offset:#06x}  {one.text}"

    def _where(self, index: int) -> str:
        frames = self.answer.code.frames(index)
        if not frames:
            return ""
        frame = frames[0]
        text = f"{PurePath(frame.file).name}:{frame.line}"
        if len(frames) > 1:
            text += f" ← {PurePath(frames[-1].file).name}:{frames[-1].line}"
        return f"{text}  {frame.text}" if frame.text else text

    def _advice(self) -> None:
        found = self.answer.advice
        if not found:
            return
        self.title("What to change, with estimated speedup of this kernel")
        for one in found if self.everything else found[:_MOST_ADVICE]:
            self._one_advice(one)

    def _one_advice(self, one: Advice) -> None:
        self.stream.write(f"  {self.bold}{one.speedup:>5.2f}×{self.plain}  {one.title}\n")
        for text in textwrap.wrap(one.why, max(self.width - 10, 40)):
            self.line(f"          {text}")
        sums: dict[int, float] = {}
        for at in one.places:
            sums[at.cause] = sums.get(at.cause, 0.0) + at.samples
        for cause, samples in list(sums.items())[: None if self.everything else _MOST_PLACES]:
            where = self._where(cause)
            spot = self._instruction(cause)
            self.line(f"          {samples / self.total:>4.0%}  {spot}{f'  {where}' if where else ''}")

    def _foot(self) -> None:
        after = self.answer.blamed.single_after
        notes = list(self.answer.notes)
        if after is not None:
            notes.append(
                f"{after:.0%} of the stalled instructions with a producer have a single one (before pruning "
                f"{self.answer.blamed.single_before or 0:.0%})."
            )
        if notes:
            self.line()
        for note in notes:
            self.stream.write(f"{self.dim}{textwrap.fill(note, self.width)}{self.plain}\n")
