"""What analyses share is made once, however many threads ask, and let go of when the trace is closed."""

import threading

import pytest

from warpsight.model import kept
from warpsight.model.kept import Kept


def test_a_value_is_made_once_and_again_after_it_was_forgotten():
    values, made = Kept(), []
    for _ in range(3):
        assert values.get("a", lambda: made.append(1) or len(made)) == 1
    values.forget("a")
    assert values.get("a", lambda: made.append(1) or len(made)) == 2


def test_threads_that_ask_for_one_value_wait_for_one_making():
    values, asked, made = Kept(), threading.Barrier(4), []
    go = threading.Event()

    def make():
        made.append(1)
        go.wait()
        return object()

    found = []
    threads = [
        threading.Thread(target=lambda: (asked.wait(), found.append(values.get("a", make)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    asked.wait()
    go.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(found) == 3
    assert len(set(map(id, found))) == 1


def test_an_error_is_raised_and_not_kept():
    values = Kept()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        values.get("a", fail)
    assert values.get("a", lambda: 5) == 5


def test_what_was_asked_for_longest_ago_goes_first():
    values, made = Kept(), []
    for key in [0, *range(1, kept.MOST), 0, kept.MOST]:  # 1 is the oldest when there is one too many
        values.get(key, lambda key=key: made.append(key))
    made.clear()
    values.get(0, lambda: made.append(0))
    values.get(1, lambda: made.append(1))
    assert made == [1]


def test_one_value_may_be_made_of_another():
    values = Kept()
    assert values.get("b", lambda: values.get("a", lambda: 2) + 1) == 3


def test_as_many_values_are_kept_as_is_said():
    values = Kept()
    for key in range(kept.MOST + 1):
        values.get(key, lambda: key)  # noqa: B023 - made at once
    assert [key in values for key in range(kept.MOST + 1)] == [False] + [True] * kept.MOST
