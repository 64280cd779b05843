"""Every kind of record that recorders leave, and of event in PyTorch's files, becomes the rows that were reviewed."""

from __future__ import annotations

import json

import pytest

from tests.golden.answering import ANSWERS
from tests.golden.converting import NAMES, converted


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_that_were_reviewed(name: str) -> None:
    expected = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(converted(name)))
    different = {name for name in expected | found if expected.get(name) != found.get(name)}
    assert not different, (
        f"{ {name: (expected.get(name), found.get(name)) for name in sorted(different)[:2]} }; "
        "if this is meant: python -m tests.golden.converting, and look at the difference"
    )
