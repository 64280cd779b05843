"""Over a hundred kinds of secrets in the command line, environment, folder, ranges, events and kernels of a real recording,
and in files that verbs read: no output of any verb shows one, and texts that only look a little like secrets stay."""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import ROOT, environment, launcher
from tests.integration.secret_canaries import CANARIES, IN_NAMES, INNOCENT, Canary
from warpsight.formats.registry import EXPORTERS
from warpsight.machine.processes import Process
from warpsight.race import plan
from warpsight.ui.cli import app, output
from warpsight.ui.cli.app import VERBS
from warpsight.ui.cli.machine import devices
from warpsight.ui.cli.parser import places_below
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.tools import Tools
from warpsight.ui.render import terminal

GOLDEN = Path(__file__).parents[1] / "golden"
PROGRAM = """
import json, threading
import pyopencl as cl
import warpsight as ws
from tests.integration.secret_canaries import CANARIES, IN_NAMES, INNOCENT

context = cl.Context(dev_type=cl.device_type.ALL)
names = ["k_" + one.secret.replace("-", "_") for one in IN_NAMES]
source = "".join(f"kernel void {name}(global float *x) {{ x[get_global_id(0)] += 1; }}" for name in names)
program = cl.Program(context, source).build(options="-DNOTE=ghp_x")
queue = cl.CommandQueue(context)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
for name in names:
    getattr(program, name)(queue, (64,), None, buffer)
queue.finish()
for one in CANARIES:
    with ws.annotate(one.text):
        ws.emit("event " + one.text, kind="test", note=one.text, nested={"words": list(one.words)})
    ws.counter("counter " + one.text, 1.0)
thread = threading.Thread(target=ws.mark, args=(CANARIES[0].text,), name="--password=" + CANARIES[0].secret)
thread.start(); thread.join()
for text in INNOCENT:
    ws.mark(text)
"""
#: Verbs that answer in text.
ASKED = (
    ("info",), ("info", "--json"), ("stats",), ("stats", "@", "events"), ("stats", "@", "nvtx", "--json"),
    ("stats", "@", "counters"),
    ("stats", "@", "--by", "stack"), ("analyze",), ("analyze", "--json"), ("view", "@", "--list", "-n", "1000"),
    ("view", "@", "--plain"),
    ("query", "@", "SELECT * FROM process", "--format", "json"), ("query", "@", "SELECT * FROM user_event", "--all"),
    ("query", "@", "SELECT * FROM marker", "--all"), ("query", "@", "SELECT * FROM kernel", "--format", "csv"),
    ("query", "@", "SELECT * FROM name", "--format", "ndjson"), ("query", "@", "--table", "thread"), ("diff", "@", "@"),
    ("query", "@", "SELECT * FROM attribute", "--all"), ("query", "@", "SELECT * FROM loss", "--all"),
)  # fmt: skip
EVERYTHING = ("--include-paths", "--include-arguments", "--include-environment")


