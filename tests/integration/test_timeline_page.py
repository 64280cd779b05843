"""The timeline of the report in a browser: from a finding to its stack and source and back, keys, search, sums, addresses."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration.chromium import Chromium
from warpsight.model import open as open_trace
from warpsight.model.selection import begin_of

_GOLDEN = Path(__file__).parents[1] / "golden"


def report(trace, out):
    done = subprocess.run([sys.executable, "-m", "warpsight", "report", str(trace), "-o", str(out)], capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A report of a real training loop, and a synthetic trace with so many kernels that its report has bins."""
    folder = tmp_path_factory.mktemp("timeline")
    many = make(folder / "many.warp", Plan(kernels=60_000))
    return {
        "real": report(_GOLDEN / "planted_slow_step.warp.zip", folder / "real.html"),
        "many": report(many, folder / "many.html"),
        "trace": many,
    }


@pytest.fixture(scope="module")
def chromium(browser):
    with Chromium(browser) as opened:
        opened.offline()
        yield opened


@pytest.fixture
def opened(files, chromium):
    """Opens one of the reports, with a fragment."""

    def at(name, fragment=""):
        chromium.resize(1280, 900)
        chromium.call("Page.navigate", url="about:blank")  # a fragment alone would not load the page anew
        chromium.open(files[name].as_uri() + fragment, "window.report")
        chromium.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        chromium.evaluate("document.getElementById('timeline').scrollIntoView()")
        chromium.settle()
        return chromium

    yield at
    assert chromium.errors == []


def view(page):
    return page.evaluate("[report.timeline.from, report.timeline.to]")


def pixel(page, time, key):
    """Where a moment of a row is on the screen."""
    return page.evaluate(f"""(() => {{ const t = report.timeline, r = t.canvas.getBoundingClientRect();
        const track = t.tracks.find(one => one.key === {key!r});
        return [r.x + t.x({time}), r.y + track.y - t.view.scrollTop + 8]; }})()""")


def close(page):
    """A stretch of which the page holds single kernels: start and end, ns since the trace's start."""
    begin, end = page.evaluate("(({begin, end}) => [begin, end])(report.timeline.lines.parts[1])")
    return begin + (end - begin) // 4, begin + (end - begin) // 4 + 1_000_000


def panel(page):
    return page.evaluate("document.querySelector('.panel').innerText")


@pytest.mark.browser
def test_a_finding_leads_to_its_place_its_kernels_their_stack_the_source_and_back(opened):
    page = opened("real")
    assert view(page)[0] > 5.5e9  # the judged loop, not the start of the program
    slow = page.evaluate("report.data.timeline.marks.find(m => m.text.includes('slow iteration'))")
    page.evaluate(f"document.querySelector('#finding-{slow['number']} a.place').click()")
    page.wait("report.timeline.selection")
    assert page.evaluate("report.timeline.selection") == [slow["begin"], slow["end"]]
    begin, end = view(page)
    assert begin < slow["begin"] and slow["end"] < end
    told = panel(page)
    assert "214 ms selected" in told and "sm80_xmma_gemm" in told and "--from 6.069481" in told
    page.settle()
    page.evaluate("report.timeline.canvas.focus({preventScroll: true})")
    page.evaluate(f"report.timeline.show({slow['begin']}, {slow['end']})")
    page.key("ArrowRight")
    assert "slow_step.py" in panel(page)
    page.evaluate("report.timeline.noting && new Promise(r => setTimeout(r, 250))")
    before = page.evaluate("location.hash")
    assert re.search(r"row=gpu0&at=6\.\d{9}s", before)
    page.evaluate("document.querySelector('.panel a[href^=\"#line-\"]').click()")
    assert page.evaluate("document.querySelector(location.hash).closest('section').id") == "source"
    page.evaluate("history.back()")
    page.wait(f"location.hash === {before!r}")
    assert page.evaluate("report.timeline.chosen.start") >= slow["begin"]
    # And from the line of source to where it was seen.
    page.evaluate("document.querySelector('#source a[href^=\"#timeline\"]').click()")
    page.wait("report.timeline.search.startsWith('in:')")
    assert "×" in page.evaluate("report.timeline.found.textContent")


@pytest.mark.browser
def test_the_address_holds_the_state_and_gives_it_back(opened):
    page = opened("real")
    page.evaluate("report.timeline.show(6.05e9, 6.15e9)")
    page.evaluate("report.timeline.step(1)")
    page.evaluate("report.timeline.box.value = 'gemm'; report.timeline.find('gemm')")
    page.evaluate("new Promise(r => setTimeout(r, 300))")
    address = page.evaluate("location.hash")
    state = "[report.timeline.chosen.start, report.timeline.chosen.name, report.timeline.box.value]"
    chosen, shown = page.evaluate(state), view(page)
    page = opened("real", address)
    assert page.evaluate(state) == chosen
    assert view(page) == pytest.approx(shown, abs=1e5)
    page = opened("real", "#timeline?from=5.9s&until=6.0s&select=5.92s..5.95s")
    assert view(page) == [5.9e9, 6e9] and page.evaluate("report.timeline.selection") == [5.92e9, 5.95e9]
    for broken in (
        "#timeline?from=x&until=",
        "#timeline?select=..",
        "#timeline?row=nobody&at=1s",
        "#timeline?from=9s&until=1s",
    ):
        page = opened("real", broken)
        assert view(page)[0] < view(page)[1]


