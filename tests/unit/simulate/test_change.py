"""What-ifs as text."""

import pytest

from warpsight.errors import UsageError
from warpsight.simulate.change import parse


@pytest.mark.parametrize(
    ("text", "subject", "pattern", "factor", "nanoseconds"),
    [
        ("kernel:gemm/2", "kernel", "gemm", 0.5, None),
        ("kernel:a/b*1.5", "kernel", "a/b", 1.5, None),
        ("kernel:gemm=10us", "kernel", "gemm", 1.0, 10_000),
        ("kernel:gemm=none", "kernel", "gemm", 0.0, 0),
        ("launch/2", "launch", "", 0.5, None),
        ("copy:HtoD=1.5ms", "copy", "HtoD", 1.0, 1_500_000),
        ("sync:cudaStreamSynchronize", "sync", "cudaStreamSynchronize", 1.0, None),
        ("graphs", "graphs", "", 1.0, None),
        ("fuse:optimizer=200us", "fuse", "optimizer", 1.0, 200_000),
        ("overlap:copies", "overlap", "copies", 1.0, None),
        ("device:H100", "device", "H100", 1.0, None),
    ],
)
def test_a_what_if_has_a_subject_a_name_and_a_change(text, subject, pattern, factor, nanoseconds):
    found = parse(text)
    assert (found.subject, found.pattern, found.factor, found.nanoseconds) == (
        subject,
        pattern,
        factor,
        nanoseconds,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kernels:gemm/2", "begins with one of"),
        ("kernel:gemm", "states no change"),
        ("kernel/2", "needs a name"),
        ("graphs/2", "takes no time"),
        ("kernel:gemm/0", "divides by 0"),
        ("kernel:(/2", "not a regular expression"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(text, says):
    with pytest.raises(UsageError, match=says):
        parse(text)
