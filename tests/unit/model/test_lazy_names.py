"""What `warpsight.model` offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warpsight import model


def test_classes_are_found_by_their_names_on_first_use() -> None:
    found = {name: model.__getattr__(name) for name in ("StoredTrace", "TraceWriter")}
    assert [f"{one.__module__}.{one.__qualname__}" for one in found.values()] == [
        "warpsight.model.trace.StoredTrace", "warpsight.model.storage.writer.TraceWriter",
    ]  # fmt: skip
    assert set(model.__all__) == {*found, "open"}


@pytest.mark.parametrize("name", ["Store", "storedtrace", ""])
def test_other_names_are_missing_as_from_any_module(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'warpsight.model' has no attribute '{name}'"):
        getattr(model, name)


def test_importing_the_model_loads_neither_duckdb_nor_arrow() -> None:
    code = "import sys, warpsight.model; print(sorted({'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
