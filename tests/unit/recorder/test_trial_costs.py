"""What `bench` calls the cost of a launch."""

import pytest

from warpsight.recorder.trial import bench


def test_the_cost_is_the_difference_of_the_medians():
    assert bench.cost([100.0, 101.0, 130.0], [305.0, 300.0, 290.0]) == 199.0


@pytest.mark.parametrize("after", [[90.0, 95.0, 99.0], [100.0, 100.0, 100.0], [120.0, 110.0, 104.0]])
def test_less_than_the_noise_is_no_cost(after):
    assert bench.cost([100.0, 101.0, 130.0], after) is None


def test_the_round_that_lost_most_decides(monkeypatch):
    found = iter([(10, 10, 10, 1, 3.0), (10, 9, 8, 1, 3.0), (10, 10, 10, 1, 3.0)])
    issue = iter(range(1, 10))

    def one_round(*_):
        done = [{"device": "d", "issue_s": next(issue) * 9e-9, "total_s": 1e-6} for _ in range(3)]
        return done, next(found)

    monkeypatch.setattr(bench, "_round", one_round)
    monkeypatch.setattr(bench.opencl, "require", lambda: None)
    made = bench.run("opencl", 10)
    assert (made.kernels, made.complete, made.ok) == (9, 8, False)
    assert (made.bare_ns, made.without_stacks_ns, made.with_stacks_ns) == pytest.approx((4, 5, 6))
    assert made.launch_cost_ns is None and made.noise_ns == pytest.approx(6)
