"""The descriptions of tool parameters for agents: the meaning and accepted values of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ArgumentHelp:
    """A description, and the allowed values, if fixed (for a list, those of each item)."""

    description: str
    values: Callable[[], Sequence[str]] | None = None


def _analyses() -> Sequence[str]:
    from warpsight.analysis.base.registry import ANALYSES

    return tuple(ANALYSES)


def _subjects() -> Sequence[str]:
    from warpsight.analysis.stats.sums import SUBJECTS

    return SUBJECTS


def _weights() -> Sequence[str]:
    from warpsight.analysis.flame.graph import WEIGHTS

    return WEIGHTS


#: By name; `tool.name` where a tool means something else by it.
PARAMETERS = {
    "trace": ArgumentHelp("A trace or profiler file, as list_traces names it."),
    "rows": ArgumentHelp("Maximum rows per table, 1 to 200; fewer if they exceed the byte limit."),
    "cursor": ArgumentHelp("Rows to skip: `next_cursor` of the previous answer, to continue where it stopped."),
    "most_bytes": ArgumentHelp("Largest size of the answer in bytes; ask for more only when needed."),
    "begin_s": ArgumentHelp("Start of the part that counts, in seconds since the start of the recording."),
    "end_s": ArgumentHelp("End of the part that counts, in seconds since the start of the recording."),
    "names": ArgumentHelp("Analyses to run instead of the verdict.", _analyses),
    "subject": ArgumentHelp("What is summed up; memory is what each allocation site holds.", _subjects),
    "stats.by": ArgumentHelp(
        "How rows are grouped. Kernels: name, shape, stack, device, stream, process, range or op; memory: name or stack; "
        "ops: name, shapes, family or forward; modules: name or class; other subjects have a fixed grouping."
    ),
    "sql": ArgumentHelp("One SELECT in DuckDB's SQL. `info` names the tables and their columns."),
    "weight": ArgumentHelp("What stacks are weighed by; idle is time without work on the GPU.", _weights),
    "before": ArgumentHelp("The runs of the version before: one trace or, better, a list of five."),
    "after": ArgumentHelp("The runs of the version after, like `before`."),
    "diff.by": ArgumentHelp(
        "One table alone: summary, kernel, role, stack, range, operator, tree, sequence or runs; by default the measures, the "
        "kernels and what changed in the call tree."
    ),
    "place": ArgumentHelp("Only lines whose `file:line` contains this text, for example `train.py` or `train.py:41`."),
}  # fmt: skip


def described(tool: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments with descriptions and choices, closed to arguments that it does not have."""
    properties = {
        name: _of(PARAMETERS.get(f"{tool}.{name}") or PARAMETERS[name], form)
        for name, form in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties, "additionalProperties": False}


def _of(parameter: ArgumentHelp, form: dict[str, Any]) -> dict[str, Any]:
    form = {**form, "description": parameter.description}
    if parameter.values is None:
        return form
    values = list(parameter.values())
    lists = [one for one in (form, *form.get("anyOf", ())) if one.get("type") == "array"]
    for one in lists:
        one["items"] = {**one.get("items", {}), "enum": values}
    return form if lists else {**form, "enum": values}
