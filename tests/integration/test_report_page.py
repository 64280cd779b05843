"""The report in a browser: complete, offline, both colors, every width, keyboard; small, and without secrets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration.chromium import Chromium
from warpsight.formats.importing import open_any
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

_SECTIONS = ("verdict", "account", "timeline", "flame", "kernels", "idle", "iterations", "memory", "copies", "counters",
             "source", "environment", "loss")  # fmt: skip


def run(*arguments):
    command = [sys.executable, "-m", "warpsight", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trace and its report."""
    folder = tmp_path_factory.mktemp("report")
    trace = make(folder / "t.warp", Plan(kernels=30_000))
    done = run(trace, "-o", folder / "t.html")
    assert done.returncode == 0, done.stderr
    return trace, folder / "t.html"


@pytest.fixture(scope="module")
def chromium(made, browser):
    with Chromium(browser) as opened:
        opened.offline()
        opened.open(made[1].as_uri(), "window.report")
        # A smooth scroll that one test began must not move the page under the pointer of the next.
        opened.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        yield opened


@pytest.fixture
def page(chromium):
    yield chromium
    assert chromium.errors == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.browser
def test_every_section_is_there_and_in_the_navigation(page):
    shown = page.evaluate("[...document.querySelectorAll('main > section')].map(s => s.id)")
    assert [s for s in shown if s != "findings"] == list(_SECTIONS)
    assert page.evaluate("[...document.querySelectorAll('nav.side a')].map(a => a.hash.slice(1))") == shown
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    assert page.evaluate("[...document.querySelectorAll('canvas')].every(c => c.getAttribute('aria-label'))")


@pytest.mark.browser
def test_the_tables_agree_with_the_trace(page, made):
    with open_trace(made[0]) as trace:
        count, names = trace.sql("SELECT count(*), count(DISTINCT demangled) FROM kernel").fetchall()[0]
    rows = "[...document.querySelectorAll('#kernel-table tbody tr')]"
    assert page.evaluate(f"{rows}.length") == names
    assert page.evaluate(f"{rows}.map(r => +r.cells[1].dataset.sort).reduce((a, b) => a + b)") == count
    tiles = page.evaluate(
        "[...document.querySelectorAll('.tiles > div')].map(d => d.querySelector('dt').textContent)"
    )
    assert tiles[:4] == ["GPU busy", "GPU idle", "Kernels", "Kernel time"]


@pytest.mark.browser
def test_tables_sort_both_ways_and_search(page):
    column = "[...document.querySelectorAll('#kernel-table tbody tr')].map(r => +r.cells[1].dataset.sort)"
    page.evaluate("document.querySelectorAll('#kernel-table th button')[1].click()")
    values = page.evaluate(column)
    assert values == sorted(values, reverse=True)
    page.evaluate("document.querySelectorAll('#kernel-table th button')[1].click()")
    assert page.evaluate(column) == values[::-1] == sorted(values)
    assert (
        page.evaluate("document.querySelectorAll('#kernel-table th')[1].getAttribute('aria-sort')")
        == "ascending"
    )
    page.evaluate("document.getElementById('kernel-search').focus()")
    page.type("gemm")
    shown = page.evaluate(
        "[...document.querySelectorAll('#kernel-table tbody tr')].filter(r => !r.hidden).map(r => r.innerText)"
    )
    assert shown and all("gemm" in text for text in shown)
    page.evaluate(
        "(() => { const s = document.getElementById('kernel-search'); s.value = ''; s.dispatchEvent(new Event('input')); })()"
    )


