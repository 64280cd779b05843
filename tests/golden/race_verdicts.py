"""The verdict on the recorded programs with races: for tests, and for the picture of the race page."""

from __future__ import annotations

from pathlib import Path

from warpsight.debug.sanitizer_report import findings
from warpsight.race.check import DetectorResult, Provoked, RaceVerdict, verdict
from warpsight.race.suspects import EVENTS, RACECHECK, from_racecheck, from_races
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import races

FOLDER = Path(__file__).parent / "events" / "race"


def checked(name: str, provoked: Provoked | None = None) -> RaceVerdict:
    """The verdict on a program of the golden traces."""
    trace = EventTrace(FOLDER / f"{name}.events.zst")
    report = FOLDER / f"{name}.racecheck.xml"
    reported = from_racecheck(findings([report])[0]) if report.exists() else []
    traced = from_races(races(trace).races)
    arms = (DetectorResult(EVENTS, len(traced)), DetectorResult(RACECHECK, len(reported)))
    return verdict([*traced, *reported], arms, [trace], provoked)
