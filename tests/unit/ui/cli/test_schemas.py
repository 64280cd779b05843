"""Everything that is written as JSON has a published schema, and real output fulfils it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.unit.sass.kernels import kernel, only, trace
from tests.unit.sass.test_validate import text_of
from tests.unit.sass.traces import small, write
from warpsight.machine.checks import Check
from warpsight.recorder.live.recording import Reading, Snapshot, TopKernel
from warpsight.recorder.live.stacks import TopStack
from warpsight.recorder.trial.bench import Bench
from warpsight.ui.cli import app, parser

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden"
TRACE = str(GOLDEN / "h200_empty_kernels.warp.zip")
FOLDER = resources.files("warpsight.ui.cli") / "schemas"


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def fulfils(name: str, document: Any) -> None:
    Draft202012Validator(schema(name)).validate(document)


def generator() -> dict[str, Any]:
    place = ROOT / "docs" / "reference" / "generate_schemas.py"
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))  # as for a program there
    spec = importlib.util.spec_from_file_location("generate_schemas", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where the types look their names up
    spec.loader.exec_module(module)
    return vars(module)


def test_generated_schemas_and_their_page_are_current() -> None:
    made = generator()
    hint = "run: python docs/reference/generate_schemas.py"
    for name in made["MADE"]:
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == made["text"](name), hint
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), hint


def test_every_schema_is_one_and_is_listed() -> None:
    made = generator()
    names = {Path(file.name).stem for file in FOLDER.iterdir() if file.name.endswith(".json")}
    assert names == {*made["MADE"], *made["BY_HAND"]}
    for name in names:
        Draft202012Validator.check_schema(schema(name))
        assert schema(name)["$id"] == f"https://warpsight.dev/schemas/{name}.json"


def test_every_verb_that_writes_json_is_listed() -> None:
    page = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    for verb in app.VERBS:
        below = getattr(importlib.import_module(app.module_of(verb)), "BELOW", ())
        command = parser.verb_command(verb)
        parts = {f"{verb} {name}": command.commands[name] for name in below} or {verb: command}
        for name, part in parts.items():
            if any("--json" in option.opts for option in part.params):
                listed = f"`{name} " in page or f"[{name.replace(' ', '_')}]" in page
                assert listed, f"{name} --json has no schema in docs/reference/schemas.md"


@pytest.fixture(scope="module")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sass") / "t.ndjson", small())


def out(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert app.main(["-q", *arguments]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_answers_about_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fulfils("view", out(capsys, "view", TRACE, "--list", "-n", "3", "--json"))
    fulfils("flame", out(capsys, "flame", TRACE, "--json", "-o", str(tmp_path / "f.html")))
    fulfils("report", out(capsys, "report", TRACE, "--json", "-o", str(tmp_path / "r.html")))
    fulfils(
        "export",
        out(capsys, "export", TRACE, "--to", "kernel-events", "--json", "-o", str(tmp_path / "e.ndjson")),
    )
    for line in (tmp_path / "e.ndjson").read_text().splitlines():
        fulfils("instruction_trace", json.loads(line))
        fulfils("kernel_log", json.loads(line))


def test_answers_about_instructions(
    instructions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(instructions)
    fulfils("sass_warps", out(capsys, "sass", "warps", path, "--json"))
    (tmp_path / "empty.ndjson").write_text("")
    fulfils("sass_warps", out(capsys, "sass", "warps", str(tmp_path / "empty.ndjson"), "--json"))
    fulfils("sass_validate", out(capsys, "sass", "validate", path, "--json"))
    fulfils("sass_validate", out(capsys, "sass", "validate", str(tmp_path / "empty.ndjson"), "--json"))
    (tmp_path / "t.log").write_text(text_of(small()[1:]))
    fulfils("sass_compare", out(capsys, "sass", "compare", str(tmp_path / "t.log"), path, "--json"))
    fulfils("sass_counts", out(capsys, "sass", "query", path, "-g", "warp", "--count", "--format", "json"))
    for more in ([], ["-g", "cta", "-n", "1"], ["--fields", "warp,pc,addrs,nothing"], ["--describing", "-a"]):
        fulfils("sass_records", out(capsys, "sass", "query", path, *more, "--format", "json"))
        assert app.main(["sass", "query", path, *more, "--format", "ndjson"]) == 0
        for line in capsys.readouterr().out.splitlines():
            fulfils("sass_records", [json.loads(line)])
    fulfils("delays", out(capsys, "sass", "delays", path, "--delay-ns", "100"))
    assert app.main(["-q", "export", path, "--to", "cutracer", "-o", str(tmp_path / "o.ndjson")]) == 0
    for line in (tmp_path / "o.ndjson").read_text().splitlines():
        fulfils("instruction_trace", json.loads(line))


def test_answers_about_hot_lines(capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(GOLDEN / "h100_hot_lines.warp.zip")
    fulfils(
        "sass_hotspots",
        out(capsys, "sass", "hotspots", recording, "--json", "--kernels", "1", "--name", "tail"),
    )


def test_answers_about_event_traces(capsys: pytest.CaptureFixture[str]) -> None:
    truth = str(GOLDEN / "events" / "truth.events.zst")
    for question in ("memory", "values", "dataflow"):
        fulfils(f"sass_{question}", out(capsys, "sass", question, truth, "--json"))
    fulfils("sass_tma", out(capsys, "sass", "tma", str(GOLDEN / "events" / "classes.events.zst"), "--json"))
    for name in ("coalescing", "value-range"):
        fulfils("sass_probe", out(capsys, "sass", "probe", name, truth, "--json"))
    cluster = str(GOLDEN / "events" / "race" / "cluster_peer_exits.events.zst")
    fulfils("sass_waits", out(capsys, "sass", "waits", cluster, "--json"))
    fulfils(
        "sass_races", out(capsys, "sass", "races", str(GOLDEN / "formats/events/races.events.zst"), "--json")
    )
    assert app.main(["-q", "sass", "events", truth, "--json", "-n", "0"]) == 0
    for line in capsys.readouterr().out.splitlines():
        fulfils("sass_event", json.loads(line))


def test_answers_about_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    fulfils("devices", out(capsys, "devices", "--processes", "--json"))
    fulfils("doctor", out(capsys, "doctor", "--json"))


def test_documents_of_running_programs() -> None:
    fulfils("doctor", {"checks": [Check("a", "ok", "b").to_json()]})
    fulfils(
        "bench", Bench("cuda", "d", 1, 1, 1, 1, 1, 2.0, 3.0, 4.0, 5.0, 6.0, None, 1.0, 0.5, 0.2).to_json()
    )
    stacks = (TopStack(("main (a.py:3)", "k"), 2, 1.0),)
    shown = Snapshot("f", True, 1.0, 5.0, (1,), 2.0, 3.0, 4.0, 5.0, {"0": 0.5}, {"0": 0.25}, (TopKernel("k", 1, 2, 1.0),),
                     stacks, stacks, (Reading("c", 1.0, "W", None),), ((1, "why"),))  # fmt: skip
    fulfils("top", json.loads(json.dumps(shown.to_json())))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("sass_records", [{"warp": "x"}]), ("sass_records", [3]),
     ("sass_warps", {}), ("sass_counts", {"a": "b"}), ("delays", {"version": "2.0"}), ("devices", {"devices": []}),
     ("view", {"trace": "t", "tables": {}, "findings": [], "more": 1}), ("instruction_trace", {"type": "opcode_only"})],
)  # fmt: skip
def test_a_schema_refuses_what_is_not_so(name: str, wrong: Any) -> None:
    assert not Draft202012Validator(schema(name)).is_valid(wrong)


def test_answers_about_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = kernel("load_in_loop")
    rows = [(only(code, "FADD"), "long_scoreboard", 800), (0, "selected", 200), (3, "wait", 9)]
    for number, launched in enumerate((False, True)):
        path = str(trace(tmp_path / f"{number}.warp", code, rows, launched=launched))
        fulfils("sass_why", out(capsys, "sass", "why", path, "--json"))
        fulfils("sass_list", out(capsys, "sass", "list", path, "--json"))


def test_capsules_fulfil_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(GOLDEN / "capsules" / "add.capsule")
    fulfils("capsule", out(capsys, "capsule", "show", path, "--json"))
    fulfils("capsule_memory", out(capsys, "capsule", "show", path, "a0", "--json"))
