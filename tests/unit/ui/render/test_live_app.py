"""The screen of `top`: what its keys do, and that it fits small terminals; its flame graph in cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from warpsight.recorder.live.recording import Reading, Snapshot, TopKernel
from warpsight.recorder.live.stacks import TopStack
from warpsight.ui.render.live import flame as live_flame
from warpsight.ui.render.live.app import TopApp, spark
from warpsight.ui.render.terminal_app import KeyHelp

TORCH = "call (/usr/lib/python3/site-packages/torch/nn/modules/module.py:1511)"
STACKS = (
    TopStack(("main (train.py:3)", TORCH, TORCH, "forward (model.py:9)", "gemm"), 600, 0.6),
    TopStack(("main (train.py:3)", "load (data.py:4)", "copy"), 300, 0.3),
    TopStack(("[no host stack]", "gemm"), 100, 0.1),
)
SAMPLES = (
    TopStack(("main (train.py:3)", "waiting"), 30, 0.75),
    TopStack(("main (train.py:3)", "running"), 10, 0.25),
)
SHOWN = Snapshot(
    folder="run.warp", recording=True, elapsed_s=12.0, window_s=5.0, processes=(4711,), launches=100.0, kernels=90.0,
    copies=3.0, copied=4096.0, busy={"0 H200": 0.5}, recent={"0 H200": 0.25},
    top=(TopKernel("gemm", 10, 700, 0.7), TopKernel("tiny", 900, 200, 0.2), TopKernel("slow_scan", 1, 100, 0.1)),
    stacks=STACKS, samples=SAMPLES, counters=(Reading("power", 450.0, "W", 0),), lost=((7, "ring: full"),),
)  # fmt: skip


class Fed:
    """Stands for :class:`Live`: hands out snapshots, the last one again and again."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.snapshots = list(snapshots)
        self.looks = 0

    def look(self, top: int, stacks: int) -> Snapshot:
        self.looks += 1
        return self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]


def driven(
    act: Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]], *snapshots: Snapshot, size: tuple[int, int] = (80, 24),
    **options: Any,
) -> TopApp:  # fmt: skip
    app = TopApp(Fed(*(snapshots or (SHOWN,))), 3600.0, **options)  # type: ignore[arg-type]

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await act(app, pilot)

    asyncio.run(run())
    return app


def screen(app: TopApp, part: str = "body") -> str:
    return str(app.query_one(f"#{part}", Static).render())


def test_keys_sort_filter_and_choose_kernels() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        def names() -> list[str]:
            return [kernel.name for kernel in app.kernels()]

        assert names() == ["gemm", "tiny", "slow_scan"]
        await pilot.press("s")
        assert names() == ["tiny", "gemm", "slow_scan"] and "per s▼" in screen(app)
        await pilot.press("s")
        assert names() == ["slow_scan", "gemm", "tiny"]
        await pilot.press("r")
        assert names() == ["tiny", "gemm", "slow_scan"] and "mean▲" in screen(app)
        await pilot.press("s", "down")
        assert "slow_scan" in screen(app, "details") or "gemm" in screen(app, "details")
        await pilot.press("slash", *"s.*q")
        assert names() == [] and "no kernels match s.*q" in screen(app)  # q is a letter here
        await pilot.press("backspace", "n", "enter")
        assert names() == ["slow_scan"]
        await pilot.press("escape")
        assert len(names()) == 3

    driven(act)


def test_the_flame_graph_is_walked_and_zoomed() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        assert [len(line) for line in app.lines] == [1, 2, 3, 2, 1]
        assert "torch …" in screen(app) and "module.py" not in screen(app)
        await pilot.press("down")
        assert app.chosen == ("main (train.py:3)",)
        assert "900 ns of GPU time in the last 5 s, 90.0%" in screen(app, "details")
        await pilot.press("left")
        assert app.chosen == ("[no host stack]",)
        await pilot.press("right", "down", "enter")
        assert app.focus_path == ("main (train.py:3)", "torch …")
        (focus,) = app.lines[2]
        assert (focus.left, focus.right) == (0, 80)
        await pilot.press("escape", "escape")
        assert app.focus_path == ()
        await pilot.press("slash", *"load", "enter")
        assert app.frames().weight == 300

    driven(act)


