"""`top` on a terminal: kernels, a live flame graph of launching and of sampled stacks, and counters, with their history."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from warpsight.ui.render import numbers, palette, terminal
from warpsight.ui.render.live import flame as live_flame
from warpsight.ui.render.live import view as live_view
from warpsight.ui.render.terminal_app import TerminalApp

if TYPE_CHECKING:
    from warpsight.recorder.live.recording import Live, Snapshot, TopKernel

_HELP = """\
1 … 4  choose a view
tab    the next view
↑↓←→   choose a kernel or frame
enter  zoom to the frame
esc    zoom out; drop the filter
/      filter (regular expression)
s r    sort by the next; reverse
space  hold the picture; go on
t      trace of the ring's window
d      write what processes do
? q    this help; end this view\
"""
VIEWS = ("Kernels", "Flame", "Host", "Counters")
_SORTS = ("time", "per s", "mean", "kernel")
_BARS = " ▁▂▃▄▅▆▇█"
#: Number of values in a history, and of stacks in a flame graph.
_HISTORY, _STACKS, _KERNELS = 400, 2_000, 1_000
_NARROW = 60


class _Body(Static):
    """The picture of the chosen view."""

    def on_click(self, event: events.Click) -> None:
        """Select the frame under the mouse; a second click zooms."""
        app: Any = self.app
        app.point(event.x, event.y)


class TopApp(TerminalApp):
    """Displays a running recording, and ends with it."""

    TITLE = "warpsight top"
    keys = _HELP
    CSS = """
    #head, #views { height: auto; }
    #views { background: $panel; }
    #scroll { height: 1fr; scrollbar-size-vertical: 1; }
    #body { height: auto; }
    #details { height: auto; max-height: 3; border-top: solid $primary; padding: 0 1; }
    #filter { display: none; }
    #filter.shown { display: block; }
    """
    BINDINGS: ClassVar = [
        *(Binding(str(i), f"view({i - 1})", show=False) for i in range(1, len(VIEWS) + 1)),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("question_mark,h", "help", "Help", key_display="?"),
        Binding("tab", "view", "View", priority=True),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", show=False),
        Binding("space,p", "hold", "Hold", key_display="space"),
        Binding("up", "move(0, -1)", show=False),
        Binding("down", "move(0, 1)", show=False),
        Binding("left", "move(-1, 0)", show=False),
        Binding("right", "move(1, 0)", show=False),
        Binding("enter", "zoom", show=False),
        Binding("escape", "out", show=False),
        Binding("t", "ask('trigger')", show=False),
        Binding("d", "ask('dump')", show=False),
    ]

    def __init__(
        self,
        live: Live,
        interval: float,
        actions: Mapping[str, Callable[[Snapshot], str]] | None = None,
    ) -> None:
        """Refresh `live` every `interval` seconds; `actions` are the functions of the keys for a trace and a report."""
        super().__init__()
        self.live, self.interval, self.actions = live, interval, dict(actions or {})
        self.shown: Snapshot = live.look(_KERNELS, _STACKS)
        self.newest = self.shown
        self.view, self.sorted_by, self.reversed, self.held = 0, 0, False, False
        self.pattern = ""
        self.kernel = 0
        self.focus_path: live_flame.Path = ()
        self.chosen: live_flame.Path = ()
        self.lines: list[list[live_flame.TerminalBox]] = []
        self.history: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._note(self.shown)

    def compose(self) -> ComposeResult:
        """Compose the screen: numbers, views, the picture, the selection, the filter, keys."""
        yield Static(id="head")
        yield Static(id="views")
        with VerticalScroll(id="scroll"):
            yield _Body(id="body")
        yield Static(id="details")
        yield Input(placeholder="kernels or frames, regular expression", id="filter")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start looking at the recording."""
        self.query_one("#scroll").can_focus = False
        self.show()
        self.set_interval(self.interval, self._look)

    def _look(self) -> None:
        self.run_worker(self._looked, thread=True, exclusive=True, group="look", exit_on_error=False)

    def _looked(self) -> None:
        seen = self.live.look(_KERNELS, _STACKS)
        self.call_from_thread(self._take, seen)

    def _take(self, seen: Snapshot) -> None:
        self.newest = seen
        self._note(seen)
        if not self.held:
            self.shown = seen
            self.show()
        if not seen.recording:
            self.exit()

    def _note(self, seen: Snapshot) -> None:
        for device, share in seen.recent.items():
            self.history[f"busy {device}"].append(share)
        for reading in seen.counters:
            self.history[f"{reading.device} {reading.name}"].append(reading.value)

    def show(self) -> None:
        """Draw everything."""
        width = max(self.size.width, 20)
        self.query_one("#head", Static).update(self._head(width))
        self.query_one("#views", Static).update(self._views(width))
        drawn = (self._kernels, self._flame, self._flame, self._counters)[self.view]
        body = drawn(width)
        if body.plain.count("\n") > self.query_one("#scroll").size.height:
            body = drawn(width - 1)  # the scroll bar takes a column
        self.query_one("#body", _Body).update(body)
        self.query_one("#details", Static).update(self._details())

    def _head(self, width: int) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        shown = self.shown
        text.append(live_view.head(shown) + "\n", "bold")
        text.append(live_view.rates(shown, width), "")
        for count, why in shown.lost:
            text.append(f"\nlost {count:,} {why}", "bold red")
        for device, share in shown.busy.items():
            name = numbers.shorten(f"device {device}", max(width // 3, 8))
            text.append(f"\n{name} ", "")
            room = max(width - len(name) - len(" 100.0% busy") - 1, 4)
            text.append(spark(self.history[f"busy {device}"], room, 1.0), "bright_blue")
            text.append(f" {share:6.1%} busy", "bold")
        return text

    def _views(self, width: int) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for i, name in enumerate(VIEWS):
            text.append(f" {i + 1} {name} ", "reverse bold" if i == self.view else "")
        if self.held:
            text.append(" held ", "bold yellow")
        if self.pattern:
            text.append(f" /{self.pattern}", "italic")
        return text

    def _matches(self, text: str) -> bool:
        try:
            return re.search(self.pattern, text, re.IGNORECASE) is not None
        except re.error:
            return self.pattern.lower() in text.lower()

    def kernels(self) -> list[TopKernel]:
        """The kernels shown, in order."""
        keys: dict[str, Callable[[TopKernel], Any]] = {
            "time": lambda k: -k.time_ns, "per s": lambda k: -k.count, "mean": lambda k: -k.time_ns / k.count,
            "kernel": lambda k: k.name,
        }  # fmt: skip
        chosen = [k for k in self.shown.top if self._matches(k.name)]
        return sorted(chosen, key=keys[_SORTS[self.sorted_by]], reverse=self.reversed)

    def _kernels(self, width: int) -> Text:
        rows = self.kernels()
        self.kernel = min(self.kernel, max(len(rows) - 1, 0))
        wide = width >= _NARROW
        heads = [("time", 8), ("share", 6), ("per s", 8), *([("mean", 8)] if wide else [])]
        text = Text(no_wrap=True)
        mark = "▲" if self.reversed else "▼"
        for name, columns in heads:
            sorting = name == _SORTS[self.sorted_by]
            text.append(f"{name + (mark if sorting else ''):>{columns}} ", "bold" if sorting else "dim")
        sorting = _SORTS[self.sorted_by] == "kernel"
        text.append(f" kernel{mark if sorting else ''}\n", "bold" if sorting else "dim")
        room = max(width - sum(columns + 1 for _, columns in heads) - 1, 8)
        for i, kernel in enumerate(rows):
            cells = [numbers.duration(kernel.time_ns), f"{kernel.share:.1%}",
                     f"{kernel.count / max(self.shown.window_s, 1e-9):,.0f}",
                     *([numbers.duration(kernel.time_ns / kernel.count)] if wide else [])]  # fmt: skip
            line = " ".join(f"{cell:>{columns}}" for cell, (_, columns) in zip(cells, heads, strict=True))
            name = numbers.shorten(terminal.printable(kernel.name).removeprefix("void "), room)
            text.append(f"{line}  {name:{room}}\n", "reverse" if i == self.kernel else "")
        if not rows:
            text.append(_nothing("kernels", self.pattern), "dim")
        return text

    def frames(self) -> live_flame.FlameNode:
        """The stacks of the chosen flame graph that match the filter."""
        stacks = self.shown.stacks if self.view == 1 else self.shown.samples
        return live_flame.tree([s for s in stacks if any(map(self._matches, s.frames))])

    def _flame(self, width: int) -> Text:
        root = self.frames()
        self.focus_path, _ = live_flame.found(root, self.focus_path)
        self.chosen, _ = live_flame.found(root, self.chosen)
        if self.chosen[: len(self.focus_path)] != self.focus_path[: len(self.chosen)]:
            self.chosen = self.focus_path
        self.lines = live_flame.layout(root, self.focus_path, width)
        text = Text(no_wrap=True)
        if not root.weight:
            text.append(_nothing("samples of the host" if self.view == 2 else "work", self.pattern), "dim")
            return text
        for line in self.lines:
            at = 0
            for box in line:
                text.append(" " * (box.left - at))
                style = f"{palette.INK} on {palette.kind_color(box.node.kind)}"
                if box.path == self.chosen:
                    style = f"bold {palette.INK} on #ffffff"
                inside = box.right - box.left
                drawn = live_flame.label_of(box.node, inside - 1) + "▕" if inside > 1 else "▕"
                text.append(drawn, style)
                at = box.right
            text.append("\n")
        return text

    def _counters(self, width: int) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        rows = [r for r in self.shown.counters if self._matches(r.name)]
        name_room = min(max((len(live_view.counter_name(r)) for r in rows), default=0), max(width // 2, 12))
        for reading in rows:
            values = self.history[f"{reading.device} {reading.name}"]
            name = numbers.shorten(terminal.printable(live_view.counter_name(reading)), name_room)
            room = max(width - name_room - 16, 4)
            text.append(f"{name:{name_room}} {live_view.counter_value(reading):>13} ")
            text.append(spark(values, room, max(max(values, default=0), 1e-9)) + "\n", "bright_blue")
        if not rows:
            text.append(_nothing("counters", self.pattern), "dim")
        return text

    def _details(self) -> Text:
        text = Text()
        if self.view == 0:
            rows = self.kernels()
            if rows:
                text.append(terminal.printable(rows[self.kernel].name), "bold")
        elif self.view in (1, 2):
            root = self.frames()
            _, node = live_flame.found(root, self.chosen)
            weight = (
                f"{numbers.duration(node.weight)} of GPU time"
                if self.view == 1
                else f"{node.weight:,} samples"
            )
            text.append(
                numbers.shorten_paths(terminal.printable(node.label), max(self.size.width - 4, 20)), "bold"
            )
            text.append(
                f"\n{weight} in the last {self.shown.window_s:.0f} s, {node.weight / max(root.weight, 1):.1%}"
            )
        return text

    def action_view(self, which: int | None = None) -> None:
        """Show a view, or the next one."""
        self.view = (self.view + 1) % len(VIEWS) if which is None else which
        self.focus_path = self.chosen = ()
        self.query_one("#scroll", VerticalScroll).scroll_home(animate=False)
        self.show()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.sorted_by = (self.sorted_by + 1) % len(_SORTS)
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.reversed = not self.reversed
        self.show()

    def action_hold(self) -> None:
        """Pause the display, or resume with the current state."""
        self.held = not self.held
        if not self.held:
            self.shown = self.newest
        self.show()

    def action_move(self, across: int, down: int) -> None:
        """Choose another kernel or frame."""
        if self.view == 0:
            self.kernel = min(max(self.kernel + down, 0), max(len(self.kernels()) - 1, 0))
            self._into_sight(self.kernel + 1)
        elif self.view in (1, 2):
            self._choose(across, down)
            self._into_sight(len(self.chosen))
        else:
            self.query_one("#scroll", VerticalScroll).scroll_relative(y=down, animate=False)
        self.show()

    def _choose(self, across: int, down: int) -> None:
        """Select the neighboring frame, the widest one above, or the one below; only frames that are drawn."""
        drawn = {box.path: box for line in self.lines for box in line}
        if down < 0:
            self.chosen = self.chosen[:-1]
        elif down > 0:
            above = [box for path, box in drawn.items() if path[:-1] == self.chosen and path]
            if above:
                self.chosen = max(above, key=lambda box: box.node.weight).path
        else:
            line = (
                [box.path for box in self.lines[len(self.chosen)]]
                if len(self.chosen) < len(self.lines)
                else []
            )
            if self.chosen in line:
                self.chosen = line[min(max(line.index(self.chosen) + across, 0), len(line) - 1)]

    def _into_sight(self, line: int) -> None:
        scroll = self.query_one("#scroll", VerticalScroll)
        top, height = scroll.scroll_offset.y, scroll.size.height
        if not top <= line < top + height:
            scroll.scroll_to(y=max(line - height // 2, 0), animate=False)

    def point(self, x: int, y: int) -> None:
        """Select the frame at a position in the picture, or zoom into it if it is already selected."""
        if self.view == 0:
            self.kernel = max(y - 1, 0)
        elif self.view in (1, 2) and y < len(self.lines):
            for box in self.lines[y]:
                if box.left <= x < box.right:
                    if box.path == self.chosen:
                        self.focus_path = box.path
                    self.chosen = box.path
        self.show()

    def action_zoom(self) -> None:
        """Zoom the chosen frame to the full width."""
        self.focus_path = self.chosen
        self.show()

    def action_out(self) -> None:
        """Close the filter's field, otherwise zoom out, otherwise clear the filter."""
        field = self.query_one("#filter", Input)
        if field.has_class("shown"):
            field.remove_class("shown")
            self.set_focus(None)
        elif self.focus_path:
            self.focus_path = self.focus_path[:-1]
        else:
            self.pattern = field.value = ""
        self.show()

    def action_filter(self) -> None:
        """Open the filter's field."""
        self.open_field("#filter")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self.pattern = event.value
        self.show()

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self.query_one("#filter", Input).remove_class("shown")
        self.set_focus(None)
        self.show()

    def action_ask(self, what: str) -> None:
        """Send a request to the recording; its answer appears as a notification."""
        if what in self.actions:
            self.notify(f"{what}…")
            self.run_worker(lambda: self._ask(what), thread=True, group=what, exit_on_error=False)

    def _ask(self, what: str) -> None:
        from warpsight.errors import WarpsightError

        try:
            self.call_from_thread(self.notify, self.actions[what](self.newest), timeout=20)
        except (WarpsightError, OSError) as error:
            self.call_from_thread(self.notify, str(error), severity="error", timeout=20)


def spark(values: Iterable[float], width: int, most: float) -> str:
    """The last values as bars, newest on the right."""
    shown = list(values)[-width:]
    bars = "".join(_BARS[min(max(round(v / most * (len(_BARS) - 1)), 0), len(_BARS) - 1)] for v in shown)
    return bars.rjust(width)


def _nothing(what: str, pattern: str) -> str:
    return f"no {what} match {pattern}" if pattern else f"no {what} in the window"
