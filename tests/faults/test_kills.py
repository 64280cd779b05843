"""Any part of a recording is killed at any moment: no row is lost uncounted, none is there twice, exit codes are the program's.

`make soak` plays hundreds of these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import kills
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_random_kill(seed: int, library: Path, standin: Standin, tmp_path: Path) -> None:
    account = kills.run(kills.Kill.of(seed), tmp_path, library, standin.folder / "program")
    assert not account.wrong


@pytest.mark.parametrize("program", ["events", "launches"])
def test_launcher_and_program_killed_at_once(
    program: str, library: Path, standin: Standin, tmp_path: Path
) -> None:
    kill = kills.Kill(0, ("launcher", "program"), 0.3, (0.0, 0.0), 0.0, False, program)
    account = kills.run(kill, tmp_path, library, standin.folder / "program")
    assert not account.wrong
    assert account.kept > 100
