"""`sass why` for a terminal: stall reasons, the instructions that cause them, what to change."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import PurePath
from typing import IO

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
#: Details that do not go with "waits for" as they are.
_WAITED = {"fixed latency": "the fixed latency", "operands still being read": "operands to be read", "mbarrier": "the mbarrier",
           "stores": "these stores", "barrier": "the barrier", "branch": "the branch"}  # fmt: skip


def show(answer: Answer, stream: IO[str], everything: bool = False) -> None:
    """Write the answer; `everything` without leaving anything out."""
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
        """One line, cut to the width unless everything is wanted."""
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
        self.stream.write(f"{self.bold}{code.short_name}{self.plain}  {self.dim}{' · '.join(facts)}{self.plain}\n")

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
        found = self.answer.causes()
        shown = [
            (cause, parts) for cause, parts in found
            if self.everything or sum(part.samples for part in parts) >= _LEAST_SHARE * self.total
        ]  # fmt: skip
        shown = shown if self.everything else shown[:_MOST_CAUSES]
        if not shown:
            return
        self.title("Which instructions make them wait")
        for cause, parts in shown:
            share = sum(part.samples for part in parts) / self.total
            self.line(f"  {share:>4.0%}  {self._instruction(cause)}")
            where = self._where(cause)
            if where:
                self.line(f"        {where}")
            kept = parts if self.everything else parts[:_MOST_STALLS]
            for part in kept:
                self.line(f"        {self._stall(part)}")
            if len(parts) > len(kept):
                left = sum(part.samples for part in parts[len(kept) :]) / self.total
                self.line(f"        {left:>4.0%} at {len(parts) - len(kept)} more")

    def _stall(self, part: Blame) -> str:
        share = f"{part.samples / self.total:>4.0%}"
        if part.stalled == part.cause:
            return f"{share} here: {part.detail}"
        shared = ", ".join(names(part.registers)[:2])
        more = "…" if part.registers.bit_count() > 2 else ""
        via = f" ({shared}{more})" if shared else ""
        return f"{share} at {self._instruction(part.stalled)} waits for {_WAITED.get(part.detail, part.detail)}{via}"

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
