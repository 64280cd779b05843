"""The answer to a trace: what `warpsight analyze PATH --json` prints, got inside this process."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

from tests.truth.judging import Answer


def answer(path: Path) -> Answer:
    """Analyse a trace.

    Raises:
        AssertionError: when the command fails, or prints anything but one JSON object.
    """
    from warpsight.ui.cli import app

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = app.main(["analyze", str(path), "--json"])
    assert code == 0, f"analyze {path} ended with {code}: {errors.getvalue().strip()[-500:]}"
    found = json.loads(out.getvalue())
    assert isinstance(found, dict), "analyze --json prints something else than an object"
    return found
