"""What counts as too little memory."""

from __future__ import annotations

import pytest

from warpsight.errors import out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("libarrow.so.2600: failed to map segment from shared object"),
    ],
)
def test_what_memory_was_missing_for_is_no_internal_error(error: Exception) -> None:
    assert out_of_memory(error)


def test_other_errors_are_not_about_memory() -> None:
    assert not out_of_memory(ImportError("No module named 'numpy'"))
    assert not out_of_memory(RuntimeError("generator raised StopIteration"))
