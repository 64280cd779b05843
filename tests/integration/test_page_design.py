"""What a reader sees on the pages: colors of the system, legible labels, tables and pictures that fit, short verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.race_verdicts import checked
from tests.integration.chromium import Chromium
from warpsight.race.check import Provoked
from warpsight.ui.render.dump import hang_html
from warpsight.ui.render.race import page as race_page

pytestmark = pytest.mark.browser

_GOLDEN = Path(__file__).parents[1] / "golden"
_LUMINANCE = """
    const linear = (v) => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
    const light = (hex) => [.2126, .7152, .0722].reduce((sum, part, i) => sum + part * linear(
        parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16)), 0);
    const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => p - q); return (y + .05) / (x + .05); };"""


@pytest.fixture(scope="module")
def chromium(browser):
    with Chromium(browser) as opened:
        yield opened


@pytest.fixture
def page(chromium):
    chromium.resize(1280, 900)
    yield chromium
    assert chromium.errors == []


def made(folder: Path, *command: str) -> str:
    out = folder / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *command, "-o", str(out)], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return out.as_uri()


@pytest.fixture(scope="module")
def slow_step(tmp_path_factory):
    return made(tmp_path_factory.mktemp("report"), "report", str(_GOLDEN / "planted_slow_step.warp.zip"))


@pytest.mark.parametrize(
    ("verb", "trace"), [("memory", "truth"), ("dataflow", "truth"), ("values", "truth"), ("tma", "async")]
)
def test_pages_of_event_traces_follow_the_systems_colors(page, tmp_path, verb, trace):
    address = made(tmp_path, "sass", verb, str(_GOLDEN / "events" / f"{trace}.events.zst"))
    shown = {}
    for scheme in ("light", "dark"):
        page.colors(scheme)
        page.open(address)
        shown[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shown == {"light": "rgb(246, 247, 249)", "dark": "rgb(14, 18, 22)"}
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("WS.theme.follow()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_label_of_a_slow_step_has_contrast(page, slow_step, scheme):
    page.colors(scheme)
    page.open(slow_step, "window.report")
    ratio = page.evaluate(f"""(() => {{ {_LUMINANCE}
        const t = report.timeline, mark = report.data.timeline.marks.find((m) => m.text.includes("slow iteration"));
        let ink = "";
        const plain = t.text;
        t.text = (g, whole, ...rest) => {{
            if (whole === "step 27") ink = g.fillStyle;
            plain.call(t, g, whole, ...rest);
        }};
        t.show(mark.begin - 5e7, mark.end + 2e7); t.render(); t.text = plain;
        return contrast(ink, t.paint.outlier); }})()""")
    assert ratio >= 4.5


def test_a_report_of_one_device_does_not_repeat_its_number(page, slow_step, tmp_path):
    page.open(slow_step, "window.report")
    titles = page.evaluate("report.charts.map((c) => c.title)")
    assert "CUDA memory" in titles and "power" in titles
    two = made(tmp_path, "report", str(_GOLDEN / "h200_two_devices.warp.zip"))
    page.open(two, "window.report")
    titles = page.evaluate("report.charts.map((c) => c.title)")
    assert {"power · device 0", "power · device 1", "CUDA memory · device 1"} <= set(titles)


def test_the_verdict_gives_each_cause_a_sentence(page, slow_step):
    page.open(slow_step, "window.report")
    first, second = page.evaluate("document.getElementById('verdict-title').innerText.split('\\n')")
    assert first.startswith("The GPU is idle for 77%") and first.endswith("2.535818s.")
    assert second.startswith("Slow iteration: step 27")


def test_commands_in_advice_are_set_as_code_and_shares_are_not_nothing(page, tmp_path):
    report = made(tmp_path, "report", str(_GOLDEN / "counters" / "h100_metrics.warp.zip"))
    page.open(report, "window.report")
    assert page.evaluate("document.querySelector('.tiles dd').innerText") == "<0.1%"
    shown = page.evaluate("[...document.querySelectorAll('.parts li .n')].map((n) => n.innerText)")
    assert "<0.1%" in shown and "0.0%" not in shown
    (folder := tmp_path / "hot").mkdir()
    page.open(made(folder, "report", str(_GOLDEN / "h100_hot_lines.warp.zip")), "window.report")
    advice = page.evaluate("[...document.querySelectorAll('.advice')].map((p) => p.innerHTML).join()")
    assert "<code>warpsight diff</code>" in advice and "`" not in advice


def test_tables_of_a_report_fit_a_small_window(page, slow_step):
    page.resize(1100, 800)
    page.open(slow_step, "window.report")
    fits = "(id) => { const box = document.getElementById(id).parentElement; return box.scrollWidth <= box.clientWidth; }"
    shown = page.evaluate(
        f"['kernel-table', 'gap-table', 'iteration-table', 'copy-table'].filter((id) => !({fits})(id))"
    )
    assert shown == []
    names = page.evaluate("[...document.querySelectorAll('#kernel-table td.w')].map((c) => c.innerText)")
    assert len(set(names)) == len(names)


def test_wide_tables_scroll_in_their_boxes_on_a_phone_and_names_of_calls_are_whole(page, tmp_path):
    page.resize(390, 844)
    page.open(made(tmp_path, "report", str(_GOLDEN / "planted_pageable_copies.warp.zip")), "window.report")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.evaluate("(() => { const b = document.getElementById('kernel-table').parentElement; "
                        "return [b.scrollWidth > b.clientWidth, getComputedStyle(b).overflowX, b.tabIndex]; })()")  # fmt: skip
    assert box == [True, "auto", 0]
    lines = page.evaluate("[...document.querySelectorAll('#cause-table td.w > span')].map((s) => s.getClientRects().length ? "
                          "s.getBoundingClientRect().height / parseFloat(getComputedStyle(s).lineHeight) : 1)")  # fmt: skip
    assert lines and max(lines) < 1.5


def test_a_kernels_instructions_are_in_sight_on_a_phone(page, tmp_path):
    listing = made(
        tmp_path,
        "sass",
        "list",
        str(_GOLDEN / "h100_hot_lines.warp.zip"),
        "bank_conflict",
        "--format",
        "html",
    )
    page.resize(390, 844)
    page.open(listing)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert (
        page.evaluate("document.querySelector('.instructions tbody .t').getBoundingClientRect().left") < 270
    )


@pytest.mark.parametrize(("verb", "trace"), [("dataflow", "truth"), ("values", "truth"), ("tma", "async")])
def test_pictures_of_event_traces_fit_a_phone(page, tmp_path, verb, trace):
    """The dataflow picture was 640 px wide on a phone: readers, and the ends of bands, were out of sight."""
    address = made(tmp_path, "sass", verb, str(_GOLDEN / "events" / f"{trace}.events.zst"))
    for width, shown, letters in ((390, "narrow", 9.5), (1100, "wide", 11)):
        page.resize(width, 844)
        page.open(address)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        found = page.evaluate("""[...document.querySelectorAll('figure')].map((figure) => {
            const drawn = [...figure.querySelectorAll('svg')].filter((one) => one.getBoundingClientRect().width);
            const box = drawn[0].getBoundingClientRect(), scale = box.width / drawn[0].viewBox.baseVal.width;
            const out = [...drawn[0].querySelectorAll('text')].filter((one) => {
                const at = one.getBoundingClientRect();
                return at.left < box.left - 1 || at.right > box.right + 1 || at.bottom > box.bottom + 1; });
            return [drawn.map((one) => one.classList.value).join(), figure.scrollWidth - figure.clientWidth, 11 * scale,
                    out.map((one) => one.textContent)]; })""")
        assert found
        for kind, hidden, letter, outside in found:
            assert (kind, hidden, outside) == (shown, 0, []) and letter >= letters
        if verb == "dataflow":  # names are cut, lines never
            texts = page.evaluate(
                f"[...document.querySelectorAll('svg.{shown} text')].map((one) => one.textContent)"
            )
            assert len([text for text in texts if text.endswith(".hpp:112")]) == 4


def test_pictures_of_races_and_hangs_stay_legible_on_a_phone(page, tmp_path):
    race, hang = tmp_path / "race.html", tmp_path / "hang.html"
    failed = Provoked("reproduced", 9, 10, 1, 11, "9 of 10 delayed runs failed")
    race.write_text(race_page.page(checked("missing_barrier", failed), ["./a"]), encoding="utf-8")
    hang.write_text(hang_html.page(_hang()), encoding="utf-8")
    page.resize(390, 844)
    for path in (race, hang):
        page.open(path.as_uri())
        assert (
            page.evaluate(
                "Math.min(...[...document.querySelectorAll('svg text')].map((t) => t.getBoundingClientRect().height))"
            )
            >= 8
        )
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_recorders_own_threads_are_last_and_folded(page, tmp_path):
    hang = tmp_path / "hang.html"
    hang.write_text(hang_html.page(_hang()), encoding="utf-8")
    page.open(hang.as_uri())
    threads = page.evaluate("""[...document.querySelectorAll('#host .thread')].map((t) =>
        [t.querySelector('h4').textContent.split(' ')[2], t.querySelector('details').open])""")
    assert threads == [["train:", True], ["warpsight-cupti:", False]]
    assert page.evaluate("document.querySelector('#host summary').textContent") == "1 native frame"


def _hang():
    """A report of a program stuck in one launch, with a thread of its own and one of the recorder's."""
    frame = {"function": "poll", "module": "/lib/libc.so.6", "address": 4096}
    threads = [{"thread": number, "name": name, "state": "sleeping", "gil": False, "python": [], "native": [frame], "problem": ""}
               for number, name in ((7, "warpsight-cupti"), (8, "train"))]  # fmt: skip
    launch = {"kernel": "stuck", "demangled": "stuck", "call": "cuLaunchKernel", "grid": [1, 1, 1], "block": [32, 1, 1],
              "before_s": 5.0, "thread": 8, "pid": 6, "frames": []}  # fmt: skip
    return {"kind": "hang", "reason": "", "program": ["./train"], "when": "2026-01-01T00:00:00+0000", "verdict": "stuck runs",
            "gathered_s": 0.4, "evidence": [], "suspects": [], "trace": None, "notes": [], "dumps": [], "errors": [],
            "launches": [launch], "launches_total": 1, "timeline": None, "last_work": [], "open_ranges": [],
            "processes": [{"pid": 6, "command": "./train", "threads": threads}]}  # fmt: skip


