"""Findings drawn over a timeline: one track each, where the finding has a place."""

import json

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.overlay import overlays


def test_each_finding_with_a_place_has_a_numbered_track_with_what_it_says() -> None:
    placed = Finding(
        "note", "three copies wait", rule="copies/pageable", saves_ns=7_000, advice="Pin them.", at=(100, 250)
    )
    named = Finding("note", "idle", kind="host", name="load()", at=(5, 6))
    first, second = overlays([placed, Finding("note", "nowhere", rule="x/y"), named])
    assert (first.name, second.name) == ("1. copies/pageable", "3. load()")
    assert (first.start.tolist(), first.end.tolist()) == ([100], [250])
    assert json.loads("{" + first.attributes[0] + "}") == {
        "rule": "copies/pageable", "saves_ns": 7_000, "advice": "Pin them."}  # fmt: skip
    assert second.attributes[0] == ""
