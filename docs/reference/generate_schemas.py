"""Writes the JSON Schemas that follow from types, and docs/reference/schemas.md: `python docs/reference/generate_schemas.py`.

Schemas of `src/warpsight/ui/cli/schemas` that are not made here are written by hand. Outputs that are a dataclass as JSON take
their schema from the dataclass, so the two cannot differ.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
from answers.comparing import Diff
from answers.hangs import HangReport
from answers.hot_code import ExactCounts, HotLines, ListedMetric, MeasuredMetric
from answers.inside_kernels import (
    Comparison,
    RaceVerdict,
    SassDataflow,
    SassEvent,
    SassMemory,
    SassMma,
    SassProbe,
    SassRaces,
    SassTma,
    SassValues,
    SassWaits,
    Validation,
    Warps,
)
from answers.machine import Devices, Doctor, Links, Traffic, Trigger
from answers.reading import CapsuleExport, Flame, Merge, Replay, Report, View
from answers.stalls import CodeListing, StallReport

from warpsight.machine.topology import Topology
from warpsight.race.search.reduction import ReduceResult
from warpsight.race.stressing import StressResult
from warpsight.recorder.live.recording import Snapshot
from warpsight.recorder.trial.bench import Bench
from warpsight.replay.capsule.browsing import Memory, Overview
from warpsight_plugins.cutracer import delays, records

PAGE = Path(__file__).with_name("schemas.md")
FOLDER = Path(__file__).parents[2] / "src" / "warpsight" / "ui" / "cli" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _found_records() -> dict[str, Any]:
    """Records as `sass query` writes them: any fields of any record, null for a chosen one that is absent; what readers add."""
    schema = records.json_schema()
    kinds: dict[str, list[Any]] = {
        "type": [{"type": "string"}], "caller": [{"type": "string"}], "kernel": [{"type": "string"}]
    }  # fmt: skip
    for described in schema["$defs"].values():
        for name, kind in described["properties"].items():
            listed = kinds.setdefault(name, [])
            plain = {key: value for key, value in kind.items() if key != "default"}
            if name != "type" and plain not in listed:
                listed.append(plain)
    properties = {name: {"anyOf": [*listed, {"type": "null"}]} for name, listed in sorted(kinds.items())}
    return {
        "description": "Without groups an array of records, with groups an object of arrays by the text of the group's value. "
        "A line of NDJSON is a record; with groups its `_group` is the group's value.",
        "oneOf": [
            {"$ref": "#/$defs/records"},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/records"}},
        ],
        "$defs": {
            "records": {"type": "array", "items": {"$ref": "#/$defs/record"}},
            "record": {
                "type": "object",
                "properties": {"_group": {}, **properties},
                "additionalProperties": True,
            },
        },
    }


#: Name → what writes it, and the schema or the type it follows from.
MADE: dict[str, tuple[str, Any]] = {
    "bench": ("`bench --json`", Bench),
    "bench_links": ("`bench --links --json`", Links),
    "capsule": ("`capsule show --json`", Overview),
    "capsule_memory": ("`capsule show --json` with an allocation", Memory),
    "cluster_topology": ("`cluster topology --json`", Topology),
    "cluster_traffic": ("`cluster traffic --json`", Traffic),
    "devices": ("`devices --json`", Devices),
    "diff": ("`diff --json`", Diff),
    "doctor": ("`doctor --json`, `doctor --selftest --json`", Doctor),
    "flame": ("`flame --json`", Flame),
    "report": ("`report --json`", Report),
    "view": ("`view --list --json`", View),
    "merge": ("`merge --json`", Merge),
    "top": ("`top --once --json`", Snapshot),
    "trigger": ("`trigger --json`", Trigger),
    "hang_report": ("`report.json` of `watch` and `dump`, `dump --json`", HangReport),
    "race_check": ("`race check --json`", RaceVerdict),
    "replay": ("`replay --json`", Replay),
    "capsule_export": ("`capsule export --json`", CapsuleExport),
    "race_reduce": ("`race reduce --json`", ReduceResult),
    "race_stress": ("`race stress --json`", StressResult),
    "sass_hotspots": ("`sass hotspots --json`", HotLines),
    "sass_exact_counts": ("`sass counts --json`", ExactCounts),
    "sass_metrics": ("`sass metrics --json`", list[MeasuredMetric]),
    "sass_metrics_list": ("`sass metrics --list --json`", list[ListedMetric]),
    "sass_memory": ("`sass memory --json`", SassMemory),
    "sass_mma": ("`sass mma --json`", SassMma),
    "sass_values": ("`sass values --json`", SassValues),
    "sass_dataflow": ("`sass dataflow --json`", SassDataflow),
    "sass_tma": ("`sass tma --json`", SassTma),
    "sass_probe": ("`sass probe --json`", SassProbe),
    "sass_races": ("`sass races --json`", SassRaces),
    "sass_waits": ("`sass waits --json`", SassWaits),
    "sass_event": ("a line of `sass events --json`", SassEvent),
    "sass_warps": ("`sass warps --json`", Warps),
    "sass_validate": ("`sass validate --json`", Validation),
    "sass_compare": ("`sass compare --json`", Comparison),
    "sass_counts": ("`sass query --count --format json`", dict[str, int]),
    "sass_records": ("`sass query --format json`; `$defs/record` a line of `--format ndjson`", _found_records()),
    "sass_why": ("`sass why --json`", StallReport),
    "sass_list": ("`sass list --json`", CodeListing),
    "instruction_trace": ("a line of `export --to cutracer` and `--to kernel-events`", records.json_schema()),
    "delays": ("`sass delays`", delays.json_schema()),
}  # fmt: skip
BY_HAND = {
    "analyze": "`analyze --json`", "cluster_analyze": "`cluster analyze --json`", "core": "`core --json`",
    "export": "`export --json`", "import": "`import --json`", "info": "`info --json`",
    "kernel_log": "a line of `record --kernel-log`",
    "query": "`query --json`; with `--format ndjson` a line is an element of `rows`", "sanitize": "`sanitize --json`",
    "simulate": "`simulate --json`",
    "stats": "`stats --json`", "version": "`version --json`",
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    """The schema of one generated name."""
    title, kind = MADE[name]
    made = kind if isinstance(kind, dict) else _closed(msgspec.json.schema(kind))
    if name == "bench":  # a property of the class, and a field of its document
        fields = made["$defs"]["Bench"]
        fields["properties"]["ok"] = {"type": "boolean"}
        fields["required"] = [*fields["required"], "ok"]
    if name == "cluster_topology":  # likewise
        fields = made["$defs"]["GpuLinks"]
        fields["properties"]["speed"] = {"type": ["number", "null"]}
        fields["required"] = [*fields["required"], "speed"]
    if name == "hang_report":  # with the schema of core dumps inside, so that it stands alone
        core = json.loads((FOLDER / "core.json").read_text(encoding="utf-8"))
        made["$defs"]["CoreSummary"] = {"$ref": core["$id"]}
        made["$defs"]["core"] = core
    head = {
        "$schema": DRAFT,
        "$id": f"https://warpsight.dev/schemas/{name}.json",
        "title": title.replace("`", ""),
    }
    return {**head, **_of_any_version({key: value for key, value in made.items() if key != "$schema"})}


def _of_any_version(node: Any) -> Any:
    """What all versions of msgspec write: those before 0.23 keep the indentation of docstrings and say nothing of keys."""
    if isinstance(node, list):
        return [_of_any_version(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: inspect.cleandoc(value)
        if key == "description" and isinstance(value, str)
        else _of_any_version(value)
        for key, value in node.items()
        if key != "propertyNames"
    }


def _closed(node: Any) -> Any:
    """Every object of a schema with all its properties required as declared, and no others."""
    if isinstance(node, list):
        return [_closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    out = {key: _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        out["additionalProperties"] = False
    return out


def text(name: str) -> str:
    """The file of one generated schema."""
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """The page that lists all schemas."""
    lines = [
        "# JSON Schemas",
        "",
        "<!-- Generated by generate_schemas.py. -->",
        "",
        "JSON Schemas (draft 2020-12) of all JSON and JSON lines that warpsight writes. Tests check real output against them.",
        'They are installed with the package: `importlib.resources.files("warpsight.ui.cli") / "schemas"`.',
        "",
    ]
    uses = {**BY_HAND, **{name: what for name, (what, _) in MADE.items()}}
    links = {name: f"[{name}](../../src/warpsight/ui/cli/schemas/{name}.json)" for name in sorted(uses)}
    plain = [name for name in links if uses[name] == f"`{name.replace('_', ' ')} --json`"]
    lines += [
        "What the verb of the same name prints with `--json`:",
        *(f"{links[name]}," for name in plain[:-1]),
    ]
    lines += [f"{links[plain[-1]]}.", "", "The others:", "", "|schema|of|", "|-|-|"]
    lines += [f"|{link}|{uses[name]}|" for name, link in links.items() if name not in plain]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write everything."""
    for name in MADE:
        (FOLDER / f"{name}.json").write_text(text(name), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
