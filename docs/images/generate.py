"""Draw the pictures of the docs from a trace in the repository, with the Chromium on PATH.

    python docs/images/generate.py

Each page at the widths of a phone, a small and a large window, in both colours; PNG with a palette, so that all of them stay small.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
sys.path[:0] = [str(_ROOT / "src"), str(_ROOT)]

from tests.conftest import browser_path  # noqa: E402
from tests.integration.chromium import Chromium  # noqa: E402
from warpsight.analysis.flame.graph import flame  # noqa: E402
from warpsight.model import open as open_trace  # noqa: E402
from warpsight.ui.render import flame_page  # noqa: E402
from warpsight.ui.render.report import render  # noqa: E402

_TRACE = _ROOT / "tests" / "golden" / "planted_slow_step.warp.zip"
#: Width → height of the window.
_WINDOWS = {390: 844, 1100: 800, 1440: 900}
#: The slow iteration, found again by its finding.
_SLOW = "report.data.timeline.marks.find(m => m.text.includes('slow iteration'))"
_TIMELINE = f"""(() => {{ const m = {_SLOW}, t = report.timeline; t.show(m.begin - 5e7, m.end + 2e7); t.step(1);
    document.documentElement.style.scrollBehavior = 'auto'; document.getElementById('timeline').scrollIntoView(); }})()"""


def saved(page: Chromium, name: str) -> int:
    """Save what is on the screen with 128 colours; the size of the file."""
    from PIL import Image

    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        page.screenshot(Path(file.name))
        picture = Image.open(file.name).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    (_HERE / f"{name}.png").write_bytes(out.getvalue())
    return len(out.getvalue())


def main() -> None:
    """Draw all pictures."""
    program = browser_path()
    if program is None:
        sys.exit("no Chromium on PATH: install one, or leave the pictures as they are")
    size = 0
    with tempfile.TemporaryDirectory() as folder, open_trace(_TRACE) as trace, Chromium(program) as page:
        pages = {"report": render(trace), "flame": flame_page.page(flame(trace), "slow_step.warp")}
        for name, html in pages.items():
            (Path(folder) / f"{name}.html").write_text(html, encoding="utf-8")
        for width, height in _WINDOWS.items():
            for scheme in ("light", "dark"):
                page.colors(scheme)
                page.resize(width, height)
                kind = "" if (width, scheme) == (1440, "light") else f"-{width}-{scheme}"
                page.open((Path(folder) / "report.html").as_uri(), "window.report")
                size += saved(page, f"report{kind}")
                page.evaluate(_TIMELINE)
                page.settle()
                size += saved(page, f"timeline{kind}")
                page.open((Path(folder) / "flame.html").as_uri(), "window.flame")
                size += saved(page, f"flame{kind}")
    print(f"{_HERE}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
