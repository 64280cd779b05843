"""Lower layers do not name modules of the layers above them, not even as strings that are imported at run time."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULE = re.compile(r"warpsight(\.\w+)+")
#: Functions that start a child process: its command line may name any module.
COMMANDS = {"python_command"}


def _layers() -> dict[str, int]:
    """Layer of each package in the import contract, 0 for the top one; siblings share a layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (listed,) = (one["layers"] for one in contracts if one["type"] == "layers")
    return {name: level for level, line in enumerate(listed) for name in re.findall(r"[\w.]+", line)}


LAYERS = _layers()


def _layer(module: str) -> int | None:
    found = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    return LAYERS[max(found, key=len)] if found else None


def _exists(module: str) -> bool:
    path = SOURCE.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _strings(tree: ast.AST) -> Iterator[str]:
    """String constants except docstrings and arguments of :data:`COMMANDS`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMMANDS:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        yield from _strings(node)


def named_above(text: str, module: str) -> list[str]:
    """Modules of higher layers than `module`'s that a source text names in a string."""
    own = _layer(module)
    return [
        name
        for name in _strings(ast.parse(text))
        if own is not None
        and MODULE.fullmatch(name)
        and _exists(name)
        and (level := _layer(name)) is not None
        and level < own
    ]


def test_no_module_names_one_of_a_higher_layer() -> None:
    found = {}
    for path in sorted((SOURCE / "warpsight").rglob("*.py")):
        relative = path.relative_to(SOURCE)
        if above := named_above(path.read_text(), ".".join(relative.with_suffix("").parts)):
            found[str(relative)] = above
    assert not found


def test_a_string_that_names_a_higher_layer_is_found() -> None:
    text = 'def f():\n    """warpsight.ui.render.tables"""\n    return import_module("warpsight.ui.render.tables")\n'
    assert named_above(text, "warpsight.model.trace") == ["warpsight.ui.render.tables"]
    assert named_above(text, "warpsight.ui.cli.app") == []
    assert named_above('python_command("warpsight.ui.cli")', "warpsight.api.run") == []
