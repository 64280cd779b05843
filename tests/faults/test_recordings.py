"""Short recordings end by themselves and lack nothing; of one that does not end, the stacks are told.

`make soak-recordings` makes hundreds, on a GPU of PyTorch's programs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import recordings
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_short_recording(seed: int, standin: Standin, tmp_path: Path) -> None:
    ended = recordings.run(
        recordings.Short.of(seed, standin.folder), tmp_path, standin.environment(), patience=120
    )
    assert not ended.wrong


def test_a_recording_that_hangs_is_ended_and_its_stacks_are_told(standin: Standin, tmp_path: Path) -> None:
    stuck = recordings.Short(0, tuple(standin.program("init", "stuck", "sync")), 1, ())
    ended = recordings.run(stuck, tmp_path, standin.environment(), patience=5)
    assert ended.stuck
    (told,) = ended.wrong
    assert "cuCtxSynchronize" in told
    assert "warpsight.ui.cli record" in told
