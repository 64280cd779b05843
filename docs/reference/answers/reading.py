"""Answers: pictures, pages, replays and merges."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from answers.described import described
from answers.machine import Finding, Table
from warpsight.analysis.flame.graph import FlameAccount
from warpsight.replay.outcome import Changed, Version, Write
from warpsight.replay.schedules.validation import OrderCheck


class Flame(TypedDict):
    path: str
    form: str
    bytes: int | None
    weight: str
    unit: str
    nodes: int
    accounts: list[FlameAccount]


class Replay(TypedDict):
    capsule: str
    verdict: Literal[
        "bit-exact",
        "repeatable",
        "different",
        "non-deterministic",
        "left the capsule",
        "failed",
        "not executed",
        "out of order",
    ]
    device: str
    versions: described(list[Version], "as recorded; with --swap also with the kernels replaced")
    failure: described(str | None, "what the GPU or its driver reported")
    notes: list[str]
    changes: described(list[Changed], "with --what: each schedule, measured beside its prediction")
    writes: described(list[Write], "with --writes")
    validation: described(OrderCheck | None, "with --validate")
    executed: described(bool, "false: --mode dry-run")


class CapsuleExport(TypedDict):
    path: str
    program: str
    command: described(str, "builds and runs it")


class Report(TypedDict):
    path: str
    bytes: int | None


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