def kineto(folder: Path, events: list[dict], **more: object) -> str:
    """The report of a Kineto file with these events."""
    trace = folder / "trace.json"
    device = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 1 << 37}
    trace.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events} | more)
    )
    return made(folder, "report", str(trace))


def _kernel(at: float, length: float, device: int = 0) -> dict:
    return {"ph": "X", "cat": "kernel", "name": "only", "pid": device, "tid": 7, "ts": at, "dur": length,
            "args": {"device": device, "stream": 7, "correlation": device + 1}}  # fmt: skip


def test_a_trace_without_device_work_opens_on_all_of_it(page, tmp_path):
    host = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::nothing",
        "pid": 1,
        "tid": 1,
        "ts": 10,
        "dur": 5,
        "args": {},
    }
    page.open(kineto(tmp_path, [host]), "window.report")
    begin, end = page.evaluate("report.data.timeline.window")
    assert (begin, end) == (0, 5000)
    assert page.evaluate("document.querySelector('.timeline code.told').innerText").endswith(
        "--until 0.000005000s"
    )


def test_devices_without_a_name_are_counted_beside_named_ones(page, tmp_path):
    page.open(kineto(tmp_path, [_kernel(10, 5, d) for d in range(3)]), "window.report")
    assert page.evaluate("document.querySelector('.eyebrow').innerText") == "NVIDIA H200, 2 more"
    assert "1 name" in page.evaluate("document.querySelector('.tiles').innerText").split("\n")


