"""Which heads of files are Kineto's."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.formats import registry
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
        ('{"traceEvents": [{"ph": "X", "cat": "kernel"', False),
        ('{"traceEvents": [{"ph": "i", "cat": "cpu_instant_event"', True),
        ('{"traceEvents": [{"ph": "X", "cat":"gpu_memcpy"', True),
        ('{"traceEvents": [{"ph": "X", "cat": "xpu_runtime"', True),
        ('[{"ph": "X", "cat":"cpu_op"', True),
        ('{"otherData":{"recorder":"warpsight"},"traceEvents":[{"cat": "cpu_op"', False),
    ],
)
def test_a_file_is_known_by_its_head(tmp_path: Path, head: str, found: bool) -> None:
    (tmp_path / "x").write_text(head)
    with Source(tmp_path / "x") as source:
        assert reader.sniff(source) == found


def test_a_document_in_one_line_is_no_stacks_however_it_is_cut(tmp_path: Path) -> None:
    text = '{"metadata": "' + "a;b " * 30_000 + '", "traceEvents": []}'
    for end in range(65_536 - 8, 65_536):  # whatever stands where the head is cut
        (tmp_path / "x").write_text(text[:end] + " 7" + text[end:])
        with Source(tmp_path / "x") as source:
            assert registry.sniff(source) is None
