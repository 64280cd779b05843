"""Findings as overlays of an exported timeline: each on the stretch of time that shows it best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from warpsight.formats.writing.overlay import Overlay

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding

GROUP = "Findings"


def overlays(findings: Sequence[Finding]) -> list[Overlay]:
    """One track for each finding that has a time, in one group, in the findings' order."""
    return [_overlay(number, finding) for number, finding in enumerate(findings, 1) if finding.at is not None]


def _overlay(number: int, finding: Finding) -> Overlay:
    assert finding.at is not None
    begin, end = (np.array([moment], np.int64) for moment in finding.at)
    about = {"rule": finding.rule, "saves_ns": finding.saves_ns, "advice": finding.advice}
    known = msgspec.json.encode({key: value for key, value in about.items() if value is not None})
    name = f"{number}. {finding.name or finding.rule or finding.class_name}"
    return Overlay(
        name,
        begin,
        end,
        np.zeros(1, np.int64),
        [finding.text],
        "finding",
        group=GROUP,
        attributes=[known.decode()[1:-1]],
    )