@pytest.mark.parametrize("width", [390, 1100, 1440])
def test_counters_with_long_names_and_units_are_legible(page, tmp_path, width):
    page.resize(width, 900)
    page.open(made(tmp_path, "report", str(_GOLDEN / "counters" / "h100_samples.warp.zip")), "window.report")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    captions = page.evaluate("""[...document.querySelectorAll('.chart figcaption')].map((c) =>
        [c.offsetHeight, c.scrollWidth - c.clientWidth])""")
    assert max(height for height, _ in captions) <= 64 and max(beyond for _, beyond in captions) <= 0
    ends = page.evaluate("""report.charts.filter((c) => !c.flat).map((c) => {
        const g = c.canvas.getContext('2d'); g.font = `11px ${WS.color('--sans')}`;
        return [c.title, g.measureText(WS.axis(c.most, c.data.unit)).width]; })""")
    assert [title for title, wide in ends if wide > 58] == []
    shown = page.evaluate(
        "report.charts.filter((c) => !c.flat).map((c) => [WS.axis(c.most, c.data.unit), c.note])"
    )
    assert [one for one in shown if one[0] in ("0.0%", "0") or one[1].endswith("peak 0.0%")] == []


def test_a_section_whose_series_never_changed_shows_them(page, slow_step):
    """A panel with nothing but a closed fold looks empty."""
    page.open(slow_step, "window.report")
    for chosen, opened in (("(l) => l.flat", True), ("() => true", False)):
        shown = page.evaluate(f"""(() => {{
            const host = document.body.appendChild(WS.el("div")).appendChild(WS.el("div"));
            const data = report.charts.filter({chosen}).map((l) => l.data);
            WS.charts(host, data, [0, 1e9], "--kernel");
            return host.parentElement.querySelector("details").open; }})()""")
        assert shown is opened


@pytest.mark.parametrize("width", [390, 1440])
def test_folds_are_large_enough_to_touch(page, slow_step, width):
    page.resize(width, 900)
    page.open(slow_step, "window.report")
    heights = page.evaluate(
        "[...document.querySelectorAll('summary')].map((s) => s.getBoundingClientRect().height).filter(Boolean)"
    )
    assert heights and min(heights) >= 24
