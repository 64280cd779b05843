"""Writes the JSON Schemas that follow from types, and docs/reference/schemas.md: `python docs/reference/generate_schemas.py`.

Schemas of `src/warpsight/cli/schemas` that are not made here are written by hand. Outputs that are a dataclass as JSON take their
schema from the dataclass, so the two cannot differ.
"""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import NotRequired, TypedDict

from warpsight.analysis.flame import Account
from warpsight.formats.cutracer import delays, records
from warpsight.machine.checks import Check
from warpsight.machine.device import Device
from warpsight.machine.links import Link
from warpsight.machine.processes import Process
from warpsight.session.bench import Bench
from warpsight.session.live import Snapshot
from warpsight.session.selftest import Trial

PAGE = Path(__file__).with_name("schemas.md")
FOLDER = Path(__file__).parents[2] / "src" / "warpsight" / "cli" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Devices(TypedDict):
    platform: str
    devices: list[Device]
    not_asked: list[str]
    processes: NotRequired[list[Process]]


class Doctor(TypedDict, total=False):
    checks: list[Check]
    selftest: list[Trial]


class Links(TypedDict):
    kept: str
    links: list[Link]


class Flame(TypedDict):
    path: str
    form: str
    bytes: int | None
    weight: str
    unit: str
    nodes: int
    accounts: list[Account]


class Report(TypedDict):
    path: str
    bytes: int | None


class Finding(TypedDict):
    severity: str
    text: str
    values: dict[str, Any]
    rule: NotRequired[str]
    cost_ns: NotRequired[int]
    evidence: NotRequired[list[Any]]
    advice: NotRequired[Any]


class Table(TypedDict):
    units: dict[str, str]
    rows: list[dict[str, Any]]


class View(TypedDict):
    trace: str
    tables: dict[str, Table]
    findings: list[Finding]


class Merge(TypedDict):
    cpu: str
    gpu: str
    output: str
    counts: dict[str, int]
    tables: dict[str, Table]
    findings: list[Finding]


class Trigger(TypedDict):
    path: str
    rows: dict[str, int]
    reason: str


class Part(TypedDict):
    count: int
    percentage: float
    ranges: list[list[int]]


class Warps(TypedDict):
    total_observed: int
    warp_id_range: list[int] | None
    completed: Part
    in_progress: Part
    missing: Part


class Validation(TypedDict):
    valid: bool
    record_count: int
    file_size: int
    compression: str
    message_type: str | None
    types: dict[str, int]
    error_count: int
    errors: list[str]


class Comparison(TypedDict):
    consistent: bool
    record_count_match: bool
    content_match: bool
    text_records: int
    json_records: int
    unique_ctas_count: int
    unique_warps_count: int
    unique_sass_count: int
    differences: list[str]


class HangReport(TypedDict):
    kind: str
    reason: str
    program: list[str]
    when: str
    monotonic: int
    exit: Any
    suspects: list[dict[str, Any]]
    evidence: Any
    processes: list[dict[str, Any]]
    trace: str | None
    launches: list[dict[str, Any]]
    launches_total: int
    last_work: list[dict[str, Any]]
    open_ranges: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    dumps: list[dict[str, Any]]
    notes: list[str]
    gathered_s: float
    device_recorded: NotRequired[bool]
    verdict: NotRequired[str]


#: Name → what writes it, and the schema or the type it follows from.
MADE: dict[str, tuple[str, Any]] = {
    "bench": ("`bench --json`", Bench),
    "bench_links": ("`bench --links --json`", Links),
    "devices": ("`devices --json`", Devices),
    "doctor": ("`doctor --json`, `doctor --selftest --json`", Doctor),
    "flame": ("`flame --json`", Flame),
    "report": ("`report --json`", Report),
    "view": ("`view --list --json`", View),
    "merge": ("`merge --json`", Merge),
    "top": ("`top --once --json`", Snapshot),
    "trigger": ("`trigger --json`", Trigger),
    "hang_report": ("`report.json` of `watch` and `dump`, `dump --json`", HangReport),
    "sass_warps": ("`sass warps --json`", Warps),
    "sass_validate": ("`sass validate --json`", Validation),
    "sass_compare": ("`sass compare --json`", Comparison),
    "sass_counts": ("`sass query --count --format json`", dict[str, int]),
    "instruction_trace": ("a line of `export --to cutracer` and `--to kernel-events`", records.json_schema()),
    "delays": ("`sass delays`", delays.json_schema()),
}  # fmt: skip
BY_HAND = {
    "analyze": "`analyze --json`", "core": "`core --json`", "diff": "`diff --json`", "export": "`export --json`",
    "import": "`import --json`", "info": "`info --json`", "kernel_log": "a line of `record --kernel-log`",
    "query": "`query --json`; with `--format ndjson` a line is an element of `rows`", "sanitize": "`sanitize --json`",
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
    head = {
        "$schema": DRAFT,
        "$id": f"https://warpsight.dev/schemas/{name}.json",
        "title": title.replace("`", ""),
    }
    return {**head, **{key: value for key, value in made.items() if key != "$schema"}}


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
        "<!-- Generated by docs/reference/generate_schemas.py; a test keeps it current. -->",
        "",
        "The shape of everything warpsight writes as JSON or JSON lines, as JSON Schemas (draft 2020-12). They are",
        "installed with the package as `warpsight/cli/schemas/NAME.json`; in Python",
        '`importlib.resources.files("warpsight.cli") / "schemas"`. Tests hold real output to them.',
        "",
        "| schema | what has this shape |",
        "|---|---|",
    ]
    told = {**BY_HAND, **{name: what for name, (what, _) in MADE.items()}}
    lines += [
        f"| [{name}](../../src/warpsight/cli/schemas/{name}.json) | {what} |"
        for name, what in sorted(told.items())
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write everything."""
    for name in MADE:
        (FOLDER / f"{name}.json").write_text(text(name), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
