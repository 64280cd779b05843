"""What `sanitize` prints where nothing was found."""

import io

import pytest

from warpsight.debug.sanitizer import SanitizerRun
from warpsight.ui.render.race import sanitizer


@pytest.mark.parametrize(
    ("troubles", "expected"),
    [((), "no findings\n"), (("no report",), "no findings, but the program was not checked as a whole\n")],
)
def test_a_program_that_was_not_checked_is_not_called_clean(troubles, expected):
    stream = io.StringIO()
    sanitizer.show(SanitizerRun(1, (), (), troubles), stream)
    assert stream.getvalue() == expected
