"""`sass list` for a terminal: SASS beside its source lines and PTX, with samples in the margin."""

from __future__ import annotations

import shutil
import sys
from pathlib import PurePath
from typing import IO

from warpsight.sass.listing import Listing, ListingRow
from warpsight.ui.render import numbers, terminal

_BAR = 8
_WIDEST = 160
_REASON = 16
_COUNT = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show(listing: Listing, stream: IO[str], *, ptx: bool = False) -> None:
    """Write a kernel's instructions; in a pipe, lines are not cut."""
    _Page(listing, stream, ptx).write()


class _Page:
    def __init__(self, listing: Listing, stream: IO[str], ptx: bool) -> None:
        self.listing, self.stream, self.ptx = listing, stream, ptx
        self.width = shutil.get_terminal_size((_WIDEST, 24)).columns if stream.isatty() else sys.maxsize
        colored = terminal.colored(stream)
        self.bold, self.dim, self.plain = ("\033[1m", "\033[2m", "\033[0m") if colored else ("", "", "")
        self.hot = "\033[31m" if colored else ""
        self.total = listing.samples.total
        self.most = max((row.total for row in listing.rows), default=0)
        self.text_width = min(max((len(row.text) for row in listing.rows), default=0), 64)
        self.deepest = max((row.depth for row in listing.rows), default=0)
        self.targets = {row.target for row in listing.rows if row.target is not None}

    def write(self) -> None:
        """Head, then every instruction under its source line."""
        self._head()
        line: object = None
        ptx = 0
        for row in self.listing.rows:
            here = row.frames[:1] and (row.frames[0].file, row.frames[0].line)
            if here and here != line:
                self._source(row)
                line = here
            if self.ptx and row.ptx and row.ptx != ptx:
                self._ptx(row)
                ptx = row.ptx
            self._row(row)

    def _head(self) -> None:
        code = self.listing.code
        facts = [f"sm_{code.architecture}", f"{len(self.listing.rows):,} instructions", f"{code.registers} registers",
                 f"{self.listing.most_live.live[0]} live at {self.listing.most_live.offset:#x}",
                 f"checksum {code.checksum}"]  # fmt: skip
        if self.total:
            facts.insert(1, f"{self.total:,} samples")
        self.stream.write(
            f"{self.bold}{code.short_name}{self.plain}  {self.dim}{' · '.join(facts)}{self.plain}\n"
        )
        margin = f"{'samples':<{5 + _BAR}} {'stalled for':<{_REASON}} " if self.total else ""
        margin += f"{'executed':>{_COUNT}} {'lanes':>5} {'sectors':>7} " if self.listing.counted else ""
        head = f"{margin}live offset  {'':{self.deepest}}{'instruction':<{self.text_width}}  scheduling"
        self.stream.write(f"{self.dim}{head}{self.plain}\n")

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.width else text[: self.width - 1] + "…"

    def _source(self, row: ListingRow) -> None:
        frame = row.frames[0]
        where = f"{PurePath(frame.file).name}:{frame.line}"
        outer = "".join(f" ← {PurePath(f.file).name}:{f.line}" for f in row.frames[1:4])
        text = f"{where}{outer}  {frame.text or ''}"
        self.stream.write(f"{self.bold}{self._cut(text.rstrip())}{self.plain}\n")

    def _ptx(self, row: ListingRow) -> None:
        lines = self.listing.code.cubin.ptx
        text = lines[row.ptx - 1].strip() if row.ptx <= len(lines) else ""
        self.stream.write(f"{self.dim}{self._cut(f'  ptx {row.ptx}  {text}')}{self.plain}\n")

    def _row(self, row: ListingRow) -> None:
        loops = "│" * row.depth + " " * (self.deepest - row.depth)
        mark = "›" if row.offset in self.targets else " "
        text = (
            f"{row.live[0]:>4} {row.offset:#06x}{mark} {loops}{row.text:<{self.text_width}}  {row.scheduling}"
        )
        margin = (self._margin(row) if self.total else "") + (self._counts(row) if row.counts else "")
        shown = self._cut(margin + text)
        if self.total and row.total >= self.most / 2:
            shown = f"{self.hot}{shown[: len(margin)]}{self.plain}{shown[len(margin) :]}"
        self.stream.write(shown.rstrip() + "\n")

    def _counts(self, row: ListingRow) -> str:
        executed, lanes, sectors = row.figures
        shown = "" if executed is None else numbers.count(executed, self.stream)
        return f"{shown:>{_COUNT}} {lanes:>5} {sectors:>7} "

    def _margin(self, row: ListingRow) -> str:
        if not row.total:
            return " " * (5 + _BAR + 1 + _REASON + 1)
        share = row.total / self.total
        eighths = round(row.total / self.most * _BAR * 8)
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        percent = f"{share:>4.0%}" if share >= 0.005 else " <1%"
        return f"{percent} {bar:<{_BAR}} {row.main_reason:<{_REASON}} "
