"""Which frames of a stack are the user's own program, not a library's."""

from __future__ import annotations

import re
from functools import lru_cache

from warpsight.model.naming import kernel_names

#: Files and modules that are not part of the user's own program: installed packages, Python's own library, frameworks by the
#: short paths that their profilers print, and code without a file (`<frozen os>`, `<built-in …>`, `<generated: 'f'>`), unless
#: it was typed in (`<stdin>`, `<ipython-input-…>`, `<string>` of `python -c`, where dataclasses write their methods too, and
#: multiprocessing its first line). What Python calls code without a name (`<module>`, `<lambda>`) is not a file.
_LIBRARY = re.compile(
    r"site-packages/|dist-packages/|lib/python\d|^nn\.Module|"
    r"(^|\()<(?!stdin>|string>|ipython-input|module>|lambda>|genexpr>|(list|dict|set)comp>|locals>)[^>]*>|"
    r"(^|\.)__\w+__ \(<string>|^<module> \(<string>:1\)|^<string>\((1\): <module>|\d+\): __)|"
    r"(^|[/( ])(torch|jax|jaxlib|numpy|tensorflow|triton|importlib|contextlib|threading|runpy|multiprocessing|concurrent|"
    r"asyncio|functools|ipykernel|IPython|traitlets)(/|\.py|\.)"
)

#: The innermost types that templates of a C++ name were given.
_TYPES = re.compile(r"(?<=\w)<[^<>]*>")


@lru_cache(maxsize=65_536)
def is_library(frame: str) -> bool:
    """Whether a frame, a file or a function string belongs to a library."""
    return _LIBRARY.search(frame) is not None


def is_folded(frame: str) -> bool:
    """Whether pages fold a frame: they fold library frames, except the modules of the user's model."""
    return is_library(frame) and not frame.startswith("nn.Module")


@lru_cache(maxsize=65_536)
def shown(frame: str) -> str:
    """A frame as sentences show it: a C++ function without return type and parameters, a long name without template arguments.

    int Solver<double>::run(std::vector<int> const&) (/home/me/solver)   Solver<double>::run (/home/me/solver)
    """
    name, opened, place = frame.rpartition(" (")
    if not name or not place.endswith(")"):
        return frame
    text = kernel_names.bare(name)
    if kernel_names.short(text) != text and "operator" not in text:
        while (less := _TYPES.sub("", text)) != text:
            text = less
    return f"{kernel_names.short(text)}{opened}{place}"


def user_frames(frames: tuple[str, ...], count: int) -> str:
    """The innermost frames outside libraries, innermost first; without any, library frames, those with a file first."""
    own = [f for f in frames if not is_library(f)] or [f for f in frames if not f.startswith("<")] or frames
    return " ← ".join(map(shown, own[::-1][:count]))
