"""No logic is written twice: functions whose statements are the same but for the names of variables and texts."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
#: Lines from which equal statements are a copy rather than an idiom.
LEAST_LINES = 5


class _Shape(ast.NodeTransformer):
    """Variables are numbered in the order of their first use, and all texts are one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.setdefault(node.id, f"v{len(self._names)}"), ast.Load())

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._names.setdefault(node.arg, f"v{len(self._names)}"), None)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("" if isinstance(node.value, str) else node.value)


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def copies(folder: Path) -> list[list[str]]:
    """Functions of equal statements, by place."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            body = _statements(node)
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= LEAST_LINES:
                place = f"{path.relative_to(folder).as_posix()}: {node.name}"
                shape = _Shape()
                shape.visit(node.args)
                places["\n".join(ast.dump(shape.visit(one)) for one in body)].append(place)
    return [found for found in places.values() if len(found) > 1]


def test_a_copy_is_found_whatever_its_variables_are_called(tmp_path: Path) -> None:
    body = "def {0}({1}):\n    out = 0\n    for one in {1}:\n        if one > 3:\n            out += one\n    return out\n"
    (tmp_path / "first.py").write_text(body.format("total", "rows"))
    (tmp_path / "second.py").write_text(body.format("sum_of", "values").replace("out", "found"))
    (tmp_path / "third.py").write_text(body.format("count", "values").replace("> 3", "> 4"))
    assert copies(tmp_path) == [["first.py: total", "second.py: sum_of"]]


def test_no_function_is_written_twice() -> None:
    assert copies(SOURCES) == []