@pytest.mark.browser
def test_keys_zoom_move_fit_step_and_clear(opened):
    page = opened("real")
    whole = view(page)
    page.evaluate("document.activeElement.blur()")
    page.key("w")  # the keys work while the timeline is in view
    width = view(page)[1] - view(page)[0]
    assert width == pytest.approx((whole[1] - whole[0]) / 2)
    page.key("d")
    moved = view(page)
    page.key("a")
    assert view(page)[0] < moved[0]
    page.key("s")
    assert view(page)[1] - view(page)[0] == pytest.approx(2 * width)
    page.evaluate("report.timeline.canvas.focus({preventScroll: true})")
    page.key("ArrowRight")
    first = page.evaluate("report.timeline.chosen.start")
    page.key("ArrowRight")
    assert page.evaluate("report.timeline.chosen.start") > first
    page.key("f")
    chosen = page.evaluate("[report.timeline.chosen.start, report.timeline.chosen.end]")
    assert view(page)[0] < chosen[0] and chosen[1] < view(page)[1] < chosen[1] + 10 * max(
        chosen[1] - chosen[0], 100
    )
    page.key("ArrowUp")
    assert page.evaluate("report.timeline.data.rows[report.timeline.chosen.row].role") != "device"
    page.key("Escape")
    assert page.evaluate("report.timeline.chosen") is None
    page.key("0")
    assert view(page) == page.evaluate("[report.timeline.begin, report.timeline.end]")
    page.key("/")
    assert page.evaluate("document.activeElement === report.timeline.box")


@pytest.mark.browser
def test_a_kernel_under_the_pointer_tells_its_launch_and_an_arrow_leads_to_it(opened, files):
    page = opened("many")
    page.evaluate("report.timeline.show({}, {})".format(*close(page)))
    page.settle()
    found = page.evaluate("""(() => { const t = report.timeline, row = t.data.rows.findIndex(r => r.role === 'stream');
        const s = t.first(t.tracks.filter(one => one.rows[0] === row));
        return [t.data.rows[row].key, s.start, s.end, s.name, s.lag, s.caller]; })()""")
    key, start, end, name, lag, caller = found
    page.hover(*pixel(page, (start + end) / 2, key))
    told = page.evaluate("document.querySelector('.tip').innerText")
    assert name in told and "launched" in told
    with open_trace(files["trace"]) as trace:
        moment = begin_of(trace) + int(start)
        rows = trace.sql("SELECT k.short, k.start - l.start FROM kernel k JOIN launch l USING (process, correlation) "
                         "WHERE k.start = $moment", moment=moment).fetchall()  # fmt: skip
    assert rows == [(name, int(lag))]
    assert page.evaluate(f"report.timeline.data.rows[{int(caller)}].role") == "calls"
    back = page.evaluate(f"report.timeline.lines.asked({int(caller)}, {start - lag}).map(s => s.start)")
    assert start in back


@pytest.mark.browser
def test_a_drag_adds_up_what_lies_in_it(opened, files):
    page = opened("many")
    first, last = close(page)
    page.evaluate(f"report.timeline.show({first}, {last})")
    page.settle()
    (x0, y), (x1, _) = pixel(page, first + 2e5, "gpu0"), pixel(page, first + 7e5, "gpu0")
    page.mouse("mousePressed", x0, y, button="left", clickCount=1)
    page.mouse("mouseMoved", (x0 + x1) / 2, y, button="left", buttons=1)
    page.mouse("mouseMoved", x1, y, button="left", buttons=1)
    page.mouse("mouseReleased", x1, y, button="left", clickCount=1)
    begin, end = page.evaluate("report.timeline.selection")
    busy = page.evaluate(
        f"report.timeline.lines.sums(report.timeline.data.rows.findIndex(r => r.key === 'gpu0'), {begin}, {end}).busy"
    )
    with open_trace(files["trace"]) as trace:
        origin = begin_of(trace)
        pieces = trace.sql("SELECT start, start + duration FROM kernel UNION ALL SELECT start, start + duration FROM memcpy "
                           "ORDER BY 1").fetchall()  # fmt: skip
    covered, reach = 0, origin + begin
    for start, stop in pieces:
        start, stop = max(start, reach), min(stop, origin + end)
        covered += max(0, stop - start)
        reach = max(reach, stop)
    assert busy == pytest.approx(covered, abs=2)
    assert "selected" in panel(page) and "Busy" in panel(page) and "≈" not in panel(page)
    page.evaluate("report.timeline.details.selection(report.timeline.begin, report.timeline.end)")
    assert "≈" in panel(page)  # the file holds single kernels of the judged window alone, and says so


