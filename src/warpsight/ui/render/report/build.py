"""From results to the page: the content of each section, redacted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.model.selection import Rows
from warpsight.model.sharing.redaction import Redactor
from warpsight.ui.render import numbers, pages
from warpsight.ui.render.flame import page as flame_page
from warpsight.ui.render.report import cells, figures, shares, sources, timeline
from warpsight.ui.render.report.collect import Material, collect

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Rows of tables and frames of the flame graph: enough to answer, few enough to stay far below 5 MB.
_KERNELS, _GAPS, _FRAMES, _FINDINGS, _EVIDENCE, _ACCOUNT = 200, 50, 12_000, 40, 8, 60
_SCRIPTS = (
    *flame_page.SCRIPTS,
    "timeline_data.js",
    "timeline_details.js",
    "timeline_drawing.js",
    "timeline.js",
    "charts.js",
    "report.js",
)
_ALL = Rows()
_Text = Callable[[str], str]


@dataclass(frozen=True)
class ReportOptions:
    """What the report may show: by default nothing about people, machines and arguments. `source` embeds source lines."""

    include: Sequence[str] = ()
    source: bool = True
    title: str | None = None
    #: Text and address of links in the page's head, for a page that is served along with others.
    links: Sequence[tuple[str, str]] = ()
    #: Address, relative to the page's, that returns any window of the timeline; "" if the page is not served.
    live: str = ""


def render(trace: StoredTrace, rows: Rows = _ALL, options: ReportOptions = ReportOptions()) -> str:
    """The report as HTML.

    Args:
        trace: The trace.
        rows: Which rows count.
        options: What the report may show.
    """
    material = collect(trace, rows)
    redactor = Redactor.of(trace, include=options.include)
    text = redactor.text
    data, dropped = _data(trace, material, text)
    tables = _tables(material, text)
    lines = sources.hot_lines(material.flame, text, read=options.source) if material.flame is not None else []
    data["lines"] = {f"{line.file}:{line.line}": f"line-{number}" for number, line in enumerate(lines, 1)}
    if options.live and "timeline" in data:
        data["timeline"]["live"] = options.live
    return pages.page(
        "report.html.j2", css=("theme.css", "report.css"),
        data=data, live=options.live,
        js=_SCRIPTS, links=options.links, head=_head(material, redactor),
        title=text(options.title or Path(trace.path.rstrip("/")).name),
        verdict=_verdict(material, text), tiles=_tiles(material), account=shares.of(material.account),
        findings=_findings(material, text), tables=tables,
        lost=[(numbers.cell(count), text(source), text(cause)) for source, cause, count in material.lost],
        notes=_notes(material, text), failed={k: text(v) for k, v in material.failed.items()},
        flame=_flame_note(material, dropped), lines=[_line(line, lines) for line in lines],
        environment=_environment(trace, material, redactor), sections=_sections(material, tables, lines),
    )  # fmt: skip


def _data(trace: StoredTrace, material: Material, text: _Text) -> tuple[dict[str, Any], int]:
    origin = material.begin
    data: dict[str, Any] = {
        "memory": figures.lines(material.memory, origin, text),
        "counters": figures.lines(material.counters, origin, text),
    }
    dropped = 0
    if material.scene is not None and material.scene.rows:
        shown = timeline.Timeline(trace, material.scene, text)
        data["timeline"] = shown.data(_judged(material)) | {
            "marks": shown.marks(material.findings[:_FINDINGS])
        }
    if material.flame is not None and len(material.flame) > 1:
        data["flame"], dropped = flame_page.data_of(material.flame, _FRAMES, text)
    found = material.iterations.tables.get("iterations")
    if found is not None:
        rows: dict[int, list[dict[str, Any]]] = {}
        for row in found.to_pylist():
            rows.setdefault(row["process"], []).append(row)
        data["iterations"] = [
            {"process": process, "bars": figures.iterations(own, origin, text)}
            for process, own in rows.items()
        ]
    return data, dropped


def _judged(material: Material) -> tuple[int, int] | None:
    """The time that the verdict is mostly about: the steady state of the loop, otherwise all of the devices' work."""
    found = material.verdict
    if found is None:
        return None
    loop = found.iterations
    if loop is not None and loop.steady is not None:
        return loop.steady
    return found.window if found.account.span else None  # there is none without device work


