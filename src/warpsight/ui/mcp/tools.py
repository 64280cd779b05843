"""Questions for agents: each answer is plain data with bounded rows and bytes, and says how to get the rest."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpsight.errors import UsageError
from warpsight.model.sharing.secrets import shareable
from warpsight.ui.mcp.bounds import MOST_BYTES, MOST_ROWS, Answer, Page, fitted, tail
from warpsight.ui.mcp.places import Places

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding, Result
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

DEFAULT_ROWS = 20
#: Seconds that a statement may take.
_QUERY_S = 30.0
#: Seconds beyond which nanoseconds do not fit in 64 bits.
_LATEST_S = 4e9
#: Tables that tool `window` lists, of the device and of the host.
_DEVICE, _HOST = ("kernel", "memcpy", "memset"), ("launch", "api", "sync", "nvtx", "op", "event")
#: Maximum events of a window that are read, of which an answer returns some.
_MOST_EVENTS = 10_000


class Tools:
    """The tools over some places; every method is a tool, and its docstring is what agents read."""

    def __init__(self, places: Places, query_s: float = _QUERY_S) -> None:
        """Take the places whose traces may be read, and the seconds that one statement may take."""
        self._places = places
        self._query_s = query_s

    def all(self) -> list[Callable[..., Answer]]:
        """The tools, in the order in which they are listed."""
        return [
            self.list_traces, self.info, self.analyze, self.window, self.source, self.stats, self.query, self.flame, self.diff,
        ]  # fmt: skip

    def list_traces(self, cursor: int = 0) -> Answer:
        """List the traces and profiler files that can be asked about, as paths for the other tools."""
        roots, names = [str(root) for root in self._places.roots], self._places.listed()
        return fitted(
            lambda page: {"roots": roots, "traces": page.of("traces", names)}, MOST_ROWS, cursor, MOST_BYTES
        )

    def info(self, trace: str, cursor: int = 0, most_bytes: int = MOST_BYTES) -> Answer:
        """What a trace holds: tables with row counts and columns, length, devices, processes, and what is missing."""
        from warpsight.analysis.stats.contents import contents
        from warpsight.model.schema import TABLES

        opened = self._places.open(trace)
        found = contents(opened)
        plain: Answer = {
            key: value
            for key, value in found.items()
            if key in ("trace", "duration", "tables", "known_faults")
        }
        columns = {name: [c.name for c in TABLES[name].columns] for name in opened.tables}
        processes = [{k: p.get(k) for k in ("process", "rank", "exit")} for p in found["processes"]]
        lists = {"devices": list(found["devices"]), "loss": list(found["loss"]), "processes": processes}
        return fitted(
            lambda page: {**plain, **{name: page.of(name, rows) for name, rows in lists.items()}, "columns": columns},
            MOST_ROWS, cursor, most_bytes,
        )  # fmt: skip

    def analyze(
        self, trace: str, names: list[str] | None = None, begin_s: float | None = None, end_s: float | None = None,
        rows: int = DEFAULT_ROWS, cursor: int = 0, most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """Say where the GPUs' time went, why they were idle, and what to change first.

        `account` has every nanosecond of every device from its first to its last work, once, by class and name. `findings`
        have a `share_ns` of it, largest first, or what a change `saves_ns` at most, with evidence and advice; `at_s` is the
        stretch to look at with tool `window`.

        With `names` run these analyses instead (utilization, gaps, iterations, critical-path, memory, …). Times are ns.
        """
        from warpsight.analysis.base.registry import analysis
        from warpsight.analysis.rules.verdict import verdict

        opened = self._places.open(trace)
        chosen = _chosen(opened, begin_s, end_s)
        if names:
            asked = [(name, analysis(name)) for name in names]
            results = {name: one.run(opened, chosen) for name, one in asked}
            return fitted(
                lambda page: {name: _result(found, page, f"{name}.") for name, found in results.items()},
                rows, cursor, most_bytes,
            )  # fmt: skip
        found = verdict(opened, chosen)
        whole, findings = found.to_json(), _placed(opened, found.findings)
        return fitted(
            lambda page: {
                **whole, "judged_ns": found.length, "account": page.of("account", whole["account"]),
                "findings": page.of("findings", findings),
            },
            rows, cursor, most_bytes,
        )  # fmt: skip

    def window(
        self, trace: str, begin_s: float, end_s: float, rows: int = DEFAULT_ROWS, cursor: int = 0,
        most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """What ran on the GPU and on the host between two moments, in time order, and why the GPU was idle there.

        `device` lists kernels, copies and sets, `host` calls, waits, ranges and operators that ran in the window or into it;
        `idle` the gaps between the device's work that reach into it, longest part first, with their causes; `samples` the host
        stacks sampled most often. Times are ns since the start of the recording.
        """
        from warpsight.analysis.account.questions import gaps_between
        from warpsight.analysis.stats.listing import events
        from warpsight.model.selection import begin_of

        opened = self._places.open(trace)
        chosen = _chosen(opened, begin_s, end_s)
        if end_s <= begin_s:
            raise UsageError(f"the window from {begin_s:g} s to {end_s:g} s is empty")
        lists = {
            name: _without_nulls(
                events(opened, chosen, kinds, _MOST_EVENTS, running=True).tables["events"].to_pylist()
            )
            for name, kinds in (("device", _DEVICE), ("host", _HOST))
        }
        origin = begin_of(opened)
        gaps = gaps_between(opened, origin + round(begin_s * 1e9), origin + round(end_s * 1e9)).to_pylist()
        lists["idle"] = _without_nulls({**gap, "begin": gap["begin"] - origin} for gap in gaps)
        if opened.count("sample"):
            lists["samples"] = _stacks(_graph(opened, chosen, "samples"))
        return fitted(
            lambda page: {n: page.of(n, found) for n, found in lists.items()}, rows, cursor, most_bytes
        )

    def source(
        self, trace: str, place: str | None = None, weight: str = "time", rows: int = DEFAULT_ROWS, cursor: int = 0,
        most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """The Python lines that asked for the GPU's work, heaviest first, with the source around each.

        `own` is the weight that the line itself asked for, `total` includes what it calls. `source` is there for files below the
        folders that may be read; otherwise serve the folder of the program, too.
        """
        from warpsight.model.selection import Rows
        from warpsight.ui.render.report.sources import HotLine, excerpt, hot_lines

        graph = _graph(self._places.open(trace), Rows(), weight, lines=True)
        lines = [
            one
            for one in hot_lines(graph, shareable, read=False, most=None)
            if place is None or place in f"{one.file}:{one.line}"
        ]
        if not lines:
            where = "" if place is None else f" in a place with {place!r}"
            raise UsageError(f"no Python line{where} asked for GPU work in this trace")

        def plain(one: HotLine) -> Answer:
            around = excerpt(one.file, one.line) if self._places.holds(one.file) else ()
            found = {
                "line": f"{one.file}:{one.line}",
                "function": one.function,
                "own": one.own,
                "total": one.total,
            }
            return found | ({"source": [f"{number}: {text}" for number, text in around]} if around else {})

        return fitted(
            lambda page: {"unit": graph.unit, "lines": [plain(one) for one in page.of("lines", lines)]},
            rows, cursor, most_bytes,
        )  # fmt: skip

    def stats(
        self, trace: str, subject: str = "kernels", by: str = "name", rows: int = DEFAULT_ROWS, cursor: int = 0,
        most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """Sum up one subject: kernels, copies, calls, ranges, memory, operators, modules, …; longest first. Times are ns."""
        from warpsight.analysis.stats.sums import stats

        found = stats(self._places.open(trace), subject, by=by, names="short")
        return fitted(lambda page: _result(found, page), rows, cursor, most_bytes)

    def query(
        self, trace: str, sql: str, rows: int = 50, cursor: int = 0, most_bytes: int = MOST_BYTES
    ) -> Answer:
        """Run one SELECT (DuckDB's SQL) on a trace's tables; `info` names tables and columns. Nothing else can be read.

        Rows have an order only where the statement says ORDER BY, which going on with a cursor needs. A statement that takes
        longer than half a minute is ended.
        """
        from warpsight.analysis.base import query

        opened, skipped = self._places.open(trace), max(cursor, 0)
        limit = min(max(rows, 1), MOST_ROWS)
        with opened.within(self._query_s):
            found = query.arrow(opened, query.run(opened, sql).limit(limit + 1, skipped))
        given = found.to_pylist()

        def build(page: Page) -> Answer:
            count = page.stop - page.first
            shown = given[:count]
            answer: Answer = {"columns": found.column_names, "rows": shown}
            more = {"next_cursor": skipped + len(shown)} if len(given) > len(shown) else {}
            return {**answer, **more}

        return fitted(build, limit, 0, most_bytes)

    def flame(
        self, trace: str, weight: str = "time", begin_s: float | None = None, end_s: float | None = None, rows: int = 40,
        cursor: int = 0, most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """The host code that launched the GPU's work: the heaviest stacks from the outermost frame to the kernel.

        `weight` is time (ns), launches, bytes, idle, allocated, or samples (of host threads: what the CPU did). `account` says
        that nothing was lost on the way.
        """
        opened = self._places.open(trace)
        graph = _graph(opened, _chosen(opened, begin_s, end_s), weight)
        stacks, accounts = _stacks(graph), [one.to_json() for one in graph.accounts]
        return fitted(
            lambda page: {"unit": graph.unit, "account": accounts, "heaviest": page.of("heaviest", stacks)},
            rows, cursor, most_bytes,
        )  # fmt: skip

    def diff(
        self, before: str | list[str], after: str | list[str], by: str | None = None, rows: int = DEFAULT_ROWS,
        cursor: int = 0, most_bytes: int = MOST_BYTES,
    ) -> Answer:  # fmt: skip
        """Compare runs of two versions per iteration: what changed, and whether it is more than run-to-run noise.

        Give several runs a side (four at least, better five, recorded in turn): noise is how runs of one side differ, and the
        verdict on single runs is `untested`. Verdicts of rows: slower, faster (their time), grew, shrank (beside the rest of the
        same run's device work), new, gone, not shown (no difference beyond noise). `ratio` is after / before, `low` and `high`
        its interval.
        """
        import pyarrow as pa

        from warpsight.analysis.diff import runs
        from warpsight.analysis.diff.compare import compare_runs
        from warpsight.analysis.diff.tables import changed_nodes

        sides = [[side] if isinstance(side, str) else side for side in (before, after)]
        if not all(sides):
            raise UsageError("a side of the comparison has no run")
        found = compare_runs(*([runs.read(self._places.open(path)) for path in side] for side in sides))
        tables = found.result.tables
        if by is not None and by not in tables:
            raise UsageError(f"there is no table {by!r}; tables: {', '.join(tables)}")
        wanted = (by,) if by is not None else ("summary", "role" if found.by_role else "kernel", "tree")
        kept = {name: tables[name] for name in wanted if name in tables}
        if by is None:
            nodes = [node["node"] for node in changed_nodes(tables["tree"].to_pylist())]
            kept["tree"] = tables["tree"].take(pa.array(nodes, pa.int64()))
        facts, result = found.facts(), replace(found.result, tables=kept)
        return fitted(lambda page: {**facts, **_result(result, page)}, rows, cursor, most_bytes)


def _without_nulls(rows: Iterable[Answer]) -> list[Answer]:
    """Rows without their null values."""
    return [{key: value for key, value in row.items() if value is not None and value != ""} for row in rows]


def _chosen(trace: StoredTrace, begin_s: float | None, end_s: float | None) -> Rows:
    from warpsight.model.selection import Rows, begin_of

    if begin_s is None and end_s is None:
        return Rows()
    origin = begin_of(trace)
    for moment in (begin_s, end_s):
        if moment is not None and not abs(moment) < _LATEST_S:
            raise UsageError(f"{moment:g} is not a time in seconds")
    begin, end = (None if s is None else origin + round(s * 1e9) for s in (begin_s, end_s))
    return Rows(begin, end)


def _placed(trace: StoredTrace, findings: Sequence[Finding]) -> list[Answer]:
    """Findings as plain data, each with its stretch in seconds since the start."""
    from warpsight.model.selection import begin_of

    origin = begin_of(trace)
    return [
        finding.to_json() | ({"at_s": [round((moment - origin) / 1e9, 9) for moment in finding.at]} if finding.at else {})
        for finding in findings
    ]  # fmt: skip


def _graph(trace: StoredTrace, chosen: Rows, weight: str, *, lines: bool = False) -> FlameGraph:
    from warpsight.analysis.flame.graph import Shape, flame

    return flame(trace, chosen, Shape(weight=weight, names="short", lines=lines))


def _stacks(graph: FlameGraph) -> list[Answer]:
    """Stacks as text, heaviest first."""
    from warpsight.ui.render.flame.text import write_folded

    text = io.StringIO()
    write_folded(graph, text)
    lines = [line.rsplit(" ", 1) for line in text.getvalue().splitlines()]
    lines.sort(key=lambda one: -float(one[1]))
    return [{"stack": tail(stack), "weight": int(float(value))} for stack, value in lines]


def _result(result: Result, page: Page, prefix: str = "") -> Answer:
    """A page of each table of a result."""
    tables: Iterable[tuple[str, Any]] = result.tables.items()
    cut = {name: table.slice(page.first, page.stop - page.first) for name, table in tables}
    page.cut |= {
        f"{prefix}{name}": len(table) for name, table in result.tables.items() if len(table) > page.stop
    }
    return replace(result, tables=cut).to_json()
