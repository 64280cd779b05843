"""Programs of capsules: a name in a capsule becomes no code, and a small capsule no program without end."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from tests.standin.replaying import write
from warpsight.errors import UsageError
from warpsight.replay import reproducer
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule

NAMES = (
    "x\u2028import\u00a0os",
    "x\u0085y",
    "a\u202eb\u2066c",
    "a\u009b31m",
    "a\\",
    "a??/",
    "a????//",
    "*/x",
    "'''+x+'''",
)


def named(capsule: Capsule, name: str) -> Capsule:
    functions = [msgspec.structs.replace(one, name=name) for one in capsule.manifest.functions]
    changed = msgspec.structs.replace(capsule.manifest, functions=functions)
    return Capsule(capsule.path, changed, capsule.blobs)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("form", ["cuda", "python"])
def test_a_name_stays_in_its_comment_and_its_text(form: str, name: str, tmp_path: Path) -> None:
    capsule = write(tmp_path / "x.capsule")
    made = reproducer.export(named(capsule, name), form, tmp_path / "evil")
    plain = reproducer.export(named(capsule, "plain"), form, tmp_path / "plain")
    evil, harmless = ((one.folder / one.program).read_text() for one in (made, plain))
    assert all(c.isprintable() or c == "\n" for c in evil)
    assert len(evil.splitlines()) == len(harmless.splitlines())
    if form == "python":
        assert len(ast.dump(ast.parse(evil))) - len(ast.dump(ast.parse(harmless))) < 20 * len(name)
    else:
        assert not any(line.endswith(("\\", "??/")) for line in evil.splitlines())


def test_a_program_has_an_end(tmp_path: Path) -> None:
    """Some kilobytes of launches of one graph were hours and gigabytes of text."""
    capsule = write(tmp_path / "x.capsule")
    work = m.Set(stream=0, destination=capsule.manifest.allocations[0].address, value=0, element=1, count=1)
    graph = m.Graph([m.GraphNode(work)] * 2000)
    operations: list[m.Operation] = [m.GraphLaunch(stream=0, graph=0)] * 2000
    large = msgspec.structs.replace(capsule.manifest, graphs=[graph], operations=operations)
    with pytest.raises(UsageError, match="has 4,000,000 operations"):
        reproducer.export(Capsule(capsule.path, large, capsule.blobs), "cuda", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x.capsule"]


def test_the_command_of_a_folder_is_one_for_a_shell(tmp_path: Path) -> None:
    capsule = write(tmp_path / "x.capsule")
    made = reproducer.export(capsule, "python", tmp_path / "$(touch pwned);x")
    assert made.command.startswith(f"cd '{tmp_path}/$(touch pwned);x' && ")
