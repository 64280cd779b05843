"""Photograph the pages that the docs show, in a headless Chromium: part of `make docs`.

Every page as on a phone, in a small and in a large window, in both colours; those that the docs show, once more in a size of
their own; and screens of the terminal. PNG with a palette keeps all of them small.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.draw_terminal import screens  # noqa: E402
from scripts.draw_top import live_screen  # noqa: E402
from tests.conftest import browser_path  # noqa: E402
from tests.golden.race_verdicts import checked  # noqa: E402
from tests.integration.chromium import Chromium  # noqa: E402
from warpsight.ui.render.race import page as race_page  # noqa: E402

GOLDEN, IMAGES = ROOT / "tests" / "golden", ROOT / "docs" / "images"
_TRACE, _KERNELS = str(GOLDEN / "planted_slow_step.warp.zip"), str(GOLDEN / "h100_hot_lines.warp.zip")
#: Page -> the command that writes it.
_PAGES = {"report": ["report", _TRACE], "flame": ["flame", _TRACE],
          "kernel": ["sass", "list", _KERNELS, "bank_conflict", "--format", "html"],
          "memory": ["sass", "memory", str(GOLDEN / "events" / "truth.events.zst"), "--top", "8"],
          "dataflow": ["sass", "dataflow", str(GOLDEN / "events" / "truth.events.zst")],
          "tma": ["sass", "tma", str(GOLDEN / "events" / "async.events.zst")]}  # fmt: skip
#: Width and height of the windows, and the height of the pictures that the pages of the docs show.
_WINDOWS = ((390, 844), (1100, 800), (1440, 900))
_SHOWN = {"report": (1280, 1250), "timeline": (1280, 860), "flame": (1280, 470), "kernel": (1280, 640),
          "race": (1100, 980), "memory": (1100, 900)}  # fmt: skip
#: The timeline on the slow iteration, with its first kernel chosen.
_TIMELINE = """(() => { const m = report.data.timeline.marks.find(m => m.text.includes('slow iteration')), t = report.timeline;
    t.show(m.begin - 5e7, m.end + 2e7); t.step(1); document.documentElement.style.scrollBehavior = 'auto';
    document.getElementById('timeline').scrollIntoView(); })()"""


def draw() -> int:
    """Draw all pictures; their size in bytes, 0 without a browser.

    Raises:
        subprocess.CalledProcessError: when a page cannot be made.
    """
    program = browser_path()
    if program is None:
        print("==> no Chromium here: pictures are not renewed")
        return 0
    with tempfile.TemporaryDirectory() as folder, Chromium(program) as browser:
        for name, command in _PAGES.items():
            page = Path(folder) / f"{name}.html"
            made = [sys.executable, "-m", "warpsight", "-q", *command, "-o", page]
            subprocess.run(made, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        race = race_page.page(checked("missing_barrier"), ["./missing_barrier"])
        (Path(folder) / "race.html").write_text(race, encoding="utf-8")
        top = Path(folder) / "top.svg"
        top.write_text(live_screen(_TRACE))
        browser.resize(1000, 660)
        browser.open(top.as_uri(), "document.documentElement")
        size = _saved(browser, IMAGES / "top.png")
        for name, (columns, screen) in screens(_TRACE).items():
            drawn = Path(folder) / f"{name}.svg"
            drawn.write_text(screen)
            width, tall = re.findall(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', screen)[0]
            browser.resize(13 * columns, round(13 * columns * float(tall) / float(width)))
            browser.open(drawn.as_uri(), "document.documentElement")
            size += _saved(browser, IMAGES / f"{name}.png")
        size += sum(
            _drawn(browser, Path(folder), name, *window, "light", name) for name, window in _SHOWN.items()
        )
        for width, height in _WINDOWS:
            for scheme in ("light", "dark"):
                for name in (*_PAGES, "timeline", "race"):
                    size += _drawn(
                        browser, Path(folder), name, width, height, scheme, f"{name}-{width}-{scheme}"
                    )
    return size


def _drawn(
    browser: Chromium, folder: Path, name: str, width: int, height: int, scheme: str, picture: str
) -> int:
    browser.colors(scheme)
    browser.resize(width, height)
    page = folder / f"{'report' if name == 'timeline' else name}.html"
    browser.open(page.as_uri(), "window.report || window.flame || document.querySelector('pre, table')")
    if name == "timeline":
        browser.evaluate(_TIMELINE)
        browser.settle()
    return _saved(browser, IMAGES / f"{picture}.png")


def _saved(browser: Chromium, path: Path) -> int:
    """Save what is on the screen with 256 colours, rare ones among them; the size of the file."""
    from PIL import Image

    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        browser.screenshot(Path(file.name))
        taken = Image.open(file.name).convert("RGB")
    out = io.BytesIO()
    colors = taken.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colors.save(out, "PNG", optimize=True)
    path.write_bytes(out.getvalue())
    return len(out.getvalue())


if __name__ == "__main__":
    print(f"{IMAGES}: {draw() / 1e6:.2f} MB")
