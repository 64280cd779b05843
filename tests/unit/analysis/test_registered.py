"""Every analysis that `warpsight analyze --list` names can be run."""

from __future__ import annotations

import importlib

import pytest

from warpsight.analysis.base import registry


@pytest.mark.parametrize("name", registry.ANALYSES)
def test_an_analysis_is_a_function_of_its_module(name: str) -> None:
    found = registry._analyses()[name]
    assert found.meaning.endswith(".")
    assert callable(getattr(importlib.import_module(found.module), found.function))
