"""Answers about event traces, written as text or as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.render.sass.event_answers import Section


def notes(trace: EventTrace) -> list[str]:
    """Sentences about what a trace lacks."""
    return [
        *trace.notes, *([f"a part of the events: {', '.join(trace.partial)}"] if trace.partial else []),
    ]  # fmt: skip


def write(
    stream: IO[str],
    out: Path | None,
    title: str,
    sections: Sequence[Section],
    trace: EventTrace,
    gaps: Sequence[str] = (),
) -> None:
    """Write a page if the file's name ends in .html, otherwise text. `gaps` are further notes of the page."""
    from warpsight.ui.render.sass import event_answers

    if out is not None and out.suffix == ".html":
        stream.write(event_answers.page(title, sections, [*notes(trace), *gaps]))
    else:
        event_answers.write(sections, stream)


def warn(trace: EventTrace, gaps: Sequence[str] = ()) -> None:
    """Report on standard error what a trace lacks, and further gaps."""
    from warpsight.ui.render import terminal

    terminal.warning(*notes(trace), *gaps)
