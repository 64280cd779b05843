"""Renew the reference pages and pictures of `docs/`, then build it as a site: `make docs`.

Pictures show traces of `tests/golden` in a headless Chromium; without one they stay as they are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import draw_pictures

ROOT = Path(__file__).resolve().parent.parent


def renew_reference() -> None:
    """Run every generator of `docs/reference`."""
    for generator in sorted((ROOT / "docs" / "reference").glob("generate_*.py")):
        subprocess.run([sys.executable, generator], cwd=ROOT, check=True)


def build_site() -> None:
    """Build `build/site`; a broken link or a page that the menu lacks is an error."""
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, check=True)
    print(f"==> open {ROOT / 'build' / 'site' / 'index.html'}")


if __name__ == "__main__":
    renew_reference()
    draw_pictures.draw()
    build_site()
