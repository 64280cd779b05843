"""The Python function that a line of a source file is in."""

from __future__ import annotations

from pathlib import Path

from warpsight.device_code.debug_info.ptx_files import function_around

SOURCE = """def first():
    return 1

def outer():
    def inner():
        return 2
    return inner

async def last():
    pass
"""


def test_the_innermost_function_around_a_line(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    names = [function_around(str(path), line) for line in range(1, 11)]
    assert names == ["first", "first", "", "outer", "inner", "inner", "outer", "", "last", "last"]


def test_no_function_is_known_of_other_sources(tmp_path: Path) -> None:
    path = tmp_path / "kernels.cu"
    path.write_text(SOURCE)
    assert function_around(str(path), 1) == ""
    assert function_around(str(tmp_path / "missing.py"), 1) == ""
    damaged = tmp_path / "damaged.py"
    damaged.write_text("def (")
    assert function_around(str(damaged), 1) == ""
