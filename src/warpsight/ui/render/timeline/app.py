"""The timeline as an application in the terminal: zoom, move, search, and details of the event under the cursor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from warpsight.analysis.base.words import moment
from warpsight.model.work import KINDS
from warpsight.ui.render import numbers, terminal
from warpsight.ui.render.terminal_app import TerminalApp
from warpsight.ui.render.timeline.text import STYLES, frame

if TYPE_CHECKING:
    from warpsight.analysis.stats.overview import Picture
    from warpsight.model import StoredTrace

_HELP = """\
 ←  →         move the cursor, with shift ten columns
 ↑  ↓         choose a device or stream
 +  −         zoom in and out around the cursor (mouse wheel too)
 a  d         move the window by half of it
 enter        zoom to the event under the cursor
 n  p         next and previous event of this row
 /            search kernels by regular expression, from the cursor on
 N            repeat the search
 0  home      show all
 g            go back to the window before
 ?            this help
 q            quit
"""
#: ns; shorter events cannot be distinguished.
_LEAST_WINDOW = 64
#: Maximum lines of a lane, and of the parts above and below the lanes.
_TALLEST, _DETAILS = 4, 14


class _Lanes(Static):
    """The picture; the application sets its content."""

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the mouse position."""
        app: Any = self.app
        app.point(event.x, event.y)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in."""
        app: Any = self.app
        app.point(event.x, event.y)
        app.action_zoom(0.5)

    def on_mouse_scroll_down(self, event: object) -> None:
        """Zoom out."""
        app: Any = self.app
        app.action_zoom(2.0)


class TimelineApp(TerminalApp):
    """A trace's device work, a row per device and stream."""

    TITLE = "warpsight view"
    keys = _HELP
    CSS = """
    #lanes { height: auto; }
    #scroll { height: 1fr; }
    #details { height: auto; min-height: 4; max-height: 12; border-top: solid $primary; padding: 0 1; }
    #search { display: none; }
    #search.shown { display: block; }
    """
    BINDINGS: ClassVar = [
        Binding("left", "move(-1)", "Move", show=False),
        Binding("right", "move(1)", "Move", show=False),
        Binding("shift+left", "move(-10)", show=False),
        Binding("shift+right", "move(10)", show=False),
        Binding("up", "lane(-1)", show=False),
        Binding("down", "lane(1)", show=False),
        Binding("plus,equals_sign", "zoom(0.5)", "Zoom in", key_display="+"),
        Binding("minus", "zoom(2.0)", "Zoom out", key_display="−"),
        Binding("a", "pan(-0.5)", "Back"),
        Binding("d", "pan(0.5)", "On"),
        Binding("enter", "event", "To event"),
        Binding("n", "step(1)", "Next"),
        Binding("p", "step(-1)", "Previous"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("N", "again", show=False),
        Binding("0,home", "all", "All", key_display="0"),
        Binding("g", "before", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, trace: StoredTrace, picture: Picture) -> None:
        """Show `picture`; its rows are looked up in `trace`."""
        super().__init__()
        self.trace, self.picture = trace, picture
        self.window = (picture.begin, picture.end)
        self.before: list[tuple[int, int]] = []
        self.cursor, self.row = 0, 0
        self.pattern = ""
        self.columns = 1
        self.visited = -1
        self._stacks: dict[int, tuple[str, ...]] = {}

    def compose(self) -> ComposeResult:
        """Picture, details, search field, keys."""
        with VerticalScroll(id="scroll"):
            yield _Lanes(id="lanes")
        yield Static(id="details")
        yield Input(placeholder="kernel name, regular expression; enter finds the next", id="search")
        yield Footer()

    def on_mount(self) -> None:
        """Draw once the size is known."""
        self.query_one("#scroll").can_focus = False
        self.show()

    def show(self) -> None:
        """Draw the window and describe the item under the cursor."""
        width = max(self.size.width, 20)
        tall = self.tall
        drawn = frame(self.picture, *self.window, width, tall=tall)
        self.columns = drawn.columns
        self.cursor = min(max(self.cursor, 0), drawn.columns - 1)
        text = Text(no_wrap=True)
        begin, end = (t - self.picture.origin for t in self.window)
        digits = min(max(10 - len(str((end - begin) // drawn.columns)), 1), 9)  # enough to tell columns apart
        text.append(
            f"--from {moment(begin, digits)} --until {moment(end, digits)}  ({numbers.duration(end - begin)} shown)\n",
            "bold",
        )
        text.append(f"{'':{drawn.label}} {drawn.axis}\n", "dim")
        for i, (label, cells, share) in enumerate(zip(drawn.labels, drawn.lanes, drawn.busy, strict=True)):
            here = i == self.row
            for line in range(tall):
                text.append(
                    f"{label if line == 0 else '':{drawn.label}} ",
                    "bold reverse" if here and line == 0 else "bold" if not label.startswith(" ") else "",
                )
                for column, cell in enumerate(cells):
                    style = STYLES.get(cell.kind, "default")
                    if (
                        column == self.cursor
                    ):  # a full block hides its background: the cursor has its own color
                        style = "bright_white on grey37" if here else f"{style} on grey23"
                    text.append(cell.text[line], style)
                text.append(f" {share:6.1%}\n" if line == 0 else "\n", "dim")
        if not self.picture.lanes:
            text.append("no device work\n")
        self.query_one("#lanes", _Lanes).update(text)
        self.query_one("#details", Static).update(self.details())

    @property
    def tall(self) -> int:
        """Lines per lane: several if all lanes fit above the details."""
        return max(1, min(_TALLEST, (self.size.height - _DETAILS) // max(len(self.picture.lanes), 1)))

    def column_window(self) -> tuple[int, int]:
        """The time under the cursor."""
        begin, end = self.window
        first = begin + self.cursor * (end - begin) // self.columns
        return first, max(begin + (self.cursor + 1) * (end - begin) // self.columns, first + 1)

    def event(self) -> tuple[int | None, int]:
        """The last visited event if it is under the cursor, otherwise the longest one (a row number), and their count."""
        if not self.picture.lanes:
            return None, 0
        rows = self.picture.between(self.row, *self.column_window())
        if not len(rows):
            return None, 0
        if self.visited in rows:
            return self.visited, len(rows)
        work, (begin, end) = self.picture.work, self.column_window()
        inside = np.minimum(work.end[rows], end) - np.maximum(work.start[rows], begin)
        return int(rows[int(inside.argmax())]), len(rows)

    def details(self) -> Text:
        """The details of the event under the cursor."""
        row, count = self.event()
        at = moment(self.column_window()[0] - self.picture.origin, 9)
        if row is None:
            return Text(f"idle at {at}", "dim")
        work = self.picture.work
        start, length = int(work.start[row]), int(work.end[row] - work.start[row])
        text = Text()
        name = self.name_of(row).removeprefix("void ")
        text.append(
            f"{numbers.shorten(terminal.printable(name), max(2 * self.size.width - 8, 40))}\n", "bold"
        )
        kind = KINDS[int(work.kind[row])]
        text.append(
            f"{kind}, {numbers.duration(length)} from {moment(start - self.picture.origin, 9)}",
            STYLES[kind],
        )
        queue = work.queues[int(work.queue[row])]
        text.append(f"  device {queue.device} stream {queue.stream} process {queue.process}")
        text.append(f"{self.shape_of(row, start)}\n")
        for line in self.stack_of(int(work.stack[row]))[-4:][::-1]:
            text.append(f"  {terminal.printable(line)}\n", "dim")
        if count > 1:
            text.append(f"and {count - 1:,} more in this column; + zooms in", "dim italic")
        return text

    def name_of(self, row: int) -> str:
        """Full name of a row."""
        work = self.picture.work
        if int(work.kind[row]) > 1:
            return self.picture.names[int(self.picture.name[row])]
        found = self.trace.sql(
            "SELECT demangled FROM name WHERE id = $i", i=int(work.name_id[row])
        ).fetchall()
        return str(found[0][0]) if found else "?"

    def shape_of(self, row: int, start: int) -> str:
        """Launch shape of a kernel, bytes of a copy."""
        work = self.picture.work
        queue = work.queues[int(work.queue[row])]
        where = "start = $start AND process = $process AND stream = $stream"
        given = {"start": start, "process": queue.process, "stream": queue.stream}
        if int(work.kind[row]) > 1:
            table = "memcpy" if KINDS[int(work.kind[row])] == "copy" else "memset"
            found = self.trace.sql(f"SELECT bytes FROM {table} WHERE {where} LIMIT 1", **given).fetchall()
            return f"  {numbers.size(found[0][0])}" if found else ""
        sql = f"""SELECT grid_x || '×' || grid_y || '×' || grid_z, block_x || '×' || block_y || '×' || block_z
                  FROM kernel WHERE {where} LIMIT 1"""
        found = self.trace.sql(sql, **given).fetchall()
        return f"  grid {found[0][0]} block {found[0][1]}" if found and found[0][0] else ""

    def stack_of(self, stack: int) -> tuple[str, ...]:
        """Frames, outermost first."""
        if stack and stack not in self._stacks:
            self._stacks |= self.trace.stacks([stack])
        return self._stacks.get(stack, ())

    def point(self, x: int, y: int) -> None:
        """Move the cursor to a position in the picture, two lines below the top."""
        drawn_label = frame(self.picture, *self.window, max(self.size.width, 20)).label
        self.row = min(max(y - 2, 0) // self.tall, max(len(self.picture.lanes) - 1, 0))
        self.cursor = x - drawn_label - 1
        self.show()

    def go(self, begin: int, end: int) -> None:
        """Show another window, clamped to the trace."""
        whole = self.picture.end - self.picture.begin
        width = max(min(end - begin, whole), min(_LEAST_WINDOW, whole))
        first = max(self.picture.begin, min(begin, self.picture.end - width))
        if (first, first + width) != self.window:
            self.before.append(self.window)
            self.window = (first, first + width)
        self.show()

    def action_move(self, by: int) -> None:
        """Move the cursor; at the edge, the window."""
        self.cursor += by
        if 0 <= self.cursor < self.columns:
            self.show()
        else:
            width = (self.window[1] - self.window[0]) * by // self.columns
            self.go(self.window[0] + width, self.window[1] + width)

    def action_lane(self, by: int) -> None:
        """Choose another row."""
        self.row = min(max(self.row + by, 0), max(len(self.picture.lanes) - 1, 0))
        self.show()

    def action_zoom(self, factor: float) -> None:
        """Make the window `factor` as wide; the time under the cursor stays under it."""
        begin, end = self.window
        at = begin + (end - begin) * (2 * self.cursor + 1) // (2 * self.columns)
        width = int((end - begin) * factor)
        first = at - width * (2 * self.cursor + 1) // (2 * self.columns)
        self.go(first, first + width)

    def action_pan(self, share: float) -> None:
        """Move the window."""
        by = int((self.window[1] - self.window[0]) * share)
        self.go(self.window[0] + by, self.window[1] + by)

    def action_all(self) -> None:
        """Show everything."""
        self.go(self.picture.begin, self.picture.end)

    def action_before(self) -> None:
        """Show the previous window."""
        if self.before:
            self.window = self.before.pop()
            self.show()

    def action_event(self) -> None:
        """Zoom to the event under the cursor, with equal space around it."""
        row, _ = self.event()
        if row is not None:
            self.visit(row, zoom=True)

    def action_step(self, by: int) -> None:
        """Go to the next or previous event of the row."""
        if not self.picture.lanes:
            return
        lane, begin = self.picture.rows(self.row), self.column_window()[0]
        current, _ = self.event()
        if current is not None:
            begin = int(self.picture.work.start[current])
        place = (
            int(np.searchsorted(lane.start, begin, "right"))
            if by > 0
            else int(np.searchsorted(lane.start, begin)) - 1
        )
        if 0 <= place < len(lane.row):
            self.visit(int(lane.row[place]))

    def visit(self, row: int, *, zoom: bool = False) -> None:
        """Move the cursor to an event and scroll it into view; with `zoom`, fit the window to it."""
        start, end = int(self.picture.work.start[row]), int(self.picture.work.end[row])
        self.visited = row
        width = self.window[1] - self.window[0]
        if zoom:
            width = max(3 * (end - start), _LEAST_WINDOW)
        if zoom or not self.window[0] <= start < self.window[1]:
            middle = (start + end) // 2
            self.go(middle - width // 2, middle - width // 2 + width)
        width = max(self.window[1] - self.window[0], 1)
        self.cursor = (start - self.window[0]) * self.columns // width
        while self.column_window()[1] <= start:  # bins are cut to whole nanoseconds
            self.cursor += 1
        self.show()

    def action_search(self) -> None:
        """Open the search field."""
        self.open_field("#search")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Find the next kernel of this name."""
        self.pattern = event.value
        event.input.remove_class("shown")
        self.set_focus(None)
        self.action_again()

    def on_key(self, event: events.Key) -> None:
        """Escape closes the search field."""
        field = self.query_one("#search", Input)
        if event.key == "escape" and field.has_focus:
            field.remove_class("shown")
            self.set_focus(None)

    def action_again(self) -> None:
        """Go to the next event, in any row after the cursor, whose name matches; then from the start."""
        if not self.pattern:
            return
        try:
            re.compile(self.pattern)
        except re.error as error:
            self.notify(f"{self.pattern!r} is not a regular expression: {error}", severity="error")
            return
        found = self.trace.sql(
            "SELECT id FROM name WHERE regexp_matches(demangled, $p, 'i')", p=self.pattern
        ).fetchall()
        work = self.picture.work
        rows = np.flatnonzero(np.isin(work.name_id, [row[0] for row in found]) & (work.kind <= 1))
        if not len(rows):
            self.notify(f"no kernel matches {self.pattern}", severity="warning")
            return
        current, _ = self.event()
        at = int(work.start[current]) if current is not None else self.column_window()[0]
        place = int(np.searchsorted(work.start[rows], at, "right"))
        if place == len(rows):
            self.notify("from the start again")
            place = 0
        row = int(rows[place])
        self.row = self.picture.lane_of(row)
        self.visit(row)
