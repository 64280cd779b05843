"""What notebooks show, rendered by IPython itself; `%%warpsight` against a recorder that needs no library."""

import contextlib
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import warpsight as ws
from tests.unit.analysis.conftest import build, kernel, messy  # noqa: F401 - fixtures
from warpsight.analysis.flame.graph import flame
from warpsight.analysis.stats.sums import stats
from warpsight.errors import UsageError
from warpsight.ui.render.flame.page import rows_of


class Tags(HTMLParser):
    """Fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("br", "img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(value):
    """The HTML that IPython makes of a value; well-formed, and asking no server for anything."""
    data, _ = InteractiveShell.instance().display_formatter.format(value)
    page = data["text/html"]
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    return page


@pytest.fixture
def shell():
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "warpsight")
    yield made
    made.run_line_magic("reset", "-f")


def test_a_trace_shows_its_verdict_kernels_and_losses(build):  # noqa: F811
    trace = build(
        names=("gemm<float>", "add"), kernel=[kernel(i * 100, 50, 1 + i % 2) for i in range(10)],
        loss=[{"source": "ring", "cause": "the <ring> was full", "count": 12, "severity": "lost"}],
    )  # fmt: skip
    page = shown(trace)
    assert "gemm&lt;float&gt;" in page or "gemm" in page
    assert "12 lost in ring: the &lt;ring&gt; was full" in page
    assert "250 ns" in page


def test_an_empty_trace_and_results_show_that_nothing_is_there(build):  # noqa: F811
    assert "No device work" in shown(build())
    assert "no rows" in shown(stats(build()))


def test_a_result_shows_its_first_rows_with_units(messy):  # noqa: F811
    result = stats(messy[0], by="stream")
    page = shown(result)
    assert page.count("<tr>") == 1 + min(len(result.tables["kernels"]), 20)
    assert result.findings[0].text in unescape(page)


def test_a_flame_graph_is_a_page_in_a_frame_of_its_own(messy):  # noqa: F811
    graph = flame(messy[0])
    page = shown(graph)
    assert rows_of(graph, 4_000) <= graph.depth.max() + 1 < 40
    tags = Tags()
    tags.feed(page)
    ((tag, attributes),) = tags.seen
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
    assert "<!doctype html>" in attributes["srcdoc"] and "gemm" in attributes["srcdoc"]


def test_the_magic_records_the_cell_and_keeps_its_variables(shell, build, monkeypatch, capsys, tmp_path):  # noqa: F811
    trace = ws.open(build(kernel=[kernel(0, 77, 1)]).path)
    monkeypatch.chdir(tmp_path)
    asked = []

    @contextlib.contextmanager
    def record(path, **options):
        asked.append((path, options))
        yield

    monkeypatch.setattr(ws, "record", record)
    monkeypatch.setattr(ws, "open", lambda path: trace)
    shell.run_cell_magic("warpsight", "-o other.warp --trace mine --flame launches", "answer = 6 * 7")
    assert asked == [("other.warp", {"force": True})]
    assert shell.user_ns["answer"] == 42
    assert shell.user_ns["mine"] is trace
    assert "window.report" in (tmp_path / "other.report.html").read_text(encoding="utf-8")
    capsys.readouterr()


def test_a_cell_without_device_work_says_so(shell, build, monkeypatch, capsys, tmp_path):  # noqa: F811
    """An empty flame graph did not."""
    trace = ws.open(build(sample=[]).path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ws, "record", lambda path, **options: contextlib.nullcontext())
    monkeypatch.setattr(ws, "open", lambda path: trace)
    pages = []
    monkeypatch.setattr("IPython.display.display", lambda shown: pages.append(getattr(shown, "data", shown)))
    shell.run_cell_magic("warpsight", "--flame", "1")
    assert "so there is nothing to draw" in pages[-1] and len(pages) == 3
    capsys.readouterr()


def test_wrong_options_of_the_magic_are_told(shell):
    with pytest.raises(UsageError, match="unrecognized arguments: --nonsense"):
        shell.run_cell_magic("warpsight", "--nonsense", "1")
    with pytest.raises(UsageError, match="unrecognized arguments: --flam"):
        shell.run_cell_magic("warpsight", "--flam", "1")
    with pytest.raises(UsageError, match="invalid choice"):
        shell.run_cell_magic("warpsight", "--flame hours", "1")


_NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
InteractiveShell.instance().config["IPKernelApp"] = Config({"connection_file": ""})
sys.modules["ipywidgets"] = None  # not installed
import warpsight as ws
trace = ws.open(sys.argv[1])
print(trace.sql("SELECT count(*) FROM kernel").fetchall(), len(trace._repr_html_()) > 100)
"""


def test_a_notebook_without_ipywidgets_reads_traces(build):  # noqa: F811
    """DuckDB refuses every setting of its progress bar there."""
    trace = build(kernel=[kernel(i * 100, 50) for i in range(10)])
    done = subprocess.run(
        [sys.executable, "-c", _NOTEBOOK, trace.path], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[(10,)] True\n", done.stderr


GOLDEN = Path(__file__).parents[3] / "golden"


def test_every_answer_about_a_trace_shows_itself():
    """What print and a notebook say is what the verb prints, with no word about the command line's options."""
    with ws.open(GOLDEN / "h100_hot_lines.warp.zip") as trace:
        answers = {
            "idle for 41%": trace.analyze(),
            "Re-timed without a change": trace.simulate(),
            "53,808 samples": trace.hotspots(),
            "untested": ws.diff(trace, trace),
        }
        for said, answer in answers.items():
            assert said in shown(answer) and said in str(answer)
            assert "--top" not in str(answer)
        assert "<table" in shown(trace.analyze("utilization"))