def _kind(device: dict[str, Any], *, alone: bool) -> str:
    """The name of a device without its number, which is the only difference between several in some files."""
    name = str(device["name"] or "")
    return name if alone else name.removesuffix(f" {device['device']}")


def _head(material: Material, redactor: Redactor) -> dict[str, str]:
    """What was recorded, on one line: command, devices, when, how long."""
    from datetime import datetime, timezone

    contents = material.contents
    when = contents.get("realtime")
    processes, devices = contents.get("processes") or [], contents.get("devices") or []
    commands = list(dict.fromkeys(redactor.command(p["command"]) for p in processes if p["command"]))
    kinds = Counter(_kind(device, alone=len(devices) == 1) for device in devices)
    nameless = kinds.pop("", 0)
    named = [f"{n} × {name}" if n > 1 else name for name, n in kinds.items()]
    if nameless:
        named.append(f"{nameless} {'more' if named else 'device' if nameless == 1 else 'devices'}")
    return {
        "command": commands[0] + (f" and {len(commands) - 1} more" if len(commands) > 1 else "")
        if commands
        else "",
        "devices": ", ".join(named),
        "when": datetime.fromtimestamp(when / 1e9, timezone.utc).strftime("%-d %B %Y, %H:%M UTC")
        if when
        else "",
        "duration": numbers.duration(contents.get("duration") or 0),
        "processes": f"{len(processes)} processes" if len(processes) > 1 else "",
    }


def _verdict(material: Material, text: _Text) -> dict[str, str]:
    found = material.verdict
    if found is None:
        return {
            "headline": "This trace has no verdict.",
            "also": "",
            "summary": material.failed.get("verdict", ""),
        }
    first, _, also = text(found.headline).partition("; ")
    return {
        "headline": _sentence(first, found.leading[0].name if found.leading else None),
        "also": _sentence(also),
        "summary": _sentence(text(found.summary)),
    }


def _sentence(words: str, name: str | None = None) -> str:
    if not words:
        return ""
    return numbers.unbroken(
        numbers.capitalized(words, name) + ("" if words.endswith((".", "!", "?")) else ".")
    )


def _tiles(material: Material) -> list[dict[str, Any]]:
    """The figures people look for first; those missing from the trace are left out."""
    tiles: list[dict[str, Any]] = []

    def add(label: str, value: str, note: str = "", share: float | None = None) -> None:
        tiles.append({"label": label, "value": value, "note": note, "share": share})

    devices = material.account.tables.get("devices")
    if devices is not None and len(devices):
        rows = devices.to_pylist()
        span = max(sum(row["span"] for row in rows), 1)
        busy = sum(row[name] for row in rows for name in ("compute", "communication", "copy"))
        of = f" on each of {len(rows)} GPUs" if len(rows) > 1 else ""
        note = f"of {numbers.duration(span // len(rows))}{of}"
        add("GPU busy", shares.percent(busy / span), note, busy / span)
        add("GPU idle", numbers.duration(span - busy), "from first to last work")
    kernels = material.kernels.tables.get("kernels")
    if kernels is not None and len(kernels):
        count = sum(kernels.column("count").to_pylist())
        add("Kernels", numbers.cell(count), f"{len(kernels):,} {'name' if len(kernels) == 1 else 'names'}")
        add("Kernel time", numbers.duration(sum(kernels.column("total").to_pylist())), "summed over streams")
    copies = material.copies.tables.get("copies")
    if copies is not None and len(copies):
        moved = sum(copies.column("bytes").to_pylist())
        add("Copied and set", numbers.size(moved), numbers.duration(sum(copies.column("total").to_pylist())))
    loop = material.verdict.iterations if material.verdict is not None else None
    if loop is not None:  # the loop of the headline and the summary, in the same time
        count = loop.steady_count or loop.count
        add(
            "Iteration",
            numbers.duration(loop.median_ns),
            f"median of {count:,}{' steady' if loop.steady_count else ''}",
        )
    peak = max((int(s.high.max(initial=0)) for s in material.memory), default=0)
    if peak:
        add("Peak memory", numbers.size(peak), "allocated while recorded")
    return tiles


