"""The pages under axe-core, in both colours: nothing serious."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.chromium import Chromium

_GOLDEN = Path(__file__).parents[1] / "golden"
_TRACE = _GOLDEN / "planted_slow_step.warp.zip"
_RUN = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
    .filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.help}: ${v.nodes[0].html}`))"""


@pytest.fixture(scope="module")
def axe():
    """The script of axe-core."""
    found = find_spec("axe_core_python")
    if found is None or found.origin is None:
        pytest.skip('axe-core is not installed: pip install "warpsight[test]"')
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize("verb", ["report", "flame"])
def test_pages_have_no_serious_findings(verb, axe, browser, tmp_path):
    page = tmp_path / "page.html"
    made = [sys.executable, "-m", "warpsight", verb, str(_TRACE), "-o", str(page)]
    assert subprocess.run(made, capture_output=True, timeout=120).returncode == 0
    with Chromium(browser) as opened:
        opened.open(page.as_uri(), "window.report || window.flame")
        opened.evaluate(f"(0, eval)({json.dumps(axe)}), 0")
        for scheme in ("light", "dark"):
            opened.colors(scheme)
            assert opened.evaluate(_RUN) == []
            if verb == "report":  # with a stack and a selection in sight
                opened.evaluate("report.timeline.step(1)")
                assert opened.evaluate(_RUN) == []
                opened.evaluate("report.timeline.details.selection(6e9, 6.1e9)")
                assert opened.evaluate(_RUN) == []


@pytest.mark.browser
def test_no_page_about_kernels_has_findings_at_all(axe, browser, tmp_path):
    events = str(_GOLDEN / "events" / "truth.events.zst")
    every = _RUN.replace("    .filter(v => ['serious', 'critical'].includes(v.impact))", "    ")
    with Chromium(browser) as opened:
        opened.resize(390, 844)
        for verb, *words in (
            ("list", str(_GOLDEN / "h100_hot_lines.warp.zip"), "tail"),
            ("memory", events),
            ("values", events),
        ):
            page = tmp_path / f"{verb}.html"
            made = [sys.executable, "-m", "warpsight", "sass", verb, *words, "-o", str(page)]
            assert subprocess.run(made, capture_output=True, timeout=120).returncode == 0
            for scheme in ("light", "dark"):
                opened.colors(scheme)
                opened.open(page.as_uri())
                opened.evaluate(f"(0, eval)({json.dumps(axe)}), 0")
                assert opened.evaluate(every) == [], (verb, scheme)
