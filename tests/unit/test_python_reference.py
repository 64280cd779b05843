"""The page of the Python interface is current, its examples run, and verbs and methods do not drift apart."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpsight
from warpsight.api.trace import Trace
from warpsight.ui.cli.app import VERBS, module_of

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/reference"))
import generate_python  # noqa: E402

#: Verbs whose answer is a method of another name, or no method, and why.
METHODS: dict[str, tuple[str, ...]] = {
    "view": ("view", "events"),  # the picture and --list
    "query": ("query", "relation"),
    "open": ("serve",),  # ws.open opens a trace for reading
}
#: Verb -> what has it in Python, where it is not a method of a trace.
FUNCTIONS = {
    "record": ("record", "start", "stop", "run"), "trigger": ("trigger",), "recover": ("recover",),
    "import": ("import_files",), "devices": ("devices", "detect_platform"), "race": ("race",),
    "doctor": ("doctor",), "version": ("__version__",), "watch": ("watch",), "dump": ("dump",), "attach": ("attach",),
    "detach": ("detach",), "core": ("core",), "sanitize": ("sanitize",), "bench": ("bench",), "cluster": ("cluster",),
    "sass": ("sass",), "top": ("top",),
}  # fmt: skip
WITHOUT = {
    "capsule": "cuts work out of a program: warpsight.replay", "replay": "runs a capsule: warpsight.replay.replaying.replay",
    "demo": "shows a terminal what recording is",
    "mcp": "is a server", "help": "is text",
}  # fmt: skip
#: Options of the command line that say where and how text is printed; what a method has instead of a flag.
PRINTING = {
    "trace",
    "as_json",
    "csv",
    "out",
    "force",
    "strict",
    "listed",
    "plain",
    "form",
    "compress",
    "no_header",
    "dot",
    "fail",
}
RENAMED = {
    "no_source": "source",
    "no_flows": "flows",
    "no_counters": "counters",
    "no_rows": "rows",
    "no_browser": "browser",
}
#: Option of one verb that belongs to its printing, or to another form of the call.
OWN = {
    "query": {"everything"}, "diff": {"traces", "fail_if_slower", "untested"},
    "merge": {"gpu", "weight", "summary", "compat"}, "pack": {"trace", "unpack"},
    "analyze": {"names", "as_sarif", "include_paths"},
}  # fmt: skip
READING = [
    name for name, verb in VERBS.items() if verb.group == "Read" and name not in {*FUNCTIONS, *WITHOUT}
] + ["pack"]


def test_every_verb_has_a_function_or_a_reason() -> None:
    assert set(VERBS) == {*READING, *FUNCTIONS, *WITHOUT}
    for names in FUNCTIONS.values():
        assert all(hasattr(warpsight, name) for name in names)


def plain(value: Any) -> Any:
    return None if value in ((), [], None) else value


@pytest.mark.parametrize("verb", READING)
def test_methods_have_the_options_of_their_verbs(verb: str) -> None:
    command = inspect.signature(importlib.import_module(module_of(verb)).command).parameters
    methods = [inspect.signature(getattr(Trace, name)).parameters for name in METHODS.get(verb, (verb,))]
    left_out = PRINTING | OWN.get(verb, set())
    options = {name: option.default for name, option in command.items() if name not in left_out}
    for name, default in options.items():
        known = [method[RENAMED.get(name, name)] for method in methods if RENAMED.get(name, name) in method]
        assert known, f"{verb} has an option {name} that Trace.{verb} has not"
        for parameter in known:
            wanted = (not default) if name in RENAMED else default
            same = parameter.default is parameter.empty or plain(parameter.default) == plain(wanted)
            assert same or (verb, name) in {("view", "width"), ("stats", "top"), ("open", "no_browser")}, (
                verb,
                name,
                parameter.default,
                default,
            )
    taken = {*options, *RENAMED.values(), "self", "names", "before", "cpu", "out", "force"}
    for method in methods:
        extra = {name for name in method if name not in taken}
        assert not extra, f"Trace.{verb} takes {extra}, which the verb does not"


def test_the_reference_page_is_current() -> None:
    hint = "run: python docs/reference/generate_python.py"
    assert generate_python.page() == generate_python.PAGE.read_text(encoding="utf-8"), hint


def test_the_page_has_everything_that_is_public() -> None:
    shown = {name for _, _, names in generate_python.SECTIONS for name in names}
    public = {
        name
        for name in warpsight.__all__
        if not name[0].isupper()
        and name not in ("__version__", "memory", "probes", "race", "sass", "cluster")
    }
    methods = {
        f"Trace.{name}" for name, found in vars(Trace).items() if not name.startswith("_") and callable(found)
    }
    for kind in Trace.__mro__[1:3]:
        methods |= {f"Trace.{name}" for name in vars(kind) if not name.startswith("_")}
    assert public - shown == set() and methods - shown == set()


def run(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}
    return subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, env=environment, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip


#: Sections whose examples need the compiled parts.
COMPILED = ("Record", "Watch and look at programs")


def test_examples_of_recording_run(library: Path, tmp_path: Path) -> None:
    code = "import warpsight as ws\n" + "\n".join(
        c for heading, c in generate_python.examples() if heading in COMPILED
    )
    done = run(code, tmp_path, WARPSIGHT_LIBRARY=str(library))
    assert done.returncode == 0, done.stderr
    assert "'user_event': 1" in done.stdout


def test_all_other_examples_run_in_the_order_of_the_page(tmp_path: Path) -> None:
    code = "import warpsight as ws\n" + "\n".join(
        c for heading, c in generate_python.examples() if heading not in COMPILED
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {
        "train.flame.svg",
        "train.html",
        "train.json",
        "train.warp.zip",
    }
