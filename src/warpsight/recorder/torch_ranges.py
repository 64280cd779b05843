"""`--ranges torch`: operator names and shapes as NVTX ranges around everything torch runs, without changing the program."""

from __future__ import annotations

import os
from pathlib import Path

#: Holds nothing but a `sitecustomize` that hands on to the user's own one.
HOOK_FOLDER = Path(__file__).parents[1] / "inside" / "python_hook"


def python_path(present: str) -> str:
    """PYTHONPATH with the hook first."""
    folder = str(HOOK_FOLDER)
    parts = [part for part in present.split(os.pathsep) if part and part != folder]
    return os.pathsep.join([folder, *parts])
