import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.formats import registry
from warpsight.formats.source import Source

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "formats"
#: Recognized only to say what to do.
REFUSED = ("tracy",)


def test_the_reference_page_is_current():
    code = "import sys; sys.path.insert(0, 'docs/reference'); import generate_formats as g; sys.stdout.write(g.page())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    hint = "run: python docs/reference/generate_formats.py"
    assert made.stdout == (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8"), hint


@pytest.mark.parametrize("form", registry.READERS)
def test_every_reader_says_what_it_keeps_and_has_a_small_file(form):
    coverage = registry.READERS[form].coverage()
    assert coverage.kept and coverage.tested
    assert form in REFUSED or any((GOLDEN / form).iterdir())


@pytest.mark.parametrize(
    "path",
    sorted(p for form in registry.READERS for p in (GOLDEN / form).rglob("*") if p.is_file()),
    ids=lambda p: p.name,
)
def test_a_small_file_is_recognised_by_its_content_alone(path, tmp_path):
    """Under a name that says nothing, by exactly one format or by the first of several that could read it."""
    (tmp_path / "x").write_bytes(path.read_bytes())
    with Source(tmp_path / "x") as source:
        assert registry.sniff(source) == path.relative_to(GOLDEN).parts[0]
