"""Which findings keep their own bound, which get what re-timing gives, and which are dropped."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base import savings

LENGTH = 10_000


def _retimed():
    return [], "re-timed"


@pytest.fixture
def judged(monkeypatch):
    """What becomes of one finding when re-timing without its cause saves some time (None: cannot be re-timed)."""

    def judge(saved, **columns):
        monkeypatch.setattr(savings, "_saved", lambda windows, change: saved)
        monkeypatch.setattr(savings, "_cause", lambda facts, finding: lambda program: program)
        monkeypatch.setattr(savings, "_lever", lambda facts, finding: lambda program: program)
        finding = Finding("warning", "text", evidence=("first",), **columns)
        found = list(savings.with_savings(SimpleNamespace(length=LENGTH), [finding], _retimed))
        return [(one.saves_ns, one.evidence[1:]) for one in found]

    return judge


def without(part):
    return (f"without it the recording would be {part} shorter (re-timed)",)


def test_a_share_of_the_account_gets_what_retiming_gives(judged):
    assert judged(250, kind="host") == [(250, without("2.5%"))]
    assert judged(5, kind="host") == [(5, without("0.1%"))]
    assert judged(0, kind="host") == [(0, without("hardly"))]  # a share is said, whatever it saves
    assert judged(None, kind="host") == [(None, ())]


@pytest.mark.parametrize(
    ("saved", "unknown", "known", "advice"),
    [
        (99, 0, True, "gain almost nothing"),  # for what else takes as long
        (100, 0, True, "do it"),
        (99, 999, True, "gain almost nothing"),
        (99, 1_000, False, "do it"),  # as much time has no cause: re-timing cannot know
        (100, 1_000, True, "do it"),
    ],
)
@pytest.mark.parametrize("kind", ["compute", "communication", "copy"])
def test_work_that_saves_next_to_nothing_is_not_to_be_made_faster(
    monkeypatch, kind, saved, unknown, known, advice
):
    """The work takes 1,000 ns; so much idle time (ns) has an unknown cause."""
    monkeypatch.setattr(savings, "_saved", lambda windows, change: saved)
    monkeypatch.setattr(savings, "_cause", lambda facts, finding: lambda program: program)
    facts = SimpleNamespace(length=LENGTH, account=SimpleNamespace(time=lambda kind: unknown))
    finding = Finding("warning", "text", kind=kind, share_ns=1_000, advice="do it")
    (one,) = savings.with_savings(facts, [finding], _retimed)
    assert one.saves_ns == (saved if known else None) and advice in (one.advice or "")
    assert ("slow rank" in (one.advice or "")) == ("nothing" in advice and kind == "communication")
    assert ("not known" in one.evidence[0]) == (not known)


@pytest.mark.parametrize(
    ("bound", "saved", "kept"),
    [
        (500, 499, (499, without("5.0%"))),
        (500, 500, (500, ())),  # its own bound is as low
        (500, 900, (500, ())),
        (500, None, (500, ())),
        (500, 100, (100, without("1.0%"))),
        (500, 99, None),  # what it asks for changes nothing
        (100, 90, None),
        (99, 0, (99, ())),  # not worth re-timing
    ],
)
def test_a_change_has_the_lower_of_its_bound_and_of_what_retiming_gives(judged, bound, saved, kept):
    assert judged(saved, saves_ns=bound, rule="copies/pageable") == ([] if kept is None else [kept])


@pytest.mark.parametrize(("saved", "count"), [(500, 1), (499, 0)])
def test_launches_bind_a_program_that_gets_a_twentieth_shorter_without_them(judged, saved, count):
    assert len(judged(saved, saves_ns=5_000, rule="launches/launch-bound")) == count


def test_notes_and_shares_with_a_bound_stay_as_they_are(judged):
    assert judged(7, rule="x") == [(None, ())]
    assert judged(7, kind="host", saves_ns=500) == [(500, ())]


@pytest.mark.parametrize(
    ("windows", "lengths", "saved"),
    [
        ([(100, 1_000)], [(100, 60)], 400),
        ([(100, 1_000), (50, 300)], [(100, 60), (50, 25)], 550),
        ([(100, 1_000), (50, 300)], [(100, 60), (50, 75)], 400),  # what gets longer takes nothing back
        ([(0, 1_000)], [(0, 0)], 1_000),
    ],
)
def test_each_window_stands_for_its_part_of_the_recording(monkeypatch, windows, lengths, saved):
    import numpy as np

    def times(length):
        return SimpleNamespace(start=np.array([7]), end=np.array([7 + length]))

    after = {id(one): times(length) for one, (_, length) in zip(windows, lengths, strict=True)}
    made = [savings.Window(SimpleNamespace(graph=times(w[0]), key=id(w)), w[1]) for w in windows]
    monkeypatch.setattr(savings, "solve", lambda program: after[program.key])
    assert savings._saved(made, lambda program: program) == saved
    assert savings._saved([], lambda program: program) is None
