"""Which tests run which lines, and how long each takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_PLUGIN = """
import json, os, pytest
_seconds = {}
@pytest.hookimpl
def pytest_runtest_logreport(report):
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
def pytest_sessionfinish(session):
    with open(os.environ["MUTATION_SECONDS"], "w") as file:
        json.dump(_seconds, file)
"""
_CONFIG = """[run]
dynamic_context = test_function
data_file = {data}
source = {source}
"""


class Covering:
    """What one run of the tests under coverage saw."""

    def __init__(self, folder: Path) -> None:
        """Read what :meth:`make` left in the folders inside a folder."""
        from coverage import CoverageData

        self.seconds: dict[str, float] = {}
        self._runs = []
        for file in sorted(folder.glob("*/seconds.json")):
            self.seconds |= json.loads(file.read_text())
            run = CoverageData(str(file.with_name("coverage")))
            run.read()
            self._runs.append(run)
        self._nodes: dict[str, list[str]] = {}
        for node in self.seconds:
            path, _, name = node.partition("::")
            dotted = path.removesuffix(".py").replace("/", ".") + "." + name.split("[")[0].replace("::", ".")
            self._nodes.setdefault(dotted, []).append(node)
        self._lines: dict[Path, dict[int, set[str]]] = {}

    @staticmethod
    def make(folder: Path, root: Path, tests: list[str]) -> None:
        """Run the tests once under coverage."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mutation_seconds.py").write_text(_PLUGIN)
        config = folder / "coveragerc"
        config.write_text(_CONFIG.format(data=folder / "coverage", source=root / "src"))
        environment = {
            **os.environ, "MUTATION_SECONDS": str(folder / "seconds.json"), "PYTHONPATH": f"{root / 'src'}:{folder}",
        }  # fmt: skip
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "-p", "no:randomly", "-p", "mutation_seconds", "-m", "not browser and not gpu", *tests]  # fmt: skip
        subprocess.run(command, cwd=root, env=environment, check=False)

    def tests(self, file: Path, line: int) -> list[str]:
        """The tests that run a line, the quickest first."""
        if file not in self._lines:
            lines: dict[int, set[str]] = {}
            for run in self._runs:
                for number, contexts in run.contexts_by_lineno(str(file)).items():
                    lines.setdefault(number, set()).update(contexts)
            self._lines[file] = lines
        functions = [context for context in self._lines[file].get(line, ()) if context]
        nodes = [node for function in functions for node in self._nodes.get(function, [])]
        return sorted(nodes, key=lambda node: self.seconds[node])
