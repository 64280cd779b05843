"""`warpsight analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Result
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows


def command(
    trace: options.NewestTrace = "",
    names: Annotated[
        list[str] | None, typer.Argument(help="Analyses to run; --list names them.", metavar="[NAME]…")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the analyses.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every finding in full and every analysis.")
    ] = False,
    device: options.Device = None,
    stream: options.Stream = None,
    process: options.Process = None,
    begin: options.Begin = None,
    end: options.EndOrTo = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", "-n", help="Rows of each table, 0 for all; by default what fits in 30 lines.", min=0
        ),
    ] = None,
    dot: Annotated[
        Path | None,
        typer.Option("--dot", help="Also write the dependency graph as DOT to this new file."),
    ] = None,
    as_json: options.AsJson = False,
    as_sarif: Annotated[
        bool,
        typer.Option(
            "--sarif",
            help="Write the findings as SARIF, each at its line, for editors and code scanning.",
        ),
    ] = False,
    include_paths: options.IncludePaths = False,
    strict: options.Strict = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Say where the GPUs' time went, why they were idle and what to change first, or run analyses by name.

    Without a name: a verdict, an account of each device's time, and findings with evidence and advice: errors, the largest
    shares of the time, then changes and the most each would save.
    """
    if listed:
        return _list(as_json, out, force)
    from warpsight.analysis.base.registry import ANALYSES

    if trace in ANALYSES and not Path(trace).exists():
        words = [trace, *(names or [])]
        trace = next((word for word in words if word not in ANALYSES and Path(word).exists()), "")
        names = [word for word in words if word != trace]
    trace, wanted = options.or_newest(trace), names or []
    _check(wanted, dot, as_json, as_sarif, include_paths)
    from warpsight.api import choice
    from warpsight.api.trace import open as open_trace

    options.check_times(begin, end)
    chosen = (device or (), stream or (), process or ())
    with open_trace(trace) as opened:
        found = opened.analyze(*wanted, everything=everything, device=chosen[0], stream=chosen[1], process=chosen[2],
                               begin=begin, end=end)  # fmt: skip
        judged, results = found.verdict, found.results
        if dot is not None:
            _dot(opened, choice.rows(opened, begin, end, *chosen), dot, force)
        with output.text(out, force) as target:
            if as_sarif and judged is not None:
                target.write(output.json_text(_sarif(opened, judged, include_paths)))
            elif as_json:
                target.write(output.json_text(_json(opened, judged, results, top)))
            else:
                _print(opened, judged, results, everything, top, target)
        if strict and _incomplete(opened):
            raise typer.Exit(3)


def _check(names: list[str], dot: Path | None, as_json: bool, as_sarif: bool, include_paths: bool) -> None:
    """Refuse options that exclude each other, and names of analyses that do not exist, before anything is read."""
    from warpsight.analysis.base.registry import analysis

    if dot is not None and names != ["critical-path"]:
        raise UsageError(
            "--dot works with critical-path only: warpsight analyze TRACE critical-path --dot graph.dot"
        )
    if as_sarif and (as_json or names):
        raise UsageError("--sarif writes the whole verdict: leave out --json and the names of analyses")
    if include_paths and not as_sarif:
        raise UsageError("--include-paths belongs to --sarif")
    for name in names:
        analysis(name)


def _list(as_json: bool, out: Path | None, force: bool) -> None:
    from warpsight.api.trace import Trace as Opened
    from warpsight.ui.render import findings

    found = Opened.analyses()
    with output.text(out, force) as target:
        if as_json:
            target.write(output.json_text({"analyses": found}))
        else:
            findings.show_list(found, target)


def _json(
    opened: StoredTrace, judged: Verdict | None, results: dict[str, Result], top: int | None
) -> dict[str, Any]:
    from dataclasses import replace

    content: dict[str, Any] = {"trace": opened.path}
    if judged is not None:
        content["verdict"] = judged.to_json()
    if top:
        results = {
            name: replace(result, tables={n: t.slice(0, top) for n, t in result.tables.items()})
            for name, result in results.items()
        }
    return {**content, "analyses": {name: result.to_json() for name, result in results.items()}}


def _sarif(opened: StoredTrace, judged: Verdict, include_paths: bool) -> dict[str, Any]:
    from warpsight.model.selection import begin_of
    from warpsight.model.sharing.redaction import Redactor
    from warpsight.ui.render import sarif

    redactor = Redactor.of(opened, include=("paths",) if include_paths else ())
    return sarif.log(judged, Path.cwd(), redactor.text, begin_of(opened), outside=include_paths)


def _print(
    opened: StoredTrace, judged: Verdict | None, results: dict[str, Result], everything: bool, top: int | None, target: IO[str]
) -> None:  # fmt: skip
    from warpsight.ui.render import findings, loss

    if judged is not None:
        findings.show_verdict(judged, target, everything=everything)
    for name, result in results.items():
        if judged is not None:
            target.write(f"\n== {name}\n")
        _tables(opened, result, top, target, 30 // max(len(results), 1) if not everything else 60)
        loss.findings(result.findings)
    if judged is None:
        loss.warn(opened)


def _tables(opened: StoredTrace, result: Result, top: int | None, target: IO[str], lines: int) -> None:
    from warpsight.model.selection import begin_of
    from warpsight.ui.render import findings, tables

    filled = {name: table for name, table in result.tables.items() if len(table)}
    if not filled:
        target.write(f"no rows: {', '.join(result.tables) or 'nothing'} would be printed\n")
    limit = (top or None) if top is not None else findings.rows_each([len(t) for t in filled.values()], lines)
    origin = begin_of(opened)
    for name, table in filled.items():
        table = _since_begin(table, origin, moments=name in _MOMENTS)
        tables.show(table, title=name if len(result.tables) > 1 else None, top=limit, stream=target)


#: Columns that are moments, and tables whose column `time` is one too; people read them from the trace's start on.
_SINCE_BEGIN = ("start", "begin", "first", "last", "peak_time")
_MOMENTS = ("usage", "errors", "pools")


def _since_begin(table: pa.Table, origin: int, *, moments: bool) -> pa.Table:
    for name in (*_SINCE_BEGIN, *(("time",) if moments else ())):
        if name not in table.column_names:
            continue
        import pyarrow.compute as pc

        if (pc.min(table[name]).as_py() or 0) >= origin:
            place = table.column_names.index(name)
            table = table.set_column(place, table.schema.field(place), pc.subtract(table[name], origin))
    return table


def _dot(opened: StoredTrace, rows: Rows, dot: Path, force: bool) -> None:
    from warpsight.analysis.path.dot import write_dot

    with output.text(dot, force) as target:
        write_dot(opened, rows, target)


def _incomplete(opened: StoredTrace) -> bool:
    from warpsight.ui.render import loss

    return bool(loss.lost(opened))
