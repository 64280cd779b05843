"""The flame graph page in a browser: zoom, search, hover, keys, sizes, colors; and the other forms `flame` writes."""

import json
import subprocess
import sys

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration.chromium import Chromium
from warpsight.analysis.flame.graph import Shape, flame
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

_COMMAND = [sys.executable, "-m", "warpsight", "flame"]
#: Height of a frame in flame.js.
_ROW = 20


def run(*arguments):
    return subprocess.run([*_COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trace and its page."""
    folder = tmp_path_factory.mktemp("flame")
    trace = make(folder / "t.warp", Plan(kernels=5_000))
    done = run(trace, "-o", folder / "t.html")
    assert done.returncode == 0, done.stderr
    return trace, folder / "t.html"


@pytest.fixture(scope="module")
def chromium(browser):
    with Chromium(browser) as opened:
        opened.offline()
        yield opened


@pytest.fixture
def page(made, chromium):
    """The page, opened anew."""
    chromium.resize(1280, 900)
    chromium.open(made[1].as_uri(), "window.flame")
    yield chromium
    assert chromium.errors == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []


def place(page, label):
    """Middle of the widest drawn frame whose label begins with a text."""
    return page.evaluate(f"""(() => {{
        const f = window.flame, r = f.canvas.getBoundingClientRect();
        const found = f.boxes.filter(b => f.label(b[0]).startsWith({json.dumps(label)})).sort((a, b) => b[2] - a[2])[0];
        return [r.x + found[1] + found[2] / 2, r.y + found[3] * {_ROW} + {_ROW} / 2];
    }})()""")


@pytest.mark.browser
def test_the_page_sums_up_to_the_time_of_the_trace(page, made):
    with open_trace(made[0]) as trace:
        expected = sum(
            int(trace.sql(f"SELECT sum(duration)::BIGINT FROM {t}").fetchall()[0][0])
            for t in ("kernel", "memcpy")
        )
    assert page.evaluate("flame.weight(0)") == expected
    assert page.evaluate("flame.boxes.length") > 20


@pytest.mark.browser
def test_click_zooms_escape_resets_and_the_way_is_shown(page, tmp_path):
    page.click(*place(page, "Block14.forward"))
    assert page.evaluate("flame.label(flame.focus)").startswith("Block14.forward")
    assert page.evaluate("flame.boxes.find(b => b[0] === flame.focus)[2] === flame.width")
    assert "train (train.py:61)" in page.evaluate("document.querySelector('.crumbs').textContent")
    page.screenshot(tmp_path / "zoomed.png")
    page.evaluate("flame.canvas.focus()")
    page.key("Escape")
    assert page.evaluate("flame.focus") == 0


@pytest.mark.browser
def test_hover_tells_label_weight_and_share(page):
    page.hover(*place(page, "train (train.py:61)"))
    told = page.evaluate("document.querySelector('.tip').textContent")
    assert told.startswith("train (train.py:61)") and "of all" in told and "ms" in told


@pytest.mark.browser
def test_search_counts_the_time_once_and_marks(page, made, tmp_path):
    page.evaluate("flame.searchBox.focus()")
    page.type("gemm")
    told = page.evaluate("document.querySelector('.told').textContent")
    with open_trace(made[0]) as trace:
        share = trace.sql(
            "SELECT sum(duration) FILTER (name LIKE '%gemm%') / sum(duration) FROM kernel"
        ).fetchall()[0][0]
        graph = flame(trace, shape=Shape(levels=()))
        share *= sum(t for t, i in zip(graph.total[:, 0].tolist(), graph.label.tolist(), strict=True)
                     if graph.kinds[i] == "kernel") / graph.total[0, 0]  # fmt: skip
    assert abs(float(told.rsplit(", ", 1)[1].split("%")[0]) / 100 - share) < 0.001
    page.screenshot(tmp_path / "search.png")
    page.evaluate("flame.search('[nothing')")  # no regular expression: taken as text
    assert page.evaluate("document.querySelector('.told').textContent") == "no match"


@pytest.mark.browser
def test_keys_walk_the_tree(page):
    page.evaluate("flame.canvas.focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.key(key)
    chosen = page.evaluate("[flame.chosen, flame.tree.depth[flame.chosen]]")
    assert chosen[1] == 3
    assert "of all" in page.evaluate("document.querySelector('.flame [aria-live]').textContent")
    page.key("Enter")
    assert page.evaluate("flame.focus") == chosen[0]
    page.key("/")
    assert page.evaluate("document.activeElement.type") == "search"


@pytest.mark.browser
def test_kernels_first_turns_the_tree_over_and_keeps_the_sum(page):
    whole = page.evaluate("flame.weight(0)")
    page.evaluate("flame.flip.click()")
    assert page.evaluate("flame.weight(0)") == whole
    kinds = set(page.evaluate("flame.children(0).map(i => flame.kind(i))"))
    assert kinds <= {"kernel", "copy", "set"}


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sizes_and_both_colours(page, scheme, tmp_path):
    page.colors(scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    for width in (360, 2560):
        page.resize(width, 700)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("flame.canvas.clientWidth") > width * 0.8
        page.screenshot(tmp_path / f"{scheme}-{width}.png")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.fixture
def modules(chromium, tmp_path):
    """The page of a model with three layers, each called through two frames of a library."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        name = writer.name("gemm")
        for layer in range(3):
            torch = "/lib/site-packages/torch"
            places = [("main", "train.py", 3), ("run", f"{torch}/a.py", 1), ("call", f"{torch}/b.py", 2),
                      (f"nn.Module: Layer_{layer}", None, None), ("forward", "model.py", 9)]  # fmt: skip
            stack = writer.stack([(*place, None, "python", None) for place in places])
            row = {
                "start": 100 * layer,
                "duration": 10 + layer,
                "name_id": name,
                "device": 0,
                "context": 1,
                "stream": 7,
            }
            writer.add("kernel", [{**row, "process": 0, "graph_level": False, "stack": stack}])
        writer.describe()
    done = run(tmp_path / "t.warp", "-o", tmp_path / "t.html")
    assert done.returncode == 0, done.stderr
    chromium.open((tmp_path / "t.html").as_uri(), "window.flame")
    yield chromium
    assert chromium.errors == []


_LABELS = "[...flame.tree.depth.keys()].map(i => flame.label(i))"


@pytest.mark.browser
def test_libraries_and_numbered_modules_are_one_frame_until_they_are_opened(modules):
    page = modules
    assert page.evaluate(_LABELS) == ["all", "main (train.py:3)", "torch · 2 frames", "nn.Module: Layer_0 … _2 · 3 instances",
                                      "forward (model.py:9)", "gemm"]  # fmt: skip
    assert page.evaluate("flame.weight(0)") == 33 == page.evaluate("flame.weight(5)")
    page.click(*place(page, "nn.Module: Layer_0"))
    shown = page.evaluate(_LABELS)
    assert [label for label in shown if "Layer" in label] == [
        f"nn.Module: Layer_{n}" for n in (2, 1, 0)
    ]  # the heaviest first
    page.click(*place(page, "torch"))
    assert "call (torch/b.py:2)" in page.evaluate(_LABELS)
    assert page.evaluate("flame.weight(0)") == 33
    page.evaluate("flame.search('call')")
    assert "33 ns" in page.evaluate("document.querySelector('.told').textContent")
    page.evaluate("flame.fold.click()")
    page.evaluate("flame.fold.click()")
    assert page.evaluate(_LABELS)[2] == "torch · 2 frames"
    assert "33 ns" in page.evaluate("document.querySelector('.told').textContent")  # what is folded is found


@pytest.mark.browser
def test_callers_and_callees_of_a_frame_are_those_of_all_its_places(modules):
    page = modules
    page.evaluate("flame.sandwich(flame.labels.indexOf('forward (model.py:9)'))")
    assert page.evaluate("[flame.label(0), flame.weight(0)]") == ["forward (model.py:9)", 33]
    assert page.evaluate("WS.flames.children(flame.tree, 0).map(i => [flame.label(i), flame.weight(i)])") == [
        ["gemm", 33]
    ]
    callers = page.evaluate(
        "[...flame.upper.depth.keys()].map(i => [flame.label(i, flame.upper), flame.weight(i, flame.upper)])"
    )
    assert callers[1] == ["nn.Module: Layer_0 … _2 · 3 instances", 33] and callers[-1] == [
        "main (train.py:3)",
        33,
    ]
    page.evaluate("flame.canvas.focus()")
    page.key("Escape")
    assert page.evaluate("flame.label(0)") == "all"


@pytest.mark.browser
def test_in_the_order_of_time_frames_stand_where_they_came(modules):
    page = modules
    page.evaluate("flame.canvas.focus()")
    page.key("o")
    assert page.evaluate("flame.order.getAttribute('aria-pressed')") == "true"
    layers = page.evaluate(f"{_LABELS}.filter(text => text.includes('Layer'))")
    assert layers == [f"nn.Module: Layer_{n}" for n in (0, 1, 2)]  # as they came, the lightest first
    assert (
        page.evaluate(f"{_LABELS}.filter(text => text === 'main (train.py:3)').length") == 1
    )  # it never ended
    assert page.evaluate("[flame.weight(0), flame.plain.total[0][0]]") == [33, 33]
    layer = page.evaluate(f"{_LABELS}.indexOf('nn.Module: Layer_2')")
    assert page.evaluate(f"flame.told({layer})").endswith("from 0.000000200s")
    page.evaluate("flame.fold.click()")
    assert "call (torch/b.py:2)" in page.evaluate(_LABELS)
    page.evaluate("flame.flip.click()")  # leaves first is for all times
    assert page.evaluate("[flame.order.getAttribute('aria-pressed'), flame.label(1)]") == ["false", "gemm"]
    assert page.evaluate("flame.weight(0)") == 33


def test_speedscope_has_the_order_of_time(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        names = [writer.name(text) for text in ("first", "second")]
        for i, name in enumerate([0, 1, 1, 0]):
            row = {
                "start": 100 * i,
                "duration": 10 + i,
                "name_id": names[name],
                "device": 0,
                "context": 1,
                "stream": 7,
            }
            writer.add("kernel", [{**row, "process": 0, "graph_level": False}])
        writer.describe()
    assert run(tmp_path / "t.warp", "-o", tmp_path / "t.speedscope.json").returncode == 0
    profile = json.loads((tmp_path / "t.speedscope.json").read_text())
    frames = [frame["name"] for frame in profile["shared"]["frames"]]
    assert [frames[sample[-1]] for sample in profile["profiles"][0]["samples"]] == [
        "first",
        "second",
        "first",
    ]
    assert profile["profiles"][0]["weights"] == [10, 11 + 12, 13]


def test_a_cpu_profile_has_the_lines_and_conserves_the_time(made, tmp_path):
    trace, _ = made
    assert run(trace, "-o", tmp_path / "t.cpuprofile", "--include-paths").returncode == 0
    profile = json.loads((tmp_path / "t.cpuprofile").read_text())
    with open_trace(trace) as opened:
        whole = int(flame(opened).total[0, 0])
    assert sum(profile["timeDeltas"]) == profile["endTime"] == whole // 1_000
    assert len(profile["samples"]) == len(profile["timeDeltas"]) and min(profile["timeDeltas"]) >= 0
    nodes = {node["id"]: node for node in profile["nodes"]}
    assert {child for node in nodes.values() for child in node["children"]} | {1} == set(nodes)
    assert set(profile["samples"]) <= set(nodes)
    frame = next(n["callFrame"] for n in nodes.values() if n["callFrame"]["functionName"] == "train")
    assert (frame["url"], frame["lineNumber"]) == ("train.py", 60)  # lines count from 0


def test_every_form_holds_the_same_time(made, tmp_path):
    trace, _ = made
    with open_trace(trace) as opened:
        whole = int(flame(opened).total[0, 0])
    folded = run(trace, "--to", "folded", "-o", "-").stdout.splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == whole
    assert run(trace, "-o", tmp_path / "t.speedscope.json").returncode == 0
    profile = json.loads((tmp_path / "t.speedscope.json").read_text())
    assert sum(profile["profiles"][0]["weights"]) == whole == profile["profiles"][0]["endValue"]
    assert all(
        0 <= i < len(profile["shared"]["frames"]) for s in profile["profiles"][0]["samples"] for i in s
    )
    assert run(trace, "-o", tmp_path / "t.svg").returncode == 0
    assert (tmp_path / "t.svg").read_text().startswith("<svg ")
    made_json = json.loads(run(trace, "-o", tmp_path / "t.png", "--json").stdout)
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    assert made_json["accounts"][0]["measured"] == made_json["accounts"][0]["shown"] == whole


def test_a_difference_is_folded_with_both_weights(made, tmp_path):
    other = make(tmp_path / "other.warp", Plan(kernels=2_000, seed=2))
    lines = run(made[0], "--diff", other, "--to", "folded", "-o", "-").stdout.splitlines()
    with open_trace(other) as before, open_trace(made[0]) as after:
        expected = [int(flame(t).total[0, 0]) for t in (before, after)]
    weights = [list(map(int, line.rsplit(" ", 2)[1:])) for line in lines]
    assert [sum(w[i] for w in weights) for i in (0, 1)] == expected


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--weight", "hours"), "there is no weight"), (("-o", "p.bmp"), "does not imply a form"), (("--to", "bmp"), "no form"),
     (("--rank", "7"), "has no rank 7"), (("--iteration", "100000"), "there is no iteration"), (("--by", "node"), "no split")],
)  # fmt: skip
def test_wrong_options_are_told_in_one_line(made, arguments, told, tmp_path):
    done = run(
        made[0],
        *arguments,
        *(() if "-o" in arguments else ("-o", tmp_path / "x.html" if "--to" not in arguments else "-")),
    )
    assert done.returncode == 2
    assert told in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "x.html").exists()
