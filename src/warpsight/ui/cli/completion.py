"""What a shell completes after an option or as an argument: words, and existing columns, kernels and traces.

They are looked up only while a shell asks. If nothing is found, the shell completes file names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import typer

#: Verb and parameter -> where the words are, as `module:constant` below `warpsight`; `*` stands for each verb.
_WORDS = {
    "* names": "analysis.stats.sums:NAMES",
    "analyze names": "analysis.base.registry:ANALYSES",
    "bench device": "ui.cli.completion:DEVICES",
    "capsule export to": "ui.cli.completion:CAPSULE_FORMS",
    "capsule record reach": "ui.cli.capsule.record:_REACH",
    "capsule record values": "ui.cli.capsule.record:_VALUES",
    "capsule record when": "ui.cli.capsule.record:_WHEN",
    "demo device": "ui.cli.completion:DEVICES",
    "diff by": "ui.cli.read.diff:_TABLES",
    "export kind": "formats.selection:KINDS",
    "export to": "formats.registry:EXPORTERS",
    "flame by": "analysis.flame.graph:BY",
    "flame level": "analysis.flame.graph:LEVELS",
    "flame to": "api.flames:FORMS",
    "flame weight": "analysis.flame.graph:WEIGHTS",
    "help verb": "ui.cli.app:VERBS",
    "import form": "formats.registry:READERS",
    "merge weight": "analysis.merge.merge:WEIGHTS",
    "query compress": "ui.cli.read.query:_COMPRESSIONS",
    "query form": "ui.cli.read.query:FORMATS",
    "query table": "model.schema:TABLES",
    "race points kinds": "race.points:PATCHED",
    "record export": "formats.registry:EXPORTERS",
    "record triggers": "recorder.ring.triggers:KINDS",
    "replay mode": "ui.cli.debug.replay:_MODES",
    "replay schedule": "replay.replaying:SCHEDULES",
    "sanitize tool": "debug.sanitizer:TOOLS",
    "sass counts by": "sass.counts.kernels:LEVELS",
    "sass hotspots by": "sass.hotspots:LEVELS",
    "sass list form": "ui.cli.sass.kernels.list:_FORMS",
    "sass query form": "ui.cli.sass.records.query:FORMATS",
    "sass trace categories": "sass.events.nvbit:CATEGORIES",
    "sass trace events": "formats.events.kinds:CLASSES",
    "stats by": "analysis.stats.sums:BY",
    "stats subject": "analysis.stats.sums:SUBJECTS",
    "view kind": "analysis.stats.listing:KINDS",
    "watch dump_memory": "recorder.watch.coredump:MEMORY",
    "watch on_hang": "recorder.watch.watch:ON_HANG",
    "watch stacks": "recorder.options.table:STACKS",
}
DEVICES, CAPSULE_FORMS = ("auto", "cuda", "opencl"), ("cuda", "python", "trace")
#: Options that take several words in one, between commas.
_LISTS = ("query fields", "query group_by", "race points kinds", "sass trace categories", "sass trace events")
_TRACES = (".warp", ".warp.zip")
#: Kernels offered at most, those that take most time.
_KERNELS = 50
_Values = Callable[["typer.Context", str], Iterable[str]]


class _Parameter(Protocol):
    """A parameter of the parser, which typer brings along or takes from click, depending on its version."""

    name: str
    param_type_name: str
    metavar: str | None
    _custom_shell_complete: Callable[[Any, Any, str], list[str]]


class _Command(Protocol):
    params: Sequence[_Parameter]


def add(verb: str, command: _Command) -> None:
    """Give the parameters of a verb what they complete to."""
    for parameter in command.params:
        values = _values(verb, parameter)
        if values is not None:
            parameter._custom_shell_complete = _completer(values, f"{verb} {parameter.name}" in _LISTS)


def _values(verb: str, parameter: _Parameter) -> _Values | None:
    place = _WORDS.get(f"{verb} {parameter.name}") or _WORDS.get(f"* {parameter.name}")
    if place is not None:
        return lambda context, begun: _constant(place)
    own = _OWN.get(f"{verb} {parameter.name}") or _OWN.get(f"* {parameter.name}")
    if own is None and parameter.param_type_name == "argument" and "TRACE" in (parameter.metavar or ""):
        return _traces
    return own


def _constant(place: str) -> list[str]:
    module, _, name = place.partition(":")
    return list(getattr(importlib.import_module(f"warpsight.{module}"), name))


def _completer(values: _Values, several: bool) -> Callable[[Any, Any, str], list[str]]:
    """In the parser's terms; what cannot be read completes to nothing."""

    def complete(context: typer.Context, parameter: _Parameter, begun: str) -> list[str]:
        before, comma, last = begun.rpartition(",") if several else ("", "", begun)
        try:
            found = list(values(context, last))
        except Exception:  # a shell shows no errors, only what it could put there
            return []
        return [before + comma + one for one in found if one.startswith(last)]

    return complete


def _traces(context: typer.Context, begun: str) -> list[str]:
    """The traces here; once something is typed the shell knows more names: of folders, and of other tools' files."""
    return [] if begun else sorted(path.name for path in Path().iterdir() if path.name.endswith(_TRACES))


def _trace(context: typer.Context) -> str:
    """The trace that is named already; behind an option that still lacks its value the parser has not put it in its place."""
    named = context.params.get("trace") or context.params.get("source")
    return str(named or context.args[0])


def _columns(context: typer.Context, begun: str) -> Sequence[str]:
    from warpsight.api.trace import open as open_trace

    with open_trace(_trace(context)) as opened:
        return opened.relation(None, table=context.params.get("table") or "kernel").columns


def _filters(context: typer.Context, begun: str) -> list[str]:
    return [f"{name}=" for name in _columns(context, begun)]


def _kernels(context: typer.Context, begun: str) -> list[str]:
    """Short names of the kernels of the trace, without what a regular expression or a shell would read in them."""
    from warpsight.api.trace import open as open_trace

    with open_trace(_trace(context)) as opened:
        rows = opened.sql(f"""SELECT regexp_extract(short, '[A-Za-z_]\\w*') FROM kernel GROUP BY 1
            ORDER BY sum(duration) DESC NULLS LAST LIMIT {_KERNELS}""").fetchall()
    return [name for (name,) in rows if name]


def _backends(context: typer.Context, begun: str) -> list[str]:
    from warpsight.machine.backends import registry

    return ["auto", *registry.all_backends()]


def _verbs_below(context: typer.Context, begun: str) -> list[str]:
    from warpsight.ui.cli.app import module_of

    return list(getattr(importlib.import_module(module_of(context.params["verb"])), "BELOW", ()))


_OWN: dict[str, _Values] = {
    "* name": _kernels,
    "diff traces": _traces,
    "help below": _verbs_below,
    "query fields": _columns,
    "query filters": _filters,
    "query group_by": _columns,
    "record backend": _backends,
    "sass list kernel": _kernels,
    "sass why kernel": _kernels,
}
