"""A public class name stands for one thing: no two modules define it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def test_no_public_class_name_is_defined_in_two_modules():
    modules: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(path.relative_to(SOURCES).as_posix())
    assert modules["StoredTrace"]
    assert {name: sorted(found) for name, found in modules.items() if len(found) > 1} == {}
