"""The output of `warpsight-replay` as data, and the exit codes of its verdicts."""

from __future__ import annotations

from warpsight.replay import outcome, results


def test_times_are_milliseconds_in_the_file_and_nanoseconds_here() -> None:
    found = results.parse(["total 0 1 2.5", "time 3 1 7 0.25 1.5", "issued 1200", "issued 3400", "end"])
    assert found.totals == {(0, 1): 2_500_000.0}
    assert found.times == {(3, 1, 7): (250_000.0, 1_500_000.0)}
    assert found.issued == [1_200, 3_400]


def test_exit_codes_are_those_of_the_documentation() -> None:
    codes = {verdict: outcome.EXIT_CODES[verdict] for verdict in (outcome.EXACT, outcome.DIFFERENT, outcome.VARYING,
             outcome.FAILED, outcome.LEFT, outcome.DISORDERED)}  # fmt: skip
    assert list(codes.values()) == [0, 4, 5, 6, 7, 8]