@pytest.mark.browser
def test_the_share_of_a_row_is_of_what_is_shown(opened):
    page = opened("many")
    first, last = close(page)
    row = "report.timeline.data.rows.findIndex(r => r.key === 'gpu0')"
    track = f"report.timeline.tracks.find(t => t.rows && t.rows[0] === {row})"
    whole = page.evaluate(
        f"report.timeline.show(report.timeline.begin, report.timeline.end); report.timeline.shareOf({track})"
    )
    assert whole == page.evaluate(
        f"WS.percent(report.timeline.data.rows[{row}].busy, report.timeline.end - report.timeline.begin)"
    )
    random = Random(4)
    for _ in range(20):
        begin, end = sorted(random.uniform(first, last) for _ in range(2))
        page.evaluate(f"report.timeline.show({begin}, {end})")
        shown = "report.timeline.from, report.timeline.to"
        busy = page.evaluate(f"report.timeline.lines.sums({row}, {shown}).busy")
        assert page.evaluate(f"report.timeline.lines.busy({row}, {shown})") == pytest.approx(
            busy, rel=1e-6, abs=1
        )
        assert page.evaluate(f"report.timeline.shareOf({track})") == page.evaluate(
            f"WS.percent(Math.min({busy}, report.timeline.to - report.timeline.from), report.timeline.to - report.timeline.from)"
        )


@pytest.mark.browser
def test_search_counts_dims_and_goes_from_match_to_match(opened):
    page = opened("real")
    page.evaluate("report.timeline.box.focus()")
    page.type("elementwise")
    assert re.match(r"[\d,]+× .*ms; Enter", page.evaluate("report.timeline.found.textContent"))
    page.key("Enter")
    first = page.evaluate("[report.timeline.chosen.name, report.timeline.chosen.start]")
    page.key("Enter")
    second = page.evaluate("[report.timeline.chosen.name, report.timeline.chosen.start]")
    assert "elementwise" in first[0] and "elementwise" in second[0] and second[1] > first[1]
    page.key("Escape")
    assert page.evaluate("report.timeline.matches") is None
    page.evaluate(
        "report.timeline.box.value = '['; report.timeline.find('[')"
    )  # no expression: taken as text
    assert page.evaluate("report.timeline.found.textContent") == "no match"


@pytest.mark.browser
def test_times_are_those_of_the_command_line(opened, files):
    page = opened("many")
    page.evaluate("report.timeline.details.selection({}, {})".format(*close(page)))
    begin, end = re.search(r"--from (\S+) --until (\S+)", panel(page)).groups()
    done = subprocess.run([sys.executable, "-m", "warpsight", "stats", str(files["trace"]), "kernels", "--from", begin, "--until",
                           end, "--json"], capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = sum(row["count"] for row in json.loads(done.stdout)["tables"]["kernels"]["rows"])
    page.evaluate(f"window.stretch = {json.dumps(close(page))}")
    inside = page.evaluate("""(() => { const [from, to] = stretch, t = report.timeline;
        const row = t.data.rows.findIndex(r => r.key === 'gpu0');
        let n = 0;
        t.lines.cover(row, from, to, (part) => { const own = part.slices.get(row);
            for (let k = 0; k < own.start.length; k++)
                if (own.start[k] >= from && own.start[k] < to && t.lines.kinds[part.kinds[own.name[k]]] !== 'copy') n++; });
        return n; })()""")
    assert told == inside > 0


@pytest.mark.browser
def test_frames_of_libraries_are_one_line_that_opens(opened):
    page = opened("real")
    frames = "[['main (a.py:1)', 0, 1], ['x (torch/a.py:1)', 1, 2], ['y (torch/b.py:2)', 1, 3], ['mine (b.py:3)', 0, 4]]"
    folded = page.evaluate(f"WS.folded({frames}, false)")
    assert [frame["label"] for frame in folded] == ["main (a.py:1)", "torch · 2 frames", "mine (b.py:3)"]
    page.evaluate("report.timeline.folding.click()")
    assert page.evaluate("report.timeline.libraries") is True


@pytest.mark.browser
def test_deep_stacks_leave_the_device_in_view_until_they_are_opened(opened):
    page = opened("real")
    bottom = (
        "(() => { const d = report.timeline.tracks.find(t => t.role === 'device'); return d.y + d.h; })()"
    )
    whole = page.evaluate(bottom)
    page.evaluate(f"report.timeline.makeRoom(0, {whole - 1}), report.timeline.resize()")
    assert page.evaluate(bottom) < whole
    cut = page.evaluate("[...report.timeline.cut.keys()]")
    page.evaluate(f"report.timeline.toggle(report.timeline.tracks.find(t => t.key === {cut[0]!r}))")
    assert page.evaluate(bottom) == whole and not page.evaluate("report.timeline.cut.size")


@pytest.mark.browser
def test_findings_at_one_place_stand_side_by_side(opened):
    page = opened("real")
    page.evaluate("report.timeline.show(report.timeline.begin, report.timeline.end)")
    page.settle()
    places = page.evaluate("report.timeline.discs.map(disc => disc.x)")
    assert len(places) > 2 and all(b - a >= 17 for a, b in pairwise(places))
    assert places[-1] <= page.evaluate("report.timeline.width")
