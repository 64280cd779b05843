"""Doubts about device work that affect every analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding

if TYPE_CHECKING:
    from warpsight.model.work import Work


def doubts(work: Work) -> tuple[Finding, ...]:
    """Findings common to all analyses of this work: kernels without times, rows that end before they begin."""
    out = []
    if work.unfinished:
        text = words.counted(
            work.unfinished,
            "kernel was launched but no GPU record of it arrived; its time is not counted",
            "kernels were launched but no GPU record of them arrived; their time is not counted",
        )
        out.append(Finding("loss", text, {"kernels": work.unfinished}))
    if work.reversed:
        text = words.counted(
            work.reversed,
            "row ends before it begins; it counts as empty",
            "rows end before they begin; they count as empty",
        )
        out.append(Finding("warning", text, {"rows": work.reversed}))
    return tuple(out)