def _findings(material: Material, text: _Text) -> list[dict[str, Any]]:
    """Findings with their time: a share is of the devices' time, a saving of the judged time."""
    found = material.verdict
    out = []
    for finding in material.findings[:_FINDINGS]:
        share = finding.share_ns is not None
        time = finding.share_ns if share else finding.saves_ns
        whole = 0 if found is None else found.account.span if share else found.length
        out.append({
            "severity": finding.severity, "text": _sentence(text(finding.text), finding.name),
            "advice": text(finding.advice or ""), "tag": finding.kind or finding.severity, "account": finding.kind is not None,
            "rule": finding.rule or "", "cost": numbers.duration(time) if time else "",
            "share": min(time / whole, 1.0) if time and whole else None, "saves": not share,
            "evidence": [_evidence(e, text) for e in finding.evidence[:_EVIDENCE]],
            "place": timeline.place(finding.at[0] - material.begin, finding.at[1] - material.begin) if finding.at else "",
        })  # fmt: skip
    return out


def _evidence(shown: str | Mapping[str, object], text: _Text) -> str:
    if isinstance(shown, str):
        return text(shown)
    return text(", ".join(f"{key} {value}" for key, value in shown.items() if value is not None))


@dataclass(frozen=True)
class _Wanted:
    """A table of the page: which result it shows, its columns as `name=Heading`, and how many rows at most."""

    result: str
    table: str
    identity: str
    caption: str
    columns: str
    top: int = 100
    bar: str | None = None
    wide: tuple[str, ...] = ()
    #: Names in it are of kernels, shown without the type that they return.
    kernels: bool = False


_TABLES = {
    "account": _Wanted("account", "account", "account-table", "The account by class and name",
                       "class=Class, name=What, percent=Share, time=Time, count=Count", _ACCOUNT, "percent", ("name",), True),
    "kernels": _Wanted("kernels", "kernels", "kernel-table", "Kernels by total time",
                       "name=Kernel, count=Count, total=Total, share=Share, mean=Mean, median=Median, p95=p95, max=Max",
                       _KERNELS, "total", ("name",), True),
    "copies": _Wanted("copies", "copies", "copy-table", "Copies and sets",
                      "kind=Direction, count=Count, bytes=Bytes, bandwidth=Bandwidth, total=Total, mean=Mean, max=Max",
                      bar="total", wide=("kind",)),
    "causes": _Wanted("gaps", "causes", "cause-table", "Idle time by cause",
                      "class=Cause, name=What, gaps=Gaps, time=Time, longest=Longest", bar="time", wide=("name",)),
    "gaps": _Wanted("gaps", "top", "gap-table", "Longest gaps",
                    "begin=At, duration=Length, device=Device, causes=Causes, host=The host was in, call=Ended by, "
                    "next=Then came",
                    _GAPS, "duration", ("causes", "host", "next")),
    "iterations": _Wanted("iterations", "summary", "iteration-table", "Iterations of each process",
                          "process=Process, source=Found by, iterations=All, steady=Steady, median=Median, mean=Mean, "
                          "std=Deviation, min=Min, max=Max, outliers=Outliers", wide=("source",)),
}  # fmt: skip


def _tables(material: Material, text: _Text) -> dict[str, cells.ReportTable | None]:
    """The tables by name; None for those without rows in the trace."""
    return {name: _table(wanted, material, text) for name, wanted in _TABLES.items()}


def _table(wanted: _Wanted, material: Material, text: _Text) -> cells.ReportTable | None:
    source = getattr(material, wanted.result).tables.get(wanted.table)
    if source is None or not len(source):
        return None
    return cells.table(
        wanted.identity,
        wanted.caption,
        shares.with_percent(source) if wanted.result == "account" else source,
        dict(column.split("=") for column in wanted.columns.split(", ")),
        top=wanted.top,
        text=(lambda name: text(name).removeprefix("void ")) if wanted.kernels else text,
        bar=wanted.bar,
        origin=material.begin,
        wide=wanted.wide,
    )


def _notes(material: Material, text: _Text) -> list[str]:
    """Notes from the recorder that do not concern missing data."""
    rows = material.contents.get("loss") or []
    notes = [f"{r['source']}: {r['cause']}" for r in rows if r["severity"] == "note"]
    return [text(note) for note in dict.fromkeys([*notes, *(material.contents.get("known_faults") or [])])]


