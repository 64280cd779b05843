"""Which heads of files are Kineto's."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.formats.kineto import reader
from warpsight.formats.source import Source

LONG = '"deviceProperties": [' + '{"name": "a long name of a device"}, ' * 5000


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [', True),
        ('{"schemaVersion": 1, ' + LONG, True),  # the events come after more than is looked at
        ('{"version": 1, ' + LONG, False),
        ('{"traceEvents": [{"ph": "X", "cat": "cpu_op"', True),
        ('{"traceEvents": [{"ph": "X", "cat": "v8"', False),
        ('[{"ph": "X", "cat":"cpu_op"', True),
        ('{"otherData":{"recorder":"warpsight"},"traceEvents":[{"cat": "cpu_op"', False),
    ],
)
def test_a_file_is_known_by_its_head(tmp_path: Path, head: str, found: bool) -> None:
    (tmp_path / "x").write_text(head)
    with Source(tmp_path / "x") as source:
        assert reader.sniff(source) == found
