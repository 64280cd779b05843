"""Keeping pandas out of processes that do not need it.

Arrow imports pandas, where it is installed, as soon as it is given a NumPy array, to find out whether it is a pandas
object: a quarter of a second and 40 MB in every converter and command.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


class _NoPandas:
    """A finder that reports pandas as absent."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None


def keep_pandas_out() -> None:
    """Make `import pandas` fail in this process from now on. Only for our own programs, never for users of the library."""
    if "pandas" not in sys.modules and not any(finder is _NoPandas for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas)
