"""HTML of traces, results and flame graphs for a notebook: small, self-contained, in the notebook's own colors."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from warpsight.analysis.account.classes import CLASSES
from warpsight.analysis.base.result import with_units
from warpsight.errors import WarpsightError
from warpsight.ui.render import account_text, loss, numbers
from warpsight.ui.render.flame import page as flame_page

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.account import AccountSummary
    from warpsight.analysis.base.result import Finding, Result
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.api.questions import Analyzed
    from warpsight.model import StoredTrace

#: Rows of a table, kernels of a trace, frames of a flame graph: a cell's output is read, not searched.
_ROWS, _KERNELS, _FRAMES = 20, 8, 4_000
_BOX = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.5;font-variant-numeric:tabular-nums"
_CELL = "padding:2px 10px;border:0;border-bottom:1px solid rgba(128,128,128,.3)"
_BAD = "color:#d03a20;font-weight:600"


def drawn(value: object) -> str:
    """A value as HTML."""
    from warpsight.analysis.base.result import Result
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.api.questions import Analyzed
    from warpsight.model import StoredTrace

    if isinstance(value, StoredTrace):
        return _trace(value)
    if isinstance(value, Analyzed):
        return _analyzed(value)
    if isinstance(value, Result):
        return _result(value)
    if isinstance(value, FlameGraph):
        return _flame(value)
    return _answer(value)


def _trace(trace: StoredTrace) -> str:
    """A trace: the verdict, the account of its time, gaps, and the kernels that take most time."""
    out = [f"<b>{html.escape(trace.path)}</b>"]
    try:
        from warpsight.analysis.rules.verdict import verdict

        out += _verdict(verdict(trace))
    except WarpsightError as error:
        out.append(f'<div style="opacity:.75">{html.escape(str(error))}</div>')
    out += [f'<div style="{_BAD}">{count:,} lost in {html.escape(source)}: {html.escape(cause)}</div>'
            for source, cause, count in loss.lost(trace)]  # fmt: skip
    if trace.count("kernel"):
        from warpsight.analysis.stats.sums import stats

        table = stats(trace, "kernels", names="short").tables["kernels"]
        kept = [
            name for name in ("name", "count", "total", "share", "mean", "max") if name in table.column_names
        ]
        out.append(_table(table.select(kept), _KERNELS))
    else:
        rows = ", ".join(f"{count:,} {name}" for name, count in trace.tables.items())
        out.append(f"<div>{html.escape(rows) or 'no rows'}</div>")
    return _boxed(out)


def _verdict(found: Verdict) -> list[str]:
    """Headline, summary and account."""
    headline = numbers.capitalized(found.headline, found.leading[0].name if found.leading else None)
    return [
        f'<div style="font-size:15px;font-weight:600;margin:4px 0">{html.escape(headline)}</div>',
        f'<div style="opacity:.75">{html.escape(numbers.capitalized(found.summary))}.</div>',
        _account(found.account),
    ]


def _analyzed(found: Analyzed) -> str:
    """The result of :meth:`Trace.analyze`: the verdict with its findings, then each analysis."""
    parts: list[str] = []
    if found.verdict is not None:
        parts += [*_verdict(found.verdict), *map(_finding, found.verdict.findings)]
    for name, result in found.results.items():
        parts += [
            f'<div style="font-weight:600;margin-top:6px">{html.escape(name)}</div>',
            _result(result),
        ]
    return _boxed(parts)


def _answer(found: object) -> str:
    """An answer as its verb prints it."""
    return f'<pre style="line-height:1.4;overflow-x:auto">{html.escape(str(found))}</pre>'


def _account(found: AccountSummary) -> str:
    """Each class with its share, its time and its largest part."""
    if not found.span:
        return ""
    import pyarrow as pa

    units = {"share": "%", "time": "ns"}
    rows = [
        (CLASSES[kind], 100 * time / found.span, time, account_text.name(kind, entry))
        for kind, time, entry in found.classes
    ]
    columns = dict(zip(("class", "share", "time", "mostly"), map(list, zip(*rows, strict=True)), strict=True))
    return _table(with_units(pa.table(columns), **units), _ROWS)


def _result(result: Result) -> str:
    """A result: its findings, then its tables."""
    out = [_finding(finding) for finding in result.findings]
    for name, table in result.tables.items():
        out.append(f'<div style="font-weight:600;margin-top:6px">{html.escape(name)}</div>')
        out.append(_table(table, _ROWS) if len(table) else '<div style="opacity:.75">no rows</div>')
    return _boxed(out)


def _flame(graph: FlameGraph) -> str:
    """A flame graph: the page in its own frame, so that its styles and scripts stay inside."""
    name = " → ".join(path.rstrip("/").rpartition("/")[2] for path in graph.traces)
    page = flame_page.page(graph, name, most=_FRAMES)
    height = min(245 + 21 * flame_page.rows_of(graph, _FRAMES), 900)
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Flame graph of {html.escape(name)}" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px"></iframe>'
    )


def _boxed(parts: Iterable[str]) -> str:
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _finding(finding: Finding) -> str:
    style = (
        _BAD
        if finding.severity in ("loss", "error")
        else "font-weight:600"
        if finding.severity == "warning"
        else ""
    )
    time = finding.share_ns or finding.saves_ns
    cost = f" <span style='opacity:.7'>({numbers.duration(time)})</span>" if time else ""
    advice = f'<div style="opacity:.75">{html.escape(finding.advice)}</div>' if finding.advice else ""
    return f'<div style="{style}">{html.escape(finding.text)}{cost}</div>{advice}'


def _table(table: pa.Table, most: int) -> str:
    shown = table.slice(0, most)
    heads, columns = [], []
    for field, column in zip(shown.schema, shown.columns, strict=True):
        unit = (field.metadata or {}).get(b"unit", b"").decode()
        values: list[Any] = column.to_pylist()
        side = "right" if any(isinstance(v, (int, float)) for v in values) else "left"
        heads.append(f'<th style="{_CELL};text-align:{side}">{html.escape(field.name)}</th>')
        columns.append([f'<td style="{_CELL};text-align:{side}">{html.escape(numbers.shorten(numbers.cell(v, unit), 90))}</td>'
                        for v in values])  # fmt: skip
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    left = len(table) - len(shown)
    more = f'<div style="opacity:.75">{left:,} more rows</div>' if left else ""
    return f'<table style="border-collapse:collapse;margin:4px 0">{"<tr>" + "".join(heads) + "</tr>"}{rows}</table>{more}'
