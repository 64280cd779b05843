"""Programs that are changed in part."""

from __future__ import annotations

import numpy as np

from tests.unit.analysis.device_program import Machine
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.program import Links
from warpsight.analysis.retime.solving import solve
from warpsight.model import open as open_trace


def test_links_are_joined_in_their_own_types() -> None:
    one = Links(*(np.array([1, 2], np.int64) for _ in range(3)), np.array([3, 4], np.int8))
    found = one.joined(*(np.array([5], np.int32) for _ in range(3)), 6)
    assert (found.source.tolist(), found.target.tolist(), found.lag.tolist()) == ([1, 2, 5],) * 3
    assert found.kind.tolist() == [3, 4, 6]
    assert [one.dtype for one in (found.source, found.target, found.lag, found.kind)] == [np.int64] * 3 + [
        np.int8
    ]
    assert len(found) == 3


def test_what_waits_for_what_is_kept_while_only_times_change(tmp_path) -> None:
    machine = Machine(1)
    machine.run(60)
    machine.write(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace:
        known = build(trace)
        solve(known)
        assert known.structure is not None
        assert known.but(duration=known.duration * 2).structure is known.structure
        lags = Links(known.links.source, known.links.target, known.links.lag + 1, known.links.kind)
        assert known.but(links=lags).structure is known.structure
        other = Links(known.links.source.copy(), known.links.target, known.links.lag, known.links.kind)
        assert known.but(links=other).structure is None
        assert known.but(previous=known.previous).structure is None
