"""Which call launched a piece of work."""

from __future__ import annotations

import numpy as np

from warpsight.analysis.merge.inputs import LaunchingCalls, joined


def test_equal_correlations_of_two_processes_are_two_calls() -> None:
    process, correlation = np.array([4, 4, 9, 9]), np.array([1, 2, 1, 2])
    zeros = np.zeros(4, np.int64)
    calls = LaunchingCalls(zeros, zeros, process, correlation, zeros, ["cudaLaunchKernel"])
    assert joined(calls, process, correlation).tolist() == [0, 1, 2, 3]
    assert joined(calls, process[::-1], correlation).tolist() == [2, 3, 0, 1]
    assert joined(calls, np.array([4, 7]), np.array([3, 1])).tolist() == [-1, -1]
