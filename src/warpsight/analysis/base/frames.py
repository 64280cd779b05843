"""Which frames of a stack are the user's own program, not a library's."""

from __future__ import annotations

#: Parts of file names that are no part of the user's own program.
LIBRARY = ("site-packages/", "dist-packages/", "lib/python3", "<frozen", "<string>", "/torch/", "importlib")


def user_frames(frames: tuple[str, ...], count: int = 2) -> str:
    """The innermost frames outside of libraries, innermost first; library frames where there are no others."""
    own = [f for f in frames if not any(part in f for part in LIBRARY)] or list(frames)
    return " ← ".join(own[::-1][:count])
