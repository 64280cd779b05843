"""The race detector of the device on recorded event traces: planted races are told, their repaired twins are not."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.race_model.model import Model, Told, library
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.on_device import REASONS

FOLDER = Path(__file__).parent / "events"
RACES = Path(__file__).parent / "formats" / "events" / "races.events.zst"
#: Program → a word of the reason and the lines of one of its races.
PLANTED = {
    "double_buffer": "barrier", "flag_without_fence": "fence", "lock_without_acquire": "fence", "missing_barrier": "barrier",
    "split_k": "blocks", "tma_without_wait": "mbarrier", "wrong_named_barrier": "barrier", "wrong_phase": "barrier",
    "wrong_scope": "scope",
}  # fmt: skip


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("core"))


def _told(core: ctypes.CDLL, path: Path, arrivals: int = 0) -> dict[str, list[Told]]:
    """Races by kernel; the launches of a graph are left out, as on the device."""
    trace, model = EventTrace(path), Model(core)
    found: dict[str, list[Told]] = {}
    for launch in trace.launches.values():
        if not launch.said["graph"]:
            found.setdefault(launch.name.split("(")[0], []).extend(model.replay(trace, launch, arrivals))
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_race_is_told_with_its_reason(core: ctypes.CDLL, name: str) -> None:
    told = _told(core, FOLDER / "race" / f"{name}.events.zst")[name]
    assert any(PLANTED[name] in REASONS[one.reason] for one in told)


@pytest.mark.parametrize("name", [*PLANTED, "cluster_peer_exits", "two_streams"])
def test_nothing_is_told_of_its_repaired_twin(core: ctypes.CDLL, name: str) -> None:
    assert not any(_told(core, FOLDER / "race" / f"{name}_fixed.events.zst").values())


def test_races_are_those_of_the_trace_and_no_repaired_twin(core: ctypes.CDLL) -> None:
    told = _told(core, RACES)
    assert {name for name, races in told.items() if races} == {
        "shared_race", "loop_race", "warp_race", "flag_race", "scope_race", "global_race",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["classes", "truth"])
def test_programs_without_a_race_are_silent(core: ctypes.CDLL, name: str) -> None:
    assert not any(
        _told(core, FOLDER / f"{name}.events.zst", arrivals=64 if name == "classes" else 0).values()
    )
