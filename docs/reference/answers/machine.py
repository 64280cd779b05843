"""Answers: the machine, its links, tables and triggers."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Any

from typing_extensions import NotRequired, TypedDict

from answers.described import described
from warpsight.machine.checks import Check
from warpsight.machine.device import Device
from warpsight.machine.links import Link
from warpsight.machine.processes import Process
from warpsight.recorder.trial.selftest import Trial


class Devices(TypedDict):
    platform: str
    devices: list[Device]
    not_asked: list[str]
    processes: NotRequired[list[Process]]


class RankPair(TypedDict):
    source: int
    destination: int
    bytes: described(int, "by the algorithm that moved them")
    count: described(int, "operations")
    latency: described(float, "median transfer time, waiting aside, ns")
    bandwidth: described(float | None, "median of large messages, B/s")


class Traffic(TypedDict):
    traffic: described(list[RankPair], "most bytes first")


class Doctor(TypedDict, total=False):
    checks: list[Check]
    selftest: list[Trial]


class Links(TypedDict):
    kept: str
    links: list[Link]


# Written as a call: `class` is a word that Python keeps for itself.
Finding = TypedDict(
    "Finding",
    {
        "severity": str,
        "class": str,
        "text": str,
        "values": dict[str, Any],
        "rule": NotRequired[str],
        "name": NotRequired[str],
        "share_ns": NotRequired[int],
        "saves_ns": NotRequired[int],
        "evidence": NotRequired[list[Any]],
        "advice": NotRequired[Any],
    },
)


class Table(TypedDict):
    units: dict[str, str]
    rows: list[dict[str, Any]]


class Trigger(TypedDict):
    path: str
    rows: dict[str, int]
    reason: str
