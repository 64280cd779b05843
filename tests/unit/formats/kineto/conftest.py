"""The fixture that makes a trace of rows."""

from tests.unit.analysis.conftest import build  # noqa: F401