@pytest.fixture(scope="module")
def recorded(library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The trace, and what recording it printed."""
    require_pocl()
    pytest.importorskip("pyopencl")
    root = tmp_path_factory.mktemp("secrets")
    place = root / f"token={CANARIES[1].secret}"
    place.mkdir()
    (place / "train.py").write_text(PROGRAM)
    words = [word for one in CANARIES for word in one.words]
    planted = {f"CUDA_CANARY_{i}": one.text.replace("\n", " ") for i, one in enumerate(CANARIES)}
    paths = f"{ROOT}{os.pathsep}{Path(__file__).parents[2]}"
    done = subprocess.run(
        launcher("-o", str(root / "run.warp"), "--", sys.executable, "train.py", *words),
        cwd=place, env=environment(library, **planted) | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return root / "run.warp", done.stdout + done.stderr


def shown(text: str) -> list[str]:
    """Kinds of the secrets that a text holds; as identifiers too."""
    return [one.kind for one in CANARIES if one.secret in text or one.secret.replace("-", "_") in text]


def contents(path: Path) -> str:
    """Everything in a file: what is packed, unpacked; Parquet and Arrow as text."""
    if path.is_dir():
        return "\n".join(contents(file) for file in sorted(path.rglob("*")) if file.is_file())
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            folder = path.with_name(path.name + ".unpacked")
            archive.extractall(folder)
        return contents(folder)
    if path.suffix == ".parquet":
        return str(pq.read_table(path, partitioning=None).to_pylist())
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return data.decode(errors="replace") + data.decode("utf-16-le", errors="replace")


def ask(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    code = app.main(list(words))
    out, err = capfd.readouterr()
    assert code in (0, 4, 5), err
    return out + err


def test_the_trace_itself_holds_none(recorded: tuple[Path, str]) -> None:
    path, printed = recorded
    assert shown(printed) == []
    assert shown(contents(path)) == []
    manifest = json.loads((path / "manifest.json").read_text())
    assert "train.py" in manifest["processes"][0]["command"]


def test_what_was_planted_was_recorded(recorded: tuple[Path, str], capfd: pytest.CaptureFixture[str]) -> None:
    path, _ = recorded
    counts = "SELECT (SELECT count(*) FROM user_event), (SELECT count(*) FROM kernel), (SELECT count(*) FROM counter)"
    rows = json.loads(ask(capfd, "query", str(path), counts, "--format", "json"))["rows"][0]
    assert (
        rows[0] >= len(CANARIES) and rows[1] == len(IN_NAMES)
        if isinstance(rows, list)
        else all(rows.values())
    )
    told = contents(path)
    assert all(text in told for text in INNOCENT)
    assert "DB_PASS=***" in told and "https://***@host/x" in told and "--api-key ***" in told


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_no_verb_prints_any(
    words: tuple[str, ...], recorded: tuple[Path, str], capfd: pytest.CaptureFixture[str]
) -> None:
    path, _ = recorded
    given = [str(path) if word == "@" else word for word in words]
    if "@" not in words:
        given[1:1] = [str(path)]
    assert shown(ask(capfd, *given)) == []


@pytest.mark.parametrize("to", [*EXPORTERS])
def test_no_export_holds_any(
    to: str, recorded: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    if app.main(["export", str(recorded[0]), "--to", to, "-o", str(out), *EVERYTHING]):
        pytest.skip(capfd.readouterr().err)
    assert shown(contents(next(tmp_path.iterdir()))) == []


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("report", *EVERYTHING),
        ("flame", "--include-paths", "--to", "html"),
        ("flame", "--to", "folded"),
        ("pack",),
    ],
    ids=" ".join,
)
def test_nothing_that_is_sent_around_holds_any(
    words: tuple[str, ...], recorded: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(capfd, words[0], str(recorded[0]), *words[1:], "-o", str(tmp_path / "out"))
    assert shown(contents(tmp_path / "out")) == []


def test_agents_see_none(recorded: tuple[Path, str]) -> None:
    path, _ = recorded
    tools = Tools(Places([path.parent]))
    tables = ("process", "user_event", "marker", "kernel", "counter", "thread", "name")
    answers = [tools.query(path.name, f"SELECT * FROM {table}", 200) for table in tables]
    answers += [
        tools.info(path.name),
        tools.analyze(path.name),
        tools.stats(path.name, "events"),
        tools.flame(path.name),
    ]
    assert shown(json.dumps(answers, default=str)) == []


def _words() -> list[str]:
    return [word for one in CANARIES for word in one.words]


@pytest.fixture(scope="module")
def planted(recorded: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files with secrets of all kinds that verbs read, by the word that stands for them below."""
    folder, run = tmp_path_factory.mktemp("planted"), recorded[0]
    shutil.copytree(GOLDEN / "capsules" / "add.capsule", folder / "a.capsule")
    held = json.loads((folder / "a.capsule" / "capsule.json").read_text())
    (folder / "a.capsule" / "capsule.json").write_text(json.dumps({**held, "command": ["./add", *_words()]}))
    point = {"kernel": "_Z4copyPf", "code": "ab" * 32, "pc": 16, "kind": "global", "opcode": "LDG.E",
             "source": [one.text for one in CANARIES]}  # fmt: skip
    (folder / "a.plan.json").write_text(json.dumps({
        "version": 1, "mode": "random", "seed": 7, "probability": 0.5, "floor_ns": 10, "ceiling_ns": 20, "points": [point],
        "code": {"_Z4copyPf": ["ab" * 32]}, "command": [sys.executable, "-c", "exit(3)", *_words()],
    }))  # fmt: skip
    lines = (GOLDEN / "formats" / "cutracer" / "small.ndjson").read_text()
    (folder / "a.ndjson").write_text(lines.replace("_Z3addPf", "_".join(["_Z3addPf", *_identifiers()])))
    stacks = (GOLDEN / "merge" / "stacks.txt").read_text()
    frames = ";".join(one.text.replace(";", ",").replace("\n", " ") for one in CANARIES)
    (folder / "stacks.txt").write_text(stacks.replace(";", f";{frames};"))
    (folder / "job").mkdir()
    for rank in range(2):
        shutil.copytree(run, folder / "job" / f"rank{rank}.warp")
    files = {
        "CAPSULE": "a.capsule",
        "PLAN": "a.plan.json",
        "LINES": "a.ndjson",
        "STACKS": "stacks.txt",
        "JOB": "job",
    }
    return {word: str(folder / name) for word, name in files.items()} | {
        "@": str(run),
        "GPU": str(GOLDEN / "merge" / "gpu.json"),
    }


def _identifiers() -> list[str]:
    return [one.secret.replace("-", "_") for one in IN_NAMES]


#: For every verb: what is asked of files with secrets (OUT: a new file), or the test that asks it, or why it cannot show any.
WRITES_THROUGH = "what it prints goes through warpsight.ui.cli.output"
OWN = "knows nothing of the user's programs"
EVERY_VERB: dict[str, tuple[str, ...] | str] = {
    "record": "test_the_trace_itself_holds_none", "demo": OWN, "watch": "test_programs_that_are_run_show_none",
    "dump": "test_a_dump_shows_none", "trigger": "test_a_trigger_shows_none", "top": "test_top_shows_none",
    "attach": "test_attaching_shows_none", "detach": "test_attaching_shows_none", "recover": ("recover @",),
    "pack": "test_nothing_that_is_sent_around_holds_any", "info": "test_no_verb_prints_any", "stats": "test_no_verb_prints_any",
    "analyze": ("analyze @ --sarif", "analyze @ --sarif --include-paths", "analyze @ iterations memory"),
    "diff": ("diff @ @ --json", "diff @ @ --by stack"), "simulate": ("simulate @", "simulate @ --json"),
    "query": "test_no_verb_prints_any", "view": "test_no_verb_prints_any", "flame": "test_nothing_that_is_sent_around_holds_any",
    "report": "test_nothing_that_is_sent_around_holds_any", "open": "test_the_kernel_log_and_the_page_that_is_served_hold_none",
    "merge": ("merge -c STACKS -g GPU", "merge -c STACKS -g GPU -o OUT.folded --json", "merge -c STACKS -g GPU -o OUT.warp"),
    "export": "test_no_export_holds_any", "import": ("import @ -o OUT.warp", "import LINES -o OUT.warp"),
    "mcp": "test_agents_see_none", "core": WRITES_THROUGH, "sanitize": WRITES_THROUGH,
    "replay": ("replay CAPSULE --mode dry-run", "replay CAPSULE --mode dry-run --json"),
    "capsule record": "test_no_capsule_holds_secrets_of_its_command_line",
    "capsule show": ("capsule show CAPSULE", "capsule show CAPSULE --json"),
    "capsule export": ("capsule export CAPSULE -o OUT", "capsule export CAPSULE --to python -o OUT",
                       "capsule export CAPSULE --to trace -o OUT.warp"),
    "race points": WRITES_THROUGH, "race check": WRITES_THROUGH, "race stress": "test_programs_that_are_run_show_none",
    "race reduce": "test_programs_that_are_run_show_none", "race replay": "test_a_plan_without_its_secrets_asks_for_the_program",
    "cluster analyze": ("cluster analyze JOB --workers 1", "cluster analyze JOB --json --workers 1"),
    "cluster merge": ("cluster merge JOB --workers 1 -o OUT.warp",), "cluster topology": OWN, "cluster trigger": OWN,
    "cluster traffic": ("cluster traffic JOB --workers 1",), "devices": "test_the_processes_on_a_gpu_show_none",
    "doctor": "test_the_doctor_shows_none", "bench": OWN, "help": OWN, "version": OWN,
    "sass query": ("sass query LINES",), "sass warps": ("sass warps LINES",), "sass validate": ("sass validate LINES",),
    "sass compare": ("sass compare LINES LINES",), "sass delays": ("sass delays LINES --delay-ns 100",),
    **{f"sass {verb}": WRITES_THROUGH for verb in (
        "hotspots", "why", "counts", "metrics", "list", "trace", "probe", "events", "memory", "races", "waits", "disasm",
        "histogram", "ipc", "values", "dataflow", "tma", "mma")},
}  # fmt: skip


#: Files with tests that are named above.
_ASKING = ("test_secrets.py", "test_live_secrets.py", "test_capsule_standin.py")


def _verbs() -> dict[str, ModuleType]:
    """Every verb, with those below others, and its module."""
    found = {}
    for name in VERBS:
        module = importlib.import_module(app.module_of(name))
        for below, place in places_below(module).items() if hasattr(module, "BELOW") else ():
            found[f"{name} {below}"] = importlib.import_module(place)
        if not hasattr(module, "BELOW"):
            found[name] = module
    return found


def test_every_verb_is_asked_for_secrets() -> None:
    assert set(EVERY_VERB) == set(_verbs())
    here = "".join((Path(__file__).with_name(name)).read_text() for name in _ASKING)
    for how in EVERY_VERB.values():
        assert not isinstance(how, str) or how in (OWN, WRITES_THROUGH) or f"\ndef {how}(" in here, how


@pytest.mark.parametrize("verb", [verb for verb, how in EVERY_VERB.items() if how == WRITES_THROUGH])
def test_a_verb_that_is_not_asked_writes_through_what_leaves_secrets_out(verb: str) -> None:
    source = inspect.getsource(_verbs()[verb])
    past = [line for line in source.splitlines() if re.search(r"\bprint\(|sys\.stdout", line)]
    assert not [line for line in past if not re.search("json_text|file=sys.stderr|bytes|isatty", line)]


@pytest.mark.parametrize("canary", CANARIES, ids=lambda one: one.kind)
def test_what_is_written_there_holds_none(
    canary: Canary, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with output.text(None) as stream:
        stream.write(f"begin {canary.text} end\n")
    printed = capfd.readouterr().out
    with output.text(None) as stream:
        stream.write(
            output.json_text({"note": canary.text, "words": list(canary.words), f"{canary.text}": 1})
        )
    written = capfd.readouterr().out
    with output.text(tmp_path / "x.txt") as stream:
        stream.write(f"{canary.text}\n")
    terminal.error(canary.text)
    terminal.note(canary.text)
    printed += capfd.readouterr().err + (tmp_path / "x.txt").read_text()
    assert canary.secret not in printed + written
    assert len(json.loads(written)) == 3


@pytest.mark.parametrize(
    "words", [words for how in EVERY_VERB.values() if isinstance(how, tuple) for words in how]
)
def test_no_other_verb_shows_any(
    words: str, planted: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [planted.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in words.split()]
    code = app.main(given)
    out, err = capfd.readouterr()
    assert "internal error" not in err and "Traceback" not in err
    assert code in (0, 1, 4, 5), err
    assert shown(out + err) == []
    assert shown(contents(tmp_path)) == []


@pytest.mark.parametrize("verb", ["watch", "race stress", "race reduce"])
def test_programs_that_are_run_show_none(
    verb: str, planted: dict[str, str], library: Path, tmp_path: Path
) -> None:
    """Of a program that fails: what the verb prints and keeps, apart from what the program wrote."""
    variables = environment(
        library, **{f"CANARY_{i}": one.text.replace("\n", " ") for i, one in enumerate(CANARIES)}
    )
    options = {
        "watch": ["watch", "-o", "out", "--"],
        "race stress": ["race", "stress", planted["PLAN"], "--inject", "none", "--runs", "4", "-o", "out", "--"],
        "race reduce": ["race", "reduce", planted["PLAN"], "--inject", "none", "--runs", "4", "-o", "out", "--"],
    }  # fmt: skip
    program = [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)", *_words()]
    done = subprocess.run([sys.executable, "-m", "warpsight", *options[verb], *program], env=variables, cwd=tmp_path, timeout=120,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert shown(done.stdout + done.stderr) == []
    assert shown(contents(tmp_path)) == []


def test_a_plan_without_its_secrets_asks_for_the_program(
    planted: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "written.json"
    plan.write(plan.read(planted["PLAN"]), written)
    assert app.main(["race", "replay", str(written)]) == 2
    assert "does not keep the secrets" in (told := capfd.readouterr().err)
    assert shown(told + json.dumps(plan.read(written).command)) == []


def test_the_processes_on_a_gpu_show_none() -> None:
    for one in CANARIES:
        command = " ".join(["train", *one.words]).replace("\n", " ")
        process = Process(1, "cuda:0", "me", None, None, None, None, command, False, "another user's")
        assert shown(str(devices._without_secrets(process))) == []
