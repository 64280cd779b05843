"""Which format a file's name says."""

import pytest

from warpsight.formats.registry import named


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("x.json", "chrome"),
        ("X.JSON.zst", "chrome"),
        ("rank0.pt.trace.json", "kineto"),
        ("x.speedscope.json", "speedscope"),
        ("x.pb.gz", "pprof"),
        ("x.csv.zip", "csv"),
        ("x.kernel-events.ndjson", "kernel-events"),
        ("x.pftrace", "perfetto"),
        ("run.trace", None),
        ("x", None),
        ("json", None),
    ],
)
def test_the_longest_suffix_says_the_format(name: str, form: str | None) -> None:
    assert named(name) == form
