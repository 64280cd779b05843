"""The window onto a file shows the file's bytes in order, however it is filled and passed."""

import io
import re

from hypothesis import given
from hypothesis import strategies as st

from warpsight.formats.chrome.window import ByteWindow

STEPS = st.lists(
    st.tuples(st.sampled_from(["fill", "advance"]), st.integers(1, 100_000)), min_size=1, max_size=30
)


@given(STEPS, st.integers(0, 300_000))
def test_what_is_in_the_window_is_what_follows_in_the_file(steps, size):
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    window = ByteWindow(io.BytesIO(data))
    read = passed = 0
    for what, count in steps:
        if what == "fill":
            window.fill(count)
            assert window.ended == (read == size)
            read = min(read + count, size)
        else:
            window.advance(count)
            passed = min(passed + count, read)
        assert window.offset == passed
        assert window.view().tobytes() == data[passed:read]


def test_places_count_from_the_first_byte_of_the_window():
    window = ByteWindow(io.BytesIO(b"passed } \t\n {a},{b},{c}] behind"))
    window.fill(1 << 10)
    window.advance(7)
    assert window.search(re.compile(rb"\}\s*\{")) == (0, 6)
    window.advance(1)
    assert window.skip_blanks() == b"{"
    assert window.starts_with(b"{a}")
    assert not window.starts_with(b"}")
    assert window.last(b"{") == 8
    assert window.last(b"{", 8) == 4
    assert window.last(b"x") == -1
    assert window.last_match(re.compile(rb"\},\{"), 0, 11) == (6, b"},{")
    assert window.last_match(re.compile(rb"\},\{"), 0, 8) == (2, b"},{")
    window.advance(1 << 10)
    assert window.skip_blanks() == b""
