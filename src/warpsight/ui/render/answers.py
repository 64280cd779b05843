"""Answers as text, for `print` in Python: the output of their verbs, without advice about the command line."""

from __future__ import annotations

import io
import re

from warpsight.analysis.base.result import Result
from warpsight.analysis.diff.answer import Difference
from warpsight.sass.hotspots import Hotspots
from warpsight.simulate.simulation import Simulated

_KERNELS, _PLACES = 5, 5
_ADVICE = re.compile(r"; --\w+ \d+ shows all")


def drawn(found: object) -> str:
    """The answer of an analysis, `diff`, `simulate` or `sass hotspots`."""
    if isinstance(found, Result):
        from warpsight.ui.render import tables

        return tables.text(found)
    stream = io.StringIO()
    if isinstance(found, Difference):
        from warpsight.ui.render import differences

        differences.show(found, stream)
    elif isinstance(found, Simulated):
        from warpsight.ui.render import simulated, tables

        stream.write(f"{simulated.headline(found)}\n\n{tables.text(found.result)}")
    elif isinstance(found, Hotspots):
        from warpsight.ui.render.sass import hotspots

        hotspots.show(found, stream, _KERNELS, _PLACES)
    else:
        return repr(found)
    return _ADVICE.sub("", stream.getvalue()).rstrip()
