"""What macOS and Windows install reads everything: no verb that reads needs what only POSIX or Linux has."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.stack_recording import HERE
from warpsight.ui.cli.app import VERBS

GOLDEN = HERE.parent / "golden"
TRACE = str(GOLDEN / "planted_tiny_kernels.warp.zip")
OTHER = str(GOLDEN / "planted_slow_step.warp.zip")
#: With files to write as {name}; each in its own name, so that the order does not matter beyond what is said.
READING: dict[str, list[str]] = {
    "info": ["info", TRACE],
    "stats": ["stats", TRACE],
    "stats json": ["stats", TRACE, "--json"],
    "analyze": ["analyze", TRACE],
    "diff": ["diff", TRACE, OTHER],
    "simulate": ["simulate", TRACE, "--what", "launch/2"],
    "query": ["query", TRACE, "SELECT count(*) FROM kernel"],
    "query json": ["query", TRACE, "from kernel limit 2", "--json"],
    "view": ["view", TRACE],
    "view list": ["view", TRACE, "--list", "-n", "3"],
    "report": ["report", TRACE, "-o", "{page.html}"],
    "flame": ["flame", TRACE, "-o", "{flame.html}"],
    "flame svg": ["flame", TRACE, "-o", "{flame.svg}"],
    "export chrome": ["export", TRACE, "--to", "chrome", "-o", "{trace.json}"],
    "export perfetto": ["export", TRACE, "-o", "{trace.pftrace}"],
    "import": ["import", str(GOLDEN / "recorded" / "kineto_h200.json.gz"), "-o", "{imported.warp}"],
    "imported": ["info", "{imported.warp}"],
    "pack": ["pack", "{imported.warp}", "-o", "{packed.warp.zip}"],
    "packed": ["stats", "{packed.warp.zip}"],
    "merge": [
        "merge",
        *("-c", str(GOLDEN / "merge" / "stacks.txt"), "-g", str(GOLDEN / "merge" / "gpu.json")),
        *("-o", "{merged.folded}"),
    ],
    "cluster": ["cluster", "analyze", str(GOLDEN / "ranks_loader.warp.zip")],
    "core": ["core", "{trap.gpucore}"],
    "core json": ["core", "{trap.gpucore}", "--json"],
    "capsule": ["capsule", "show", str(GOLDEN / "capsules" / "add.capsule")],
    "devices": ["devices"],
    "version": ["version", "--json"],
    **{f"help {verb}": ["help", verb] for verb in VERBS},
}
#: Files that other tools wrote: one of each format.
FOREIGN = {
    folder.name: str(
        next(p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix not in (".md", ".py"))
    )
    for folder in sorted((GOLDEN / "formats").iterdir())
    if folder.is_dir()
}
REFUSED = {
    "record": ["record", "--", "python", "train.py"],
    "demo": ["demo"],
    "watch": ["watch", "--", "python", "train.py"],
    "dump": ["dump", "1"],
    "trigger": ["trigger", "run.warp"],
    "top": ["top", "run.warp"],
    "attach": ["attach", "1"],
    "detach": ["detach", "1"],
    "recover": ["recover", "run.warp"],
    "bench": ["bench"],
    "sanitize": ["sanitize", "--", "./a"],
    "race check": ["race", "check", "--", "./a"],
    "sass trace": ["sass", "trace", "--", "./a"],
    "capsule record": ["capsule", "record", "--", "./a"],
    "replay": ["replay", "a.capsule"],
}
Said = tuple[int, str, str]


def run(wanted: dict[str, list[str]]) -> dict[str, Said]:
    """All of them in one process of a system without POSIX."""
    done = subprocess.run(
        [sys.executable, str(HERE / "elsewhere.py")],
        input=json.dumps(list(wanted.values())),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(wanted, json.loads(done.stdout), strict=True))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "trap.gpucore").write_bytes(
        lzma.decompress((GOLDEN / "cores" / "trap.lineinfo.gpucore.xz").read_bytes())
    )
    every = READING | {f"foreign {name}": ["info", path] for name, path in FOREIGN.items()}
    every |= {f"refused {name}": arguments for name, arguments in REFUSED.items()}
    every["doctor"], every["selftest"] = ["doctor"], ["doctor", "--selftest"]
    named = {
        name: [str(folder / a[1:-1]) if a.startswith("{") and a.endswith("}") else a for a in arguments]
        for name, arguments in every.items()
    }
    return run(named)


@pytest.mark.parametrize("name", [*READING, *(f"foreign {name}" for name in FOREIGN)])
def test_what_reads_needs_no_posix(said: dict[str, Said], name: str) -> None:
    code, _, error = said[name]
    assert code == 0, error
    assert "Error" not in error


@pytest.mark.parametrize("verb", REFUSED)
def test_what_records_is_refused_in_one_line(said: dict[str, Said], verb: str) -> None:
    code, out, error = said[f"refused {verb}"]
    assert code == 1
    assert out == ""
    assert error.startswith(f"warpsight: {verb} needs Linux: ")
    assert error.count("\n") == 1


def test_doctor_says_what_this_system_is_for(said: dict[str, Said]) -> None:
    code, out, error = said["doctor"]
    assert code == 1
    assert "recording needs Linux" in out
    assert "check itself failed" not in out
    assert "nothing can be recorded here" in error
    code, out, _ = said["selftest"]
    assert code == 0, out
    assert "works   reading traces" in out


@pytest.mark.parametrize(
    "arguments", [["analyze", OTHER], ["view", TRACE], ["diff", TRACE, OTHER], ["help", "record"]]
)
def test_letters_that_the_output_has_not_are_no_error(arguments: list[str], tmp_path: Path) -> None:
    """Output to a file on Windows, or to a terminal of an 8-bit locale."""
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", *arguments],
        env={**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(HERE.parents[1] / "src")},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("cp1252")


def test_every_verb_is_tried(said: dict[str, Said]) -> None:
    """A verb that is added is tried, refused here, or known to serve until it is stopped."""
    tried = {arguments[0] for arguments in (*READING.values(), *REFUSED.values())} | {"doctor", "help"}
    assert set(VERBS) - tried == {"open", "mcp"}


def test_a_path_with_backslashes_and_colons_is_a_path(tmp_path: Path) -> None:
    """On Linux these are letters like others: nothing takes C:\\run.warp for a URL or a folder of another name."""
    folder = tmp_path / "C:\\traces"
    folder.mkdir()
    packed = folder / "run 1:2.warp.zip"
    packed.write_bytes(Path(TRACE).read_bytes())
    answers = run(
        {"info": ["info", str(packed)], "export": ["export", str(packed), "-o", str(folder / "a:b.pftrace")]}
    )
    for code, _, error in answers.values():
        assert code == 0, error
    assert sorted(path.name for path in folder.iterdir()) == ["a:b.pftrace", "run 1:2.warp.zip"]
