"""The timeline as text and as an application: bins against brute force, keys against what the trace holds."""

import asyncio
import itertools

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, build, copy, kernel, messy  # noqa: F401 - fixtures
from warpsight.analysis.stats.overview import Picture
from warpsight.ui.render.terminal_app import KeyHelp
from warpsight.ui.render.timeline import text as timeline_text
from warpsight.ui.render.timeline.app import TimelineApp


def brute(rows, begin, end, count):
    """Covered share of bins by marking every nanosecond."""
    covered = np.zeros(end - begin)
    for start, stop in rows:
        covered[max(start - begin, 0) : max(stop - begin, 0)] = 1
    edges = np.arange(count + 1) * (end - begin) // count
    return [covered[a:b].mean() for a, b in itertools.pairwise(edges)]


def test_bins_are_the_covered_share_of_each_lane(messy):  # noqa: F811
    trace, rows = messy
    picture = Picture.of(trace)
    begin, end = picture.begin + 777, picture.end - 500
    busy, _ = picture.bins(begin, end, 37)
    work = [r for t in ("kernel", "memcpy", "memset") for r in rows[t] if r["start"] is not None]
    assert len(picture.lanes) == 2 + 8  # two devices, each with two streams of two processes
    for i, lane in enumerate(picture.lanes):
        mine = [(r["start"], r["start"] + r["duration"]) for r in work if r["device"] == lane.device
                and (lane.stream is None or (r["stream"], r["process"]) == (lane.stream, lane.process))]  # fmt: skip
        assert busy[i].tolist() == pytest.approx(brute(mine, begin, end, 37))
        assert lane.rows == len(mine)


def test_the_name_of_a_bin_is_what_took_most_of_it(build):  # noqa: F811
    trace = build(kernel=[kernel(0, 60, 1), kernel(60, 40, 4), kernel(100, 10, 1), kernel(110, 150, 4)])
    picture = Picture.of(trace)
    _, name = picture.bins(0, 300, 3)
    assert [picture.names[i] for i in name[0]] == ["gemm", "softmax", "softmax"]
    _, name = picture.bins(0, 10_000, 1)
    assert picture.names[name[0, 0]] == "softmax"


def test_streams_beyond_the_limit_share_their_devices_lane(build):  # noqa: F811
    trace = build(kernel=[kernel(i, 1 + i, stream=i) for i in range(1, 9)])
    picture = Picture.of(trace, most_lanes=4)
    assert [lane.stream for lane in picture.lanes] == [None, 6, 7, 8]
    assert picture.merged == 5
    assert picture.lanes[0].rows == 8


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_text_fits_its_width_and_keeps_every_lane(messy, width):  # noqa: F811
    picture = Picture.of(messy[0])
    text = timeline_text.plain(picture, picture.begin, picture.end, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert sum("stream" in line or "  s" in line for line in lines[1:]) >= 8
    ascii_text = timeline_text.plain(picture, picture.begin, picture.end, width, ascii_only=True)
    assert all(c not in ascii_text for c in timeline_text.BLOCKS[1:])


def test_text_of_a_small_trace(build):  # noqa: F811
    trace = build(
        kernel=[kernel(EPOCH, 400_000), kernel(EPOCH + 500_000, 500_000, stream=9)],
        memcpy=[copy(EPOCH + 400_000, 50_000)],
    )
    picture = Picture.of(trace)
    assert timeline_text.plain(picture, picture.begin, picture.end, 40) == (
        "           0.0ms     0.5ms\n"
        "device 0   █████████▄▄██████████  95.0%\n"
        "  stream 7 █████████▄             45.0%\n"
        "  stream 9           ▄██████████  50.0%\n"
        "one character is 47.6 µs; its height is\n"
        "the share of it that was busy\n"
    )  # fmt: skip


def test_lanes_of_several_lines_show_finer_shares(build):  # noqa: F811
    trace = build(kernel=[kernel(0, 100, 1), kernel(100, 53, 1), kernel(200, 1, 1), kernel(399, 1, 1)])
    drawn = timeline_text.frame(Picture.of(trace), 0, 400, 22, tall=4)
    (lane,) = drawn.lanes
    eighths = [sum(timeline_text.BLOCKS.index(c) for c in cell.text) for cell in lane]
    busy, _ = Picture.of(trace).bins(0, 400, drawn.columns)
    assert eighths == [min(-int(-share * 32 // 1), 32) for share in busy[0].tolist()]
    assert all(len(cell.text) == 4 for cell in lane)
    assert lane[0].text == "████"


def test_nothing_to_draw_is_said(build):  # noqa: F811
    picture = Picture.of(build())
    assert "no device work" in timeline_text.plain(picture, picture.begin, picture.end, 80)


def drive(trace, *keys, size=(100, 24)):
    """Press keys in the application; returns it as it was at the end with the texts it showed."""

    async def run():
        app = TimelineApp(trace, Picture.of(trace))
        async with app.run_test(size=size) as pilot:
            for key in keys:
                await pilot.press(key)
            await pilot.pause()
            return (
                app,
                str(app.query_one("#lanes").render()),
                str(app.details()),
                [type(s) for s in app.screen_stack],
            )

    return asyncio.run(run())


@pytest.fixture
def three(build):  # noqa: F811
    """Three kernels a second apart, the last one on another stream."""
    return build(
        kernel=[kernel(0, 1_000, 1), kernel(10**9, 2_000, 4), kernel(2 * 10**9, 3_000, 2, stream=9)],
        stacks=((("train", "a.py", 3, None, "python", None),),),
    )


def test_enter_zooms_to_the_event_and_g_goes_back(three):
    app, shown, told, _ = drive(three, "enter")
    assert app.window == (0, 3_000)
    assert "gemm" in told and "1.00 µs from 0.000000000s" in told
    assert shown.startswith("--from 0.00000000s --until 0.00000300s")
    app, *_ = drive(three, "enter", "g")
    assert app.window == (app.picture.begin, app.picture.end)


def test_next_previous_and_zoom_keep_the_event_under_the_cursor(three):
    app, _, told, _ = drive(three, "n")
    assert "softmax" in told
    app, _, told, _ = drive(three, "n", "plus", "plus", "plus", "plus", "plus", "plus", "plus", "plus")
    assert "softmax" in told and app.window[1] - app.window[0] < 10**7
    _, _, told, _ = drive(three, "n", "n", "p")
    assert "softmax" in told


def test_search_goes_to_the_kernel_and_its_row(three):
    app, _, told, _ = drive(three, "slash", *"add", "enter")
    assert "add(float*)" in told and "stream 9" in told
    assert app.picture.lanes[app.row].stream == 9
    app, _, told, _ = drive(three, "slash", *"nothing", "enter")
    assert app.window == (app.picture.begin, app.picture.end)


def test_help_opens_and_an_empty_trace_can_be_looked_at(three, build):  # noqa: F811
    *_, screens = drive(three, "question_mark")
    assert KeyHelp in screens
    _, shown, told, _ = drive(build(), "plus", "right", "n", "enter", "slash", "x", "enter", size=(40, 12))
    assert "no device work" in shown and "idle" in told
