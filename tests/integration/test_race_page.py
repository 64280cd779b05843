"""The page of `race check`: both accesses on the time line of their warps, from traces of an H100, in a browser."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.golden.race_verdicts import checked
from tests.integration.chromium import Chromium
from tests.unit.race.test_check import EXPECTED
from warpsight.race.check import Provoked
from warpsight.ui.render.race import page as race_page

_MARKS = """[...document.querySelectorAll('#race1 .moments .ring')].map(ring =>
    ring.parentNode.querySelector('text').textContent)"""
_AXE = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.help}: ${v.nodes[0].html}`))"""


@pytest.mark.browser
def test_the_page_shows_both_accesses_of_each_race(browser: str, tmp_path: Path) -> None:
    found = find_spec("axe_core_python")
    axe = (Path(found.origin).parent / "axe.min.js").read_text("utf-8") if found and found.origin else ""
    failed = Provoked("reproduced", 9, 10, 1, 11, "9 of 10 delayed runs failed")
    with Chromium(browser) as opened:
        for name, (_, lines, repair) in EXPECTED.items():
            page = tmp_path / f"{name}.html"
            page.write_text(race_page.page(checked(name, failed), [f"./{name}"]), encoding="utf-8")
            opened.open(page.as_uri(), "document.readyState == 'complete'")
            assert {int(line) for line in opened.evaluate(_MARKS)} == lines
            assert all(
                words in opened.evaluate("document.querySelector('.repair').innerText") for words in repair
            )
            assert opened.evaluate("document.querySelector('#verdict .waits').innerText").startswith(
                "with delays"
            )
        for scheme in ("light", "dark") if axe else ():
            opened.evaluate(f"(0, eval)({json.dumps(axe)}), 0")
            opened.colors(scheme)
            assert opened.evaluate(_AXE) == []
        assert (
            opened.errors,
            [url for url in opened.requests if not url.startswith(("file:", "data:"))],
        ) == ([], [])


def test_names_from_a_program_stay_text() -> None:
    page = race_page.page(checked("split_k_fixed"), ["./a<script>alert(1)</script>"])
    assert "No race" in page and "<script>alert" not in page
