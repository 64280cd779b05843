"""What all tests share: the compiled library, and reasons to skip what this machine cannot run."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from warpsight import _native

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@lru_cache(maxsize=1)
def no_gpu() -> str | None:
    """Why tests marked `gpu` cannot run here, or None: the driver is asked, not the presence of files."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver (libcuda.so.1)"
    code = driver.cuInit(0)
    return None if code == 0 else f"cuInit returned {code}: no usable CUDA device"


@lru_cache(maxsize=1)
def browser_path() -> str | None:
    """A Chromium that can run without a display, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


# How long examples take, and take to be made, is the machine's business: several suites may share it.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and every program that a test starts would inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip marked tests, with the reason, where their device or program is missing."""
    for item in items:
        if item.get_closest_marker("gpu") and (reason := no_gpu()):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("browser") and browser_path() is None:
            item.add_marker(pytest.mark.skip(reason="no Chromium on PATH"))


@pytest.fixture(scope="session")
def library() -> Path:
    """Path of libwarpsight.so: WARPSIGHT_LIBRARY or the installed one.

    A machine without a compiler skips its tests; where the build must have worked (`make test`), its absence
    fails them.
    """
    path = _native.library_path()
    if path is None:
        reason = "this build of warpsight has no libwarpsight.so"
        if os.environ.get("WARPSIGHT_REQUIRE_LIBRARY"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a headless-capable Chromium."""
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium on PATH")
    return path
