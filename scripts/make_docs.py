"""Renew the reference pages and pictures of `docs/`, then build it as a site: `make docs`.

Pictures show traces of `tests/golden` in a headless Chromium; without one they stay as they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN, IMAGES = ROOT / "tests" / "golden", ROOT / "docs" / "images"
#: Picture -> the command that writes its page, with the height of the window.
PICTURES = {
    "report": (["report", str(GOLDEN / "planted_slow_step.warp.zip")], 1250),
    "flame": (["flame", str(GOLDEN / "planted_slow_step.warp.zip")], 470),
    "kernel": (["sass", "list", str(GOLDEN / "h100_hot_lines.warp.zip"), "bank_conflict", "--format", "html"], 640),
}  # fmt: skip


def renew_reference() -> None:
    """Run every generator of `docs/reference`."""
    for generator in sorted((ROOT / "docs" / "reference").glob("generate_*.py")):
        subprocess.run([sys.executable, generator], cwd=ROOT, check=True)


def draw_pictures() -> None:
    """Photograph the pages of :data:`PICTURES`."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("==> no Chromium here: pictures are not renewed")
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, height) in PICTURES.items():
            page = Path(folder) / f"{name}.html"
            subprocess.run([sys.executable, "-m", "warpsight", "-q", *command, "-o", page], check=True)
            subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--window-size=1280,{height}", "--virtual-time-budget=5000",
                 f"--screenshot={IMAGES / name}.png", page.as_uri()],
                check=True, stderr=subprocess.DEVNULL,
            )  # fmt: skip


def build_site() -> None:
    """Build `build/site`; a broken link or a page that the menu lacks is an error."""
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, check=True)
    print(f"==> open {ROOT / 'build' / 'site' / 'index.html'}")


if __name__ == "__main__":
    renew_reference()
    draw_pictures()
    build_site()