def test_samples_counters_and_losses_are_shown() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        assert "lost 7 ring: full" in screen(app, "head") and "50.0% busy" in screen(app, "head")
        await pilot.press("tab", "tab")
        assert app.frames().weight == 40 and "waiting" in screen(app)
        await pilot.press("4")
        assert "device 0  power" in screen(app) and "450 W" in screen(app)

    driven(act)


def test_a_held_picture_stays_and_goes_on() -> None:
    later = replace(SHOWN, elapsed_s=99.0)

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        app._take(later)
        assert "for 12 s" in screen(app, "head") and "held" in screen(app, "views")
        await pilot.press("space")
        assert "for 99 s" in screen(app, "head")

    driven(act)


def test_it_ends_with_the_recording() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        app._take(replace(SHOWN, recording=False))
        await pilot.pause()

    app = driven(act)
    assert app._exit and not app.newest.recording


def test_keys_ask_the_recording_and_show_its_answer_or_refusal() -> None:
    from warpsight.errors import WarpsightError

    def refuse(shown: Snapshot) -> str:
        raise WarpsightError(f"{shown.folder} has no ring")

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("t", "d")
        await app.workers.wait_for_complete()
        told = [note.message for note in app._notifications]
        assert "written: x.html" in told and "run.warp has no ring" in told

    driven(act, actions={"trigger": refuse, "dump": lambda shown: "written: x.html"})


@pytest.mark.parametrize("size", [(80, 24), (40, 15)])
@pytest.mark.parametrize("view", ["1", "2", "3", "4"])
def test_every_view_fits_the_terminal(size: tuple[int, int], view: str) -> None:
    long = "void cutlass::" + "Kernel2<" * 40
    wide = replace(
        SHOWN, top=(TopKernel(long, 1, 5, 1.0),), stacks=(TopStack((f"f ({'x/' * 99}a.py:3)", long), 5, 1.0),)
    )

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press(view)
        assert max(map(len, screen(app).splitlines())) <= size[0]
        await pilot.press("question_mark")
        assert isinstance(app.screen, KeyHelp)
        assert all(widget.region.right <= size[0] for widget in app.screen.query(Static))
        assert all(widget.region.bottom <= size[1] for widget in app.screen.query(Static))
        await pilot.press("escape")

    driven(act, wide, size=size)


def test_more_kernels_than_lines_keep_a_line_each_beside_the_scroll_bar() -> None:
    many = tuple(TopKernel(f"a_kernel_with_a_long_name_{i}", 10, 700, 0.02) for i in range(50))

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.pause()
        app.show()
        await pilot.pause()
        assert app.query_one("#scroll").show_vertical_scrollbar
        room = app.query_one("#body", Static).size.width
        assert room == 39
        assert max(map(len, screen(app).splitlines())) <= room

    driven(act, replace(SHOWN, top=many), size=(40, 24))


def test_an_empty_recording_says_so(tmp_path: Path) -> None:
    empty = replace(SHOWN, top=(), stacks=(), samples=(), counters=(), busy={}, recent={}, lost=())

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        for key, said in (
            ("1", "no kernels in"),
            ("2", "no work in"),
            ("3", "no samples"),
            ("4", "no counters in"),
        ):
            await pilot.press(key, "down", "enter")
            assert said in screen(app)

    driven(act, empty)


def test_siblings_share_their_callers_width_in_the_order_of_their_names() -> None:
    root = live_flame.tree(STACKS)
    assert root.weight == 1000
    lines = live_flame.layout(root, (), 100)
    assert [(box.node.label, box.left, box.right) for box in lines[1]] == [
        ("[no host stack]", 0, 10),
        ("main (train.py:3)", 10, 100),
    ]
    assert [(box.node.label, box.left, box.right) for box in lines[2]] == [
        ("gemm", 0, 10),
        ("load (data.py:4)", 10, 40),
        ("torch …", 40, 100),
    ]
    node = live_flame.FlameNode("forward (/home/me/model.py:9)", "python")
    assert [live_flame.label_of(node, width).rstrip() for width in (40, 22, 10)] == [
        "forward (/home/me/model.py:9)",
        "forward (…/model.py:9)",
        "forward",
    ]


def test_bars_of_a_history_end_with_the_newest() -> None:
    assert spark([0.0, 0.5, 1.0], 5, 1.0) == "   ▄█"
    assert spark([1.0] * 9, 3, 1.0) == "███"