@pytest.mark.browser
def test_keys_go_from_section_to_section_and_change_the_colours(page):
    page.evaluate("document.activeElement.blur()")
    page.evaluate("window.scrollTo(0, 0)")
    page.key("j")
    assert page.evaluate("document.activeElement.closest('section').id") == "account"
    page.key("k")
    assert page.evaluate("document.activeElement.closest('section').id") == "verdict"
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.key("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    page.key("t")
    page.evaluate("document.getElementById('kernels').scrollIntoView({behavior: 'instant'})")
    page.key("/")
    assert page.evaluate("document.activeElement.id") == "kernel-search"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_overflows_and_text_has_contrast(page, scheme, width, tmp_path):
    page.colors(scheme)
    page.evaluate("WS.theme.follow()")  # whatever was chosen by hand before
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.resize(width, 900)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    over = page.evaluate(f"""[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre')
        && e.getBoundingClientRect().right > {width} + 1 && getComputedStyle(e).position !== 'absolute'
        && !e.classList.contains('sr')).map(e => e.outerHTML.slice(0, 80))""")
    assert over == []
    assert page.evaluate(_WORST_CONTRAST) >= 4.5
    page.screenshot(tmp_path / f"report-{scheme}-{width}.png", whole=True)
    page.resize(1280, 900)


#: The least contrast (WCAG 2) of any text of the page against what is painted behind it.
_WORST_CONTRAST = """(() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number);
    return c.startsWith('color(srgb') ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.9) return c; } return [255, 255, 255, 1]; };
  let worst = 99;
  const walk = document.createTreeWalker(document.querySelector('.frame'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.getClientRects().length || e.closest('.sr')) continue;
    const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e).slice(0, 3));
    worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return worst;
})()"""


@pytest.mark.browser
@pytest.mark.parametrize("kernels", [0, 1])
def test_empty_and_one_event_traces_make_a_page_without_errors(browser, tmp_path, kernels):
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        if kernels:
            name = writer.name("only")
            writer.add("kernel", [{"start": 5, "duration": 7, "name_id": name, "device": 0, "context": 1, "stream": 7,
                                   "process": 0, "graph_level": False}])  # fmt: skip
        writer.add("loss", [{"source": "ring", "cause": "it was <full>", "count": 4, "severity": "lost"}])
        writer.describe()
    done = run(path, "-o", tmp_path / "t.html")
    assert done.returncode == 0, done.stderr
    with Chromium(browser) as page:
        page.open((tmp_path / "t.html").as_uri(), "window.report")
        assert page.errors == []
        alert = page.evaluate("document.querySelector('[role=alert]').innerText")
        assert "incomplete" in alert and "4 lost in ring: it was <full>" in alert
        page.screenshot(tmp_path / "small.png")


_COMMAND_LINE = (
    "python /home/margaret/train.py --data /mnt/customers --hf-token hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
)
_ENVIRONMENT = '{"NCCL_DEBUG": "INFO", "TORCH_HOME": "/home/margaret/t", "API_KEY": "k-123"}'


def private(path, folder):
    """A trace that knows a user, a host, a token and a file of theirs."""
    source = folder / "home" / "train.py"
    source.parent.mkdir()
    source.write_text("import x\n\ndef train():\n    api_token = 'abcdef123456'\n    return x.step()\n")
    with TraceWriter(path) as writer:
        name = writer.name("gemm")
        stack = writer.stack([("train", str(source), 5, None, "python", None),
                              ("step", "/home/margaret/secret-project/model/net.py", 3, None, "python", None)])  # fmt: skip
        inner = writer.stack([("train", str(source), 5, None, "python", None)])
        writer.add("process", [{"process": 0, "pid": 7, "host": "gpu17.corp.example", "start": 0,
                                "command": _COMMAND_LINE,
                                "executable": "/usr/bin/python",
                                "environment": _ENVIRONMENT}])  # fmt: skip
        writer.add("kernel", [{"start": i, "duration": 1, "name_id": name, "device": 0, "context": 1, "stream": 7, "process": 0,
                               "graph_level": False, "stack": (stack, inner)[i % 2]} for i in range(10)])  # fmt: skip
        writer.describe()
    return path


def test_what_is_private_is_left_out_unless_asked_for_and_secrets_always(tmp_path):
    trace = private(tmp_path / "t.warp", tmp_path)
    plain, told = tmp_path / "plain.html", tmp_path / "told.html"
    assert run(trace, "-o", plain).returncode == 0
    text = plain.read_text()
    for word in (
        "margaret",
        "gpu17",
        "corp.example",
        "/mnt/customers",
        "secret-project",
        "hf_abc",
        "NCCL_DEBUG",
        "abcdef123456",
        "k-123",
    ):
        assert word not in text, word
    assert "model/net.py" in text and "python train.py" in text and "return x.step()" in text
    asked = run(
        trace, "-o", told, "--include-paths", "--include-arguments", "--include-environment", "--no-source"
    )
    assert asked.returncode == 0
    text = told.read_text()
    for word in (
        "/home/margaret/secret-project/model/net.py",
        "gpu17.corp.example",
        "/mnt/customers",
        "NCCL_DEBUG",
    ):
        assert word in text, word
    for word in ("hf_abc", "k-123", "abcdef123456", "return x.step()"):
        assert word not in text, word


def test_an_existing_file_is_kept_and_a_text_of_the_trace_stays_text(made, tmp_path):
    (tmp_path / "there.html").write_text("mine")
    done = run(made[0], "-o", tmp_path / "there.html")
    assert done.returncode == 1 and (tmp_path / "there.html").read_text() == "mine"
    path = tmp_path / "evil.warp"
    with TraceWriter(path) as writer:
        name = writer.name("</script><img src=x onerror=alert(1)>")
        writer.add("kernel", [{"start": 5, "duration": 7, "name_id": name, "device": 0, "context": 1, "stream": 7,
                               "process": 0, "graph_level": False}])  # fmt: skip
        writer.describe()
    assert run(path, "-o", tmp_path / "evil.html").returncode == 0
    text = (tmp_path / "evil.html").read_text()
    assert "<img src=x" not in text and text.count("</script>") == 2


@pytest.mark.browser
@pytest.mark.parametrize("name", ["kineto_h100_qwen.json.gz", "nsys_h100_2gpu_1s.sqlite"])
def test_real_traces_of_other_tools_make_a_report_and_lose_no_time(browser, tmp_path, name):
    folder = os.environ.get("WARPSIGHT_TEST_DATA")
    if folder is None:
        pytest.skip("WARPSIGHT_TEST_DATA names no folder with real traces")
    done = run(Path(folder) / name, "-o", tmp_path / "t.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t.html").stat().st_size < 5_000_000
    with open_any(Path(folder) / name) as trace:
        work = [f"SELECT sum(duration) AS d FROM {t}" for t in ("kernel", "memcpy", "memset")]
        expected = int(trace.sql(f"SELECT sum(d)::BIGINT FROM ({' UNION ALL '.join(work)})").fetchall()[0][0])
    with Chromium(browser) as page:
        page.open((tmp_path / "t.html").as_uri(), "window.report")
        assert page.evaluate("report.flame.weight(0)") == expected
        assert page.errors == []
        page.screenshot(tmp_path / "real.png", whole=True)