def _flame_note(material: Material, dropped: int) -> dict[str, Any] | None:
    graph = material.flame
    if graph is None or len(graph) < 2:
        return None
    account = graph.accounts[0]
    return {
        "shown": numbers.duration(account.shown), "measured": numbers.duration(account.measured),
        "equal": account.shown == account.measured,
        "without_stack": numbers.duration(account.without_stack) if account.without_stack else "",
        "without_time": f"{account.without_time:,}" if account.without_time else "",
        "dropped": f"{dropped:,}" if dropped else "",
    }  # fmt: skip


def _line(line: sources.HotLine, lines: Sequence[sources.HotLine]) -> dict[str, Any]:
    most = max(each.own for each in lines) or 1
    return {"function": line.function, "file": line.file, "line": line.line, "own": numbers.duration(line.own),
            "total": numbers.duration(line.total), "share": line.own / most, "excerpt": line.excerpt}  # fmt: skip


def _environment(trace: StoredTrace, material: Material, redactor: Redactor) -> dict[str, Any]:
    contents = material.contents
    variables: dict[str, str] = {}
    if not redactor.environment:
        for (recorded,) in trace.sql(
            "SELECT environment FROM process WHERE environment IS NOT NULL"
        ).fetchall():
            variables |= {k: redactor.text(f"{k}={v}")[len(k) + 1 :] for k, v in json.loads(recorded).items()}
    devices = [
        {"device": d["device"], "name": d["name"], "memory": numbers.size(d["memory_bytes"]) if d["memory_bytes"] else "",
         "units": d["multiprocessors"] or "", "capability": d["compute_capability"] or "", "driver": d["driver"] or "",
         "runtime": d["runtime"] or "", "host": redactor.text(d["host"] or "")} for d in contents.get("devices") or []
    ]  # fmt: skip
    processes = [
        {"process": p["process"], "rank": "" if p["rank"] is None else p["rank"], "pid": p["pid"],
         "host": redactor.text(p["host"] or ""), "command": redactor.command(p["command"] or ""), "exit": p["exit"] or "",
         "settings": redactor.text(", ".join(f"{k} {v}" for k, v in p["settings"].items() if isinstance(v, (str, int, float))))}
        for p in (contents.get("processes") or [])[:256]
    ]  # fmt: skip
    settings = {
        k: redactor.text(str(v))
        for k, v in (contents.get("settings") or {}).items()
        if v not in (None, "", [])
    }
    rows = {t["table"]: numbers.cell(t["rows"]) for t in contents.get("tables") or []}
    shown = [
        _filled("Devices", devices, {"device": "Device", "name": "Name", "memory": "Memory", "units": "Multiprocessors",
                                     "capability": "Capability", "driver": "Driver", "runtime": "Recorder", "host": "Host"}),
        _filled("Processes", processes, {"process": "Process", "rank": "Rank", "pid": "Pid", "host": "Host",
                                         "command": "Command", "exit": "End"}),
    ]  # fmt: skip
    return {"tables": shown, "settings": settings, "rows": rows, "variables": variables,
            "recorder": contents.get("warpsight") or "", "bytes": numbers.size(contents.get("bytes") or 0),
            "redacted": redactor.paths or redactor.arguments or redactor.environment}  # fmt: skip


def _filled(caption: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> dict[str, Any]:
    """A small table of the columns that have content in any row."""
    used = [name for name in columns if any(row[name] not in ("", None) for row in rows)]
    numeric = {"memory", "units", "capability"}
    heads = [cells.Head(columns[name], name in numeric, name == "command") for name in used]
    return {"caption": caption, "heads": heads, "rows": [[row[name] for name in used] for row in rows]}


def _sections(
    material: Material, tables: dict[str, cells.ReportTable | None], lines: Sequence[Any]
) -> list[tuple[str, str]]:
    """Sections the page has, for its navigation: id and title."""
    there = (
        ("verdict", "Verdict", True),
        ("account", "Account", tables["account"]),
        ("findings", "Findings", material.findings),
        ("timeline", "Timeline", material.scene is not None and material.scene.rows),
        ("flame", "Flame graph", _flame_note(material, 0)),
        ("kernels", "Kernels", tables["kernels"]),
        ("idle", "Idle time", tables["causes"] or tables["gaps"]),
        ("iterations", "Iterations", tables["iterations"]),
        ("memory", "Memory", material.memory),
        ("copies", "Copies", tables["copies"]),
        ("counters", "Counters", material.counters),
        ("source", "Source", lines),
        ("environment", "Environment", True),
        ("loss", "What is missing", True),
    )
    return [(name, title) for name, title, shown in there if shown]
