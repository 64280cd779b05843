"""FLOPs, bytes and families of every operator that has a model are those that were reviewed."""

from __future__ import annotations

import json

from tests.golden.answering import ANSWERS
from tests.golden.operators import NAME, works


def test_the_work_of_every_operator_is_what_was_reviewed() -> None:
    expected = json.loads((ANSWERS / f"{NAME}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(works()))
    names = [name for name in expected | found if expected.get(name) != found.get(name)]
    different = {name: (expected.get(name), found.get(name)) for name in names}
    assert not different, f"{different}; if this is meant: python -m tests.golden.operators"
