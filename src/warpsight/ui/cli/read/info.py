"""`warpsight info`."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from typing import IO, Any

import typer

from warpsight.ui.cli import options, output


def command(
    trace: options.NewestTrace = "",
    as_json: options.AsJson = False,
    strict: options.Strict = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show what a trace holds, how it was recorded and what is missing."""
    from warpsight.api.trace import open as open_trace

    with open_trace(options.or_newest(trace)) as opened:
        found = opened.info()
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(found))
        else:
            _print(found, stream)
    if strict and any(row["severity"] != "note" for row in found["loss"]):
        raise typer.Exit(3)


def _print(found: dict[str, Any], stream: IO[str]) -> None:
    from warpsight.ui.render import numbers, terminal

    taken = ""
    if found["realtime"] is not None:
        taken = (
            f", taken {datetime.fromtimestamp(found['realtime'] / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        )
    length = "nothing timed" if found["duration"] is None else numbers.duration(found["duration"])
    stream.write(terminal.wrapped(f"{found['trace']}: {length}{taken}", stream) + "\n")
    made = f"warpsight {found['warpsight']}, schema {found['schema']}, {numbers.size(found['bytes'])}"
    if found["bytes_per_kernel"] is not None:
        made += f", {found['bytes_per_kernel']:.1f} bytes per kernel with all that belongs to it"
    stream.write(terminal.wrapped(made, stream) + "\n")
    _loss(found, stream)
    _table(found["tables"], "Tables", stream, bytes="B")
    processes = [
        {k: v for k, v in row.items() if k not in ("settings", "start", "end")} for row in found["processes"]
    ]
    _table(processes, "Processes", stream)
    _table(
        [{k: v for k, v in row.items() if v is not None} for row in found["devices"]],
        "Devices",
        stream,
        memory_bytes="B",
    )
    _table(found["clocks"], "Clocks", stream, uncertainty="ns")
    _pairs(found["settings"], "Settings", stream)
    for process in found["processes"]:
        if process["settings"]:
            _pairs(process["settings"], f"Recorder in process {process['process']}", stream)
    _pairs(found["overhead"], "Cost of the recording, estimated", stream)


def _loss(found: dict[str, Any], stream: IO[str]) -> None:
    from warpsight.ui.render import terminal

    red, plain = ("\033[31m", "\033[0m") if terminal.colored(stream) else ("", "")
    missing = [row for row in found["loss"] if row["severity"] != "note"]
    stream.write(
        "loss: nothing is missing\n" if not missing else f"{red}loss: this trace is incomplete{plain}\n"
    )
    for row in found["loss"]:
        where = "" if row["process"] is None else f", process {row['process']}"
        color = red if row["severity"] != "note" else ""
        count = f"{row['count']:,} lost" if row["severity"] == "lost" else row["severity"]
        text = terminal.wrapped(f"  {count} ({row['source']}{where}): {row['cause']}", stream, "    ")
        stream.write(f"{color}{text}{plain if color else ''}\n")
    for text in found["known_faults"]:
        stream.write(f"{red}{terminal.wrapped(f'  known fault: {text}', stream, '    ')}{plain}\n")


def _table(rows: list[dict[str, Any]], title: str, stream: IO[str], **units: str) -> None:
    import pyarrow as pa

    from warpsight.analysis.base.result import with_units
    from warpsight.ui.render import tables

    if rows:
        stream.write("\n")
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        tables.show(
            with_units(pa.table({n: pa.array(c) for n, c in columns.items()}), **units),
            title=title,
            stream=stream,
        )


def _pairs(values: dict[str, Any], title: str, stream: IO[str]) -> None:
    if values:
        stream.write(f"\n{title}\n")
        width = max(len(name.removesuffix("_ns")) for name in values) + 2
        for name, value in values.items():
            text = _readable(name, value)
            stream.write(f"  {name.removesuffix('_ns'):{width}}{text}".rstrip() + "\n")


def _readable(name: str, value: object) -> str:
    from warpsight.ui.render import numbers

    if value is None:
        return "unknown"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and name.endswith("_ns"):
        return numbers.duration(value)
    if isinstance(value, list):
        return shlex.join(map(str, value)) if name == "command" else ", ".join(map(str, value))
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
