"""Which tests run which lines, in their own process and in those they start, and how long each test takes."""

from __future__ import annotations

import ast
import contextlib
import difflib
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from coverage import CoverageData

from scripts import run_suites

#: Tests that compare whole answers with stored ones.
_ANSWERS = "tests/golden/test_"
#: The tests that look at constants, which run no function of theirs.
_FIGURES = "tests/golden/test_figures.py"
# What a process that a test starts runs comes under the name of that test.
_CONFIG = """[run]
data_file = {folder}/lines
source = {source}
parallel = {parallel}
context = {context}
disable_warnings = no-data-collected,module-not-measured
"""


def environment(source: Path) -> dict[str, str]:
    """What the tests run in: as `make test`, with the package in `source` and the compiled parts of this installation."""
    # In a process of its own: what this one has imported, its children would not take from the changed source.
    code = "from warpsight import _native; print(_native.library_path() or '')"
    library = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = run_suites.environment() | {"PYTHONPATH": str(source)}
    return kept | ({"WARPSIGHT_LIBRARY": library} if library else {})


def measure(folder: Path, root: Path, tests: list[str]) -> None:
    """Run tests once under coverage and keep lines and times in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    here, source = Path(__file__).parent, root / "src"
    settings = {"folder": folder, "source": source / "warpsight"}
    shutil.copytree(
        source / "warpsight", folder / "source" / "warpsight", ignore=shutil.ignore_patterns("__pycache__")
    )
    config, started = folder / "tests.ini", folder / "started.ini"
    config.write_text(_CONFIG.format(parallel=False, context="", **settings))
    started.write_text(_CONFIG.format(parallel=True, context="${MUTATION_TEST}", **settings))
    variables = environment(source) | {
        "MUTATION_SECONDS": str(folder / "seconds.json"), "PYTHONPATH": os.pathsep.join(map(str, (source, here))),
        "COVERAGE_PROCESS_START": str(started),
    }  # fmt: skip
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-p", "no:xdist", "-p", "recording_tests", "-m", "not browser and not gpu", *tests]  # fmt: skip
    subprocess.run(command, cwd=root, env=variables, check=False)
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--append", "--quiet", f"--rcfile={config}"],
                   cwd=root, check=False)  # fmt: skip


class Covering:
    """What the runs of the tests under coverage saw."""

    def __init__(self, folders: list[Path], root: Path) -> None:
        """Read what :func:`measure` left in folders."""
        measured: dict[str, float] = {}
        self._root = root
        self._runs: list[tuple[CoverageData, Path]] = []
        self._files: dict[str, int] = {}
        for file in [folder / "seconds.json" for folder in folders]:
            measured |= json.loads(file.read_text())
            run = CoverageData(str(file.with_name("lines")))
            run.read()
            self._runs.append((run, file.with_name("source")))
            for test, files in _files_run(file.with_name("lines")).items():
                self._files[test] = max(self._files.get(test, 0), files)
        there = _collected(root, measured)
        self.seconds = {test: seconds for test, seconds in measured.items() if test in there}
        self._lines: dict[Path, dict[int, set[str]]] = {}
        self._spans: dict[Path, dict[int, range | None]] = {}

    def tests(self, file: Path, line: int, most_s: float) -> list[str]:
        """The tests that run the statement a line is part of, up to a time in all.

        Half of the time goes to the file's own tests and those others that run the fewest files, half to the quickest that
        compare whole answers, which notice most.

        What runs on import, like a constant or a column of a schema, runs for everyone: its tests are those that
        run any function of the file, or of a file that imports it, and those of the figures.
        """
        span = self._span(file, line)
        if span is None:
            files = [file, *self._importers(file)]
            chosen = set().union(*(self._in_functions(one) for one in files))
            first = self._in_functions(file) | {node for node in self.seconds if node.startswith(_FIGURES)}
            chosen |= first
        else:
            lines = self._contexts(file)
            chosen = set().union(*(lines.get(number, ()) for number in span))
            first = set()
        own = f"/test_{file.stem}.py::"  # tests mirror the tree
        order = sorted(
            chosen & self.seconds.keys(),
            key=lambda node: (
                not node.startswith(_FIGURES),
                own not in node,
                node not in first,
                self._files.get(node, 0),
                self.seconds[node],
            ),
        )
        out = self._within(order, most_s / 2)
        whole = [node for node in order if node.startswith(_ANSWERS) and node not in out]
        return out + self._within(sorted(whole, key=self.seconds.__getitem__), most_s / 2)

    def in_function(self, file: Path, line: int) -> tuple[bool, bool]:
        """Whether a line is inside a function, and whether it also ran outside of tests, as while modules were imported."""
        span = self._span(file, line)
        lines = self._contexts(file)
        return span is not None and line in span, any("" in lines.get(number, ()) for number in span or ())

    def _within(self, tests: list[str], most_s: float) -> list[str]:
        """The first tests that take so long together, and one at least."""
        ends = itertools.accumulate(self.seconds[test] for test in tests)
        return [
            test
            for number, (test, end) in enumerate(zip(tests, ends, strict=True))
            if not number or end <= most_s
        ]

    def _contexts(self, file: Path) -> dict[int, set[str]]:
        if file not in self._lines:
            lines: dict[int, set[str]] = {}
            for run, source in self._runs:
                today = _today(source / file.relative_to(self._root / "src"), file)
                for number, contexts in run.contexts_by_lineno(str(file)).items():
                    if number in today:
                        lines.setdefault(today[number], set()).update(contexts)
            self._lines[file] = lines
        return self._lines[file]

    def _in_functions(self, file: Path) -> set[str]:
        lines = self._contexts(file)
        return set().union(*(lines[number] for number in lines if self._span(file, number) is not None))

    def _span(self, file: Path, line: int) -> range | None:
        """Lines of the smallest statement around one; None for what runs on import."""
        if file not in self._spans:
            self._spans[file] = _spans(ast.parse(file.read_text()))
        return self._spans[file].get(line)

    def _importers(self, file: Path) -> list[Path]:
        source = self._root / "src"
        name = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        folder, _, last = name.rpartition(".")
        wanted = (f"from {name} import", f"import {name}\n", f"import {name} as")
        return [
            other
            for other in (source / "warpsight").rglob("*.py")
            if (text := other.read_text())
            and (any(line in text for line in wanted) or _names_module(text, folder, last))
        ]


def _files_run(lines: Path) -> dict[str, int]:
    """How many source files each test ran lines of, from the tables of coverage.py."""
    sql = "SELECT context, count(DISTINCT file_id) FROM line_bits JOIN context ON context.id = context_id GROUP BY 1"
    with contextlib.closing(sqlite3.connect(lines)) as found:
        return dict(found.execute(sql).fetchall())


def _collected(root: Path, tests: Iterable[str]) -> set[str]:
    """Of tests that were measured, those that are still there: pytest runs none when it does not find one."""
    files = sorted({test.partition("::")[0] for test in tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-o", "addopts=",
               "--import-mode=importlib", *(file for file in files if (root / file).exists())]  # fmt: skip
    printed = subprocess.run(
        command, cwd=root, env=environment(root / "src"), capture_output=True, text=True, check=False
    )
    return set(printed.stdout.splitlines())


def _today(measured: Path, file: Path) -> dict[int, int]:
    """Where the lines of a measured file are now: an edit elsewhere in a file does not ask for another measurement."""
    before, after = (one.read_text().splitlines() if one.exists() else [] for one in (measured, file))
    if before == after:
        return {number: number for number in range(1, len(after) + 1)}
    same = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {one.a + step + 1: one.b + step + 1 for one in same for step in range(one.size)}


def _names_module(text: str, folder: str, name: str) -> bool:
    return any(
        name in line.partition(" import ")[2].replace(",", " ").split()
        for line in text.splitlines()
        if line.strip().startswith(f"from {folder} import ")
    )


def _spans(tree: ast.Module) -> dict[int, range | None]:
    """For every line inside a function, the lines of its statement; a compound one ends where its body begins."""
    out: dict[int, range | None] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
        for number in range(function.lineno, body.start):  # defaults, used by whoever calls
            out[number] = body
        for node in ast.walk(function):
            if (
                isinstance(node, ast.stmt)
                and node is not function
                and not isinstance(node, ast.FunctionDef | ast.ClassDef)
            ):
                inner = getattr(node, "body", None)
                end = inner[0].lineno - 1 if inner else node.end_lineno or node.lineno
                span = range(node.lineno, max(end, node.lineno) + 1)
                out.update((number, span) for number in span)
    return out
