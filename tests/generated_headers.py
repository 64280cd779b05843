"""The headers that the build generates, for tests that compile parts of native/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NATIVE, SOURCE = ROOT / "native", ROOT / "src"


def write(folder: Path) -> None:
    """Write them into a folder, as native/CMakeLists.txt does."""
    layout = SOURCE / "warpsight/capture/segments/layout.py"
    for generator, table, target in (
        ("ring/generate_layout.py", layout, folder / "layout.h"),
        ("runtime/generate_settings.py", SOURCE / "warpsight/recorder/options/table.py", folder),
        ("runtime/generate_backends.py", SOURCE / "warpsight_plugins/backends.py", folder / "backends.h"),
    ):
        subprocess.run([sys.executable, NATIVE / generator, table, target], check=True)
