"""A pytest plugin and start-up hook: lines count for the test that ran them, also in the processes it started.

Loaded as the plugin `recording_tests` in pytest, and as `sitecustomize` in every Python that a test starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import coverage
import pytest

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Everything from a test's set-up to its tear-down, fixtures included, is its own."""
    os.environ["MUTATION_TEST"] = item.nodeid
    measuring = coverage.Coverage.current()
    assert measuring is not None, "runs under `coverage run` alone"
    measuring.switch_context(item.nodeid)
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        # Of the processor, its children's included: what else runs on the machine does not count.
        _seconds[item.nodeid] = sum(os.times()[:4]) - before
        measuring.switch_context("")
        del os.environ["MUTATION_TEST"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that fails or is skipped shows nothing about a mutant."""
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Leave the times of the tests that passed."""
    passed = {node: seconds for node, seconds in _seconds.items() if node not in _failed}
    with open(os.environ["MUTATION_SECONDS"], "w") as file:
        json.dump(passed, file)
