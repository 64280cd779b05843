import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_reference_page_is_current():
    code = "import sys; sys.path.insert(0, 'docs/reference'); import generate_cli as g; sys.stdout.write(g.page())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    hint = "run: python docs/reference/generate_cli.py"
    assert made.stdout == (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8"), hint
