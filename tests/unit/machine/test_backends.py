"""Backends: rows of tables that other packages bring through an entry point."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.machine.backends import registry
from warpsight.machine.backends.backend import Backend

SOURCE = Path(__file__).parents[3] / "src"
#: Packages that must work with any backend, so that none of them names one.
CORE = ("recorder", "machine", "capture", "inside", "api", "ui")
PRODUCTS = re.compile(
    r"rocm|rocprof|\bhip\w*|\bmaca\b|metax|mcpti|mctracer|msprof|xctrace|ascend", re.IGNORECASE
)


def install(folder: Path, table: str, tool: str = "") -> dict[str, str]:
    """A package `toy_backend` as pip leaves it, and the environment that finds it."""
    package, info = folder / "toy_backend", folder / "toy_backend-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(table)
    (package / "tool.py").write_text(tool)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[warpsight.backends]\ntoy = toy_backend\n")
    return {**os.environ, "PYTHONPATH": f"{SOURCE}:{folder}", "COLUMNS": "100"}


def run(code: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


TABLE = """
from warpsight.machine.backends.backend import Backend
BACKENDS = (
    Backend("toy", "a toy", "toy_backend", ("tool",), vendor="Toys", program="toyprof", tool_options=("duration",)),
    Backend("cuda", "an impostor", "toy_backend", ("tool",), program="toyprof"),
)
"""


def test_another_packages_backend_is_taken_and_the_cores_own_stay(tmp_path: Path) -> None:
    environment = install(tmp_path, TABLE)
    code = (
        "from warpsight.machine.backends import registry\n"
        "from warpsight.recorder.options.settings import Settings\n"
        "print(Settings.of({'backend': 'toy'}).backend, registry.find('cuda').external, 'toy' in registry.external())"
    )
    assert run(code, environment) == "toy False True\n"
    shown = run("from warpsight.ui.cli import parser; parser.run(['record', '--help'])", environment)
    assert re.search(r"another\s+backend\s+\([^)]*\btoy\b", shown)


def test_a_package_that_breaks_is_a_finding_and_takes_no_other_away(tmp_path: Path) -> None:
    environment = install(tmp_path, "raise ImportError('no toys today')")
    code = (
        "from warpsight.machine import checks\n"
        "from warpsight.machine.backends import registry\n"
        "print([c.why for c in checks.run() if c.feature == 'backends'], 'cuda' in registry.recording())"
    )
    assert run(code, environment) == "['toy_backend cannot be loaded: ImportError: no toys today'] True\n"


def test_recording_cuda_and_opencl_looks_for_no_other_package() -> None:
    code = (
        "import sys\n"
        "from warpsight.recorder.options.settings import Settings\n"
        "from warpsight.machine.backends import registry\n"
        "for name in ('auto', 'cuda', 'opencl'):\n"
        "    Settings.of({'backend': name, 'stacks': 'off'}); registry.selected(name)\n"
        "print([m for m in sys.modules if m.startswith(('warpsight_plugins', 'importlib.metadata'))])"
    )
    assert run(code, {**os.environ, "PYTHONPATH": str(SOURCE)}) == "[]\n"


@pytest.mark.parametrize("row", registry.all_backends().values(), ids=lambda row: str(row.name))
def test_every_backend_has_what_its_row_says(row: Backend) -> None:
    for part in row.parts:
        module = row.part(part)
        needed = {
            "in_process": ("variables", "requirement", "sign"), "tool": ("TOOL",), "devices": ("devices", "missing"),
            "doctor": ("checks", "libraries"),
        }[part]  # fmt: skip
        assert all(hasattr(module, name) for name in needed), (part, needed)
    assert not row.in_process or (row.platform and row.api)
    assert not row.external or row.program
    for functions in row.functions:
        assert functions.names is None or functions.names.is_file()


def test_numbers_in_rows_belong_to_one_backend() -> None:
    platforms = [one.platform for one in registry.all_backends().values() if one.platform]
    domains = [found.domain for one in registry.all_backends().values() for found in one.functions]
    assert len(platforms) == len(set(platforms)) and len(domains) == len(set(domains))


def test_no_module_of_the_core_names_another_backends_products() -> None:
    named = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for package in CORE
        for path in sorted((SOURCE / "warpsight" / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PRODUCTS.search(line)
    ]
    assert named == []
