"""Programs beside the package: what they import exists, and the runner of the examples says when it did nothing."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_a_device_that_no_example_can_use_is_said_so():
    command = [sys.executable, EXAMPLES / "run.py", "--test", "native_program", "--device", "mps"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "can use mps" in done.stderr


def names_of_ours(program: Path) -> list[tuple[str, str]]:
    """Module and name of everything that a program imports from the package or from a benchmark, wherever it does."""
    return [
        (found.module, name.name)
        for found in ast.walk(ast.parse(program.read_text()))
        if isinstance(found, ast.ImportFrom)
        and (found.module or "").split(".")[0] in ("warpsight", "benchmarks")
        for name in found.names
    ]


@pytest.mark.parametrize(
    "program",
    sorted(
        program
        for folder in ("benchmarks", "examples", "scripts")
        for program in ROOT.glob(f"{folder}/**/*.py")
    ),
    ids=lambda program: str(program.relative_to(ROOT)),
)
def test_what_a_program_beside_the_package_imports_exists(program: Path):
    """A module that moves must not break a program that a page tells people to run."""
    for module, name in names_of_ours(program):
        if module.startswith("benchmarks"):
            source = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
            assert re.search(rf"^(def |class |){name}\b", source, flags=re.MULTILINE), (module, name)
        elif not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
