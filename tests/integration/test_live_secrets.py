"""The same sixty kinds of secrets while a program is recorded, and of a page that is served: `top`, `dump`, `doctor`, the kernel
log and `open` show none."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import ROOT, environment, launcher
from tests.integration.secret_canaries import CANARIES, IN_NAMES
from tests.integration.test_secrets import PROGRAM, contents, shown

#: Works, says so, works again for each line that it is sent, and ends at the end of them.
STAYING = """
import itertools, sys
for line in itertools.chain([""], sys.stdin):
    for name in names:
        getattr(program, name)(queue, (64,), None, buffer)
    queue.finish()
    print("worked", flush=True)
"""


@dataclass(frozen=True)
class Running:
    """A recording that goes on, in a shell whose environment holds secrets too."""

    process: subprocess.Popen[str]
    folder: Path
    variables: dict[str, str]

    def ask(self, *words: str) -> str:
        """What a verb prints meanwhile."""
        done = subprocess.run([sys.executable, "-m", "warpsight", *words], env=self.variables, cwd=self.folder, timeout=120,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert "Traceback" not in done.stderr and "internal error" not in done.stderr
        return done.stdout + done.stderr

    def work(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        while self.process.stdout.readline() != "worked\n":
            assert self.process.poll() is None


@pytest.fixture(scope="module")
def running(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    require_pocl()
    pytest.importorskip("pyopencl")
    root = tmp_path_factory.mktemp("live")
    place = root / f"token={CANARIES[1].secret}"
    place.mkdir()
    (place / "train.py").write_text(PROGRAM + STAYING)
    words = [word for one in CANARIES for word in one.words]
    planted = {f"WARPSIGHT_CANARY_{i}": one.text.replace("\n", " ") for i, one in enumerate(CANARIES)}
    planted |= {f"CUDA_CANARY_{i}": text for i, text in enumerate(planted.values())}
    variables = environment(library) | planted | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parents[2]}"}
    options = ("-q", "-o", str(root / "run.warp"), "--kernel-log", str(root / "kernels.ndjson"))
    with (root / "err").open("w") as errors:
        command = launcher(*options, "--", sys.executable, str(place / "train.py"), *words)
        process = subprocess.Popen(command, cwd=place, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=errors, text=True)  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        while process.stdout.readline() != "worked\n":
            assert process.poll() is None, (root / "err").read_text()
        yield Running(process, root, variables)
        process.stdin.close()
        process.wait(120)


@pytest.mark.parametrize("words", [("--once",), ("--json",)], ids=" ".join)
def test_top_shows_none(words: tuple[str, ...], running: Running) -> None:
    told = ""
    for _ in range(20):  # rows come when their segment is written; each round makes new ones
        running.work()
        told = running.ask("top", "run.warp", *words, "--interval", "0.5", "--window", "20", "-n", "200")
        if "k_" in told:
            break
    assert "k_" in told
    assert shown(told) == []


@pytest.mark.parametrize("words", [(), ("--json",)], ids=" ".join)
def test_a_dump_shows_none(words: tuple[str, ...], running: Running) -> None:
    told = running.ask("dump", str(running.process.pid), *words)
    assert "<module>" in told  # the path above it holds a secret
    assert shown(told) == []


def test_a_trigger_shows_none(running: Running) -> None:
    assert shown(running.ask("trigger", "run.warp")) == []


def test_attaching_shows_none(running: Running) -> None:
    for verb in ("attach", "detach"):
        assert shown(running.ask(verb, str(running.process.pid))) == []


@pytest.mark.parametrize("words", [(), ("--json",)], ids=" ".join)
def test_the_doctor_shows_none(words: tuple[str, ...], running: Running) -> None:
    assert shown(running.ask("doctor", *words)) == []


def test_the_kernel_log_and_the_page_that_is_served_hold_none(running: Running) -> None:
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(120) == 0, (running.folder / "err").read_text()
    log = (running.folder / "kernels.ndjson").read_text()
    assert log.count('"k_') >= len(IN_NAMES)
    assert shown(log) == []
    assert shown(contents(running.folder / "run.warp")) == []
    assert shown(served(running)) == []


def served(running: Running) -> str:
    """All that `open` serves: its pages, and what they name."""
    command = [sys.executable, "-m", "warpsight", "open", "--no-browser", "run.warp"]
    server = subprocess.Popen(command, env=running.variables, cwd=running.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)  # fmt: skip
    try:
        assert server.stdout is not None
        said, pages = "", list[str]()
        for line in server.stdout:
            said += line
            pages += re.findall(r"http://\S+", line)
            if pages:
                break
        for address in pages:
            said += _got(address)
            for name in re.findall(r"""(?:src|href)=["']([^"'#]+)""", said):
                said += _got(urljoin(address, name)) if not name.startswith(("data:", "http")) else ""
        assert pages and "k_" in said
        return said
    finally:
        server.terminate()
        server.wait(60)


def _got(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode(errors="replace"))
