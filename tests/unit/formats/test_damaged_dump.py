"""A damaged dump of PyTorch's flight recorder is one error that names it."""

from pathlib import Path

import pytest

from warpsight.errors import TraceError
from warpsight.formats.snapshot import flight_recorder


def test_a_text_longer_than_any_memory_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(b"\x80\x04\x8d" + b"\xff" * 8 + b"version.")
    with pytest.raises(TraceError, match="rank_0 is damaged or cut off"):
        flight_recorder.read(path)
