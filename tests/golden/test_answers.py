"""Every analysis gives the stored answer on stored traces: what changes, somebody has looked at."""

from __future__ import annotations

import json

import pytest

from tests.golden.answering import ANSWERS, NAMES, answers, opened


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_that_were_reviewed(name: str) -> None:
    expected = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    with opened(name) as trace:
        found = json.loads(json.dumps(answers(name, trace)))
    different = [
        question for question in sorted(expected | found) if expected.get(question) != found.get(question)
    ]
    first = different[:1]
    assert not different, (
        f"{len(different)} answers changed: {', '.join(different)}\n"
        + "".join(
            f"was {json.dumps(expected.get(one))[:2000]}\nis  {json.dumps(found.get(one))[:2000]}\n"
            for one in first
        )
        + f"If this is meant: python -m tests.golden.answering {name}, and look at the difference."
    )
