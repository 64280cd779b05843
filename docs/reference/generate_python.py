"""Writes docs/reference/python.md from the functions themselves: `python docs/reference/generate_python.py`.

The examples run in order, in an empty folder: a test does so.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import warpsight
from warpsight.api.trace import Trace
from warpsight.recorder.options import table as options

PAGE = Path(__file__).with_name("python.md")

#: Keywords of a recording, described on the page of options.
OPTIONS = {row.name for row in options.of_scope(options.RECORDING, options.VENDOR)}
#: A function that takes more options than this takes `**options`.
MOST = 5
#: Functions whose arguments are a verb's options, which the page of verbs describes.
VERBS = ("diff", "race", "sass.", "watch", "dump", "top", "attach", "core", "sanitize", "bench", "cluster")
#: Functions that do what a verb does, whose description is there.
AS_VERBS = {
    **{f"Trace.{verb}": verb for verb in ("stats", "analyze", "diff", "simulate", "view", "flame", "report", "export", "pack")},
    "Trace.serve": "open",
    **{verb: verb for verb in ("diff", "watch", "dump", "top", "detach", "core", "sanitize", "bench", "devices", "doctor")},
    **{f"cluster.{verb}": f"cluster {verb}" for verb in ("analyze", "traffic", "merge", "trigger")},
}  # fmt: skip
#: Heading, what the section is about, and names with an example each; `Trace.…` are methods.
SECTIONS: list[tuple[str, str, dict[str, str]]] = [
    ("Record", "Recording needs Linux and the compiled parts. `**options` are those of [`warpsight record`](options.md).", {
        "record": 'with ws.record("run.warp", sample="off", counters="off") as recording:\n    ws.mark("begun")\n'
                  'print(recording.summary["rows"])',
        "start": 'ws.start("run.warp", force=True, sample="off", counters="off")\nprint(ws.statistics()["duration"])',
        "stop": "ws.stop()",
        "statistics": "assert ws.statistics() == {}  # nothing records",
        "run": 'import sys\n\ndone = ws.run([sys.executable, "-c", "print(1)"], "other.warp", sample="off", counters="off")\n'
               "assert done.returncode == 0\nwith done.open() as other:\n    print(other.info()[\"processes\"])",
        "recover": 'assert not ws.recover("run.warp")["recovered"]  # it was complete',
    }),
    ("Say what the program does", "Invalid values (a negative duration, "
     "text instead of a number) always raise an error.", {
        "annotate": 'with ws.annotate("forward", batch=3):\n    pass\n\n\n@ws.annotate("backward")\ndef backward() -> None:\n'
                    "    pass",
        "emit": 'import time\n\nbegin = time.monotonic_ns()\nws.emit("load", begin, time.monotonic_ns() - begin, kind="io", '
                "bytes=4096)",
        "mark": 'ws.mark("converged", loss=0.25)',
        "counter": 'ws.counter("queue length", 7, "items")',
        "step": "ws.step()",
        "capture_frame": "with ws.capture_frame():\n    pass",
        "trigger": 'ws.trigger("loss is not finite")',
        "memory.allocate": 'ws.memory.allocate(0x1000, 4096, allocator="pool", category="activation")',
        "memory.free": 'ws.memory.free(0x1000, allocator="pool")',
    }),
    ("Make a trace of your own rows, or of other tools' files", "Columns and units are those of the [tables](tables.md). "
     "Every verb and method works on the result.", {
        "TraceWriter": 'with ws.TraceWriter("train.warp") as writer:\n'
        '    writer.add("process", [{"process": 0, "pid": 7, "host": "here", "command": "train", "executable": "train",\n'
        '                            "start": 0}])\n'
        '    writer.add("device", [{"device": 0, "index": 0, "uuid": "GPU-0", "name": "a GPU", "vendor": "NVIDIA",\n'
        '                           "platform": "cuda", "host": "here"}])\n'
        '    gemm, place = writer.name("gemm"), {"device": 0, "context": 1, "stream": 7, "process": 0}\n'
        '    writer.add("kernel", [{"start": 1_000 * n, "duration": 700, "name_id": gemm, "correlation": n,\n'
        '                           "graph_level": False, **place} for n in range(1, 9)])',
        "import_files": "from pathlib import Path\n\nevent = '{\"ph\": \"X\", \"name\": \"load\", \"pid\": 1, \"tid\": 1, "
                        "\"ts\": 5, \"dur\": 2}'\nPath(\"trace.json\").write_text(f\"[{event}]\")\n"
                        'made = ws.import_files(["trace.json"], "imported.warp")\nprint(made.rows)',
    }),
    ("Ask a trace", "Each reading verb is a method whose arguments are the [verb's options](cli.md), here often `**options`. "
     "`begin` and `end` are "
     "`--from` and `--until`: a string with a unit such as `\"200ms\"`, or seconds since the trace's start. `everything` is "
     "`--all`, and `flows=False` is `--no-flows`. Options that can be repeated take one value or several. A `Result` has "
     "`tables` (Arrow, with units in the fields' metadata), `findings`, and `to_json()`, which returns what the verb's "
     "`--json` prints.", {
        "open": 'trace = ws.open("train.warp")',
        "Trace.info": 'assert trace.info()["devices"][0]["name"] == "a GPU"',
        "Trace.stats": 'kernels = trace.stats("kernels", begin="1us").tables["kernels"]\nprint(kernels.to_pylist()[0]["total"])',
        "Trace.analyze": 'found = trace.analyze()\nprint(found.verdict.headline, [finding.text for finding in found.findings])\n'
                         'gaps = trace.analyze("gaps")["gaps"]',
        "Trace.analyses": 'assert "critical-path" in ws.Trace.analyses()',
        "Trace.query": 'long = trace.query(filters="duration>=700ns", fields=["name", "start"], head=3)\n'
                       'assert trace.query("SELECT count(*) AS n FROM kernel")["n"][0].as_py() == 8',
        "Trace.relation": 'durations = trace.relation("SELECT duration FROM kernel").fetchnumpy()["duration"]',
        "Trace.events": 'first = trace.events(kind="kernel", count=2).tables["events"]',
        "Trace.view": "print(trace.view(width=80, ascii_only=True))",
        "Trace.hotspots": 'try:\n    print(trace.hotspots().kernels[0].levels["line"][0])\nexcept ws.WarpsightError as error:\n'
                          '    print(error)  # recorded without pc_sampling',
        "Trace.diff": 'change = trace.diff("train.warp")\nprint(change.headline)',
        "Trace.simulate": 'faster = trace.simulate("kernel:.*/2")\nassert faster.step.predicted <= faster.step.recorded',
        "Trace.merge": 'Path("host.txt").write_text("python 7/7 0.000001: cycles:\\n\\t        1 main '
                       '(train)\\n\\n")\nmerged = trace.merge("host.txt")\nprint(merged.counts())',
        "Trace.sql": 'rows = trace.sql("SELECT name, start FROM kernel WHERE start > $t", t=2_000).fetchall()',
        "Trace.arrow": 'table = trace.arrow("kernel")',
    }),
    ("Compare runs", "", {
        "diff": 'change = ws.diff("train.warp", trace)\nassert change.verdict == "untested"  # one run a side',
    }),
    ("Write a trace in other forms", "New files have mode 0600. `out` may be an open binary stream.", {
        "Trace.flame": 'graph = trace.flame("time", out="train.flame.svg")',
        "Trace.report": 'page = trace.report("train.html", title="Training")\nassert page.bytes > 10_000',
        "Trace.export": 'written = trace.export("chrome", "train.json", kind=["kernel"], flows=False)\n'
                        'assert written.counts["slices"] == 8',
        "Trace.serve": 'with trace.serve() as server:\n    print(server.url)',
        "Trace.pack": 'packed = trace.pack("train.warp.zip")',
        "Trace.close": "trace.close()",
    }),
    ("Watch and look at programs", "Arguments are the options of the [verb of the same name](cli.md). Programs use "
     "this terminal. Reports print as their verbs do, and have `to_json()`.", {
        "watch": 'import sys\n\nwatched = ws.watch([sys.executable, "-c", "print(1)"])\n'
                 "assert watched.returncode == 0 and not watched.reports",
        "dump": 'import subprocess\n\n'
                'program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)\n'
                'with program:\n    print(ws.dump(program.pid).document["reason"])\n    program.kill()',
        "top": "",
        "attach": "",
        "detach": "",
        "core": "",
        "sanitize": "",
        "bench": "",
    }),
    ("Jobs of many ranks", "What the verbs of `warpsight cluster` answer; arguments are the verbs' options "
     "([how](../how-to/find-the-slow-rank.md)).", {
        "cluster.analyze": 'job = ws.cluster.analyze("train.warp")\nprint(job.headline, job.ranks.column_names)',
        "cluster.traffic": "",
        "cluster.merge": "",
        "cluster.trigger": "",
    }),
    ("This machine", "", {
        "devices": "for device in ws.devices():\n    print(device.name)",
        "detect_platform": "print(ws.detect_platform())",
        "doctor": "print([check.feature for check in ws.doctor() if check.state != \"ok\"])",
        "time": "timing = ws.time(lambda: sum(range(1000)), iterations=5)\nprint(timing.median)",
        "memory.read_torch_snapshot": "",
    }),
    ("Probe kernels", "Functions of yours that run at a kernel's instructions ([how](../how-to/probe-a-kernel.md)). Their maps "
     "become Arrow tables.", {
        "probe": '@ws.probe(at="global.load", kernel="gemm*")\ndef loads(event: ws.probes.Event) -> None:\n'
                 "    sizes.add(event.size)\n    rows.push(event.block, event.time)",
        "probes.array": 'last = ws.probes.array(4, per="thread", reduce="last")',
        "probes.counter": "count = ws.probes.counter()",
        "probes.histogram": "sizes = ws.probes.histogram()",
        "probes.top": "lines = ws.probes.top(20, keys=10_000)",
        "probes.ring": "rows = ws.probes.ring(1000, block=int, time=int)",
        "sass.probe": "",
    }),
    ("Find timing bugs", "`race stress` and `race reduce` from Python ([how they "
     "decide](../explanation/race-search.md)). Results have the fields of `--json`. A plan patches kernels "
     "on an NVIDIA GPU unless you pass `inject=False`.", {
        "race.trial": '@ws.race.trial\ndef step() -> None:\n    ws.race.output("sum", [1.0, 2.0])\n\n\nstep()',
        "race.output": "",
        "race.use_switch": "",
        "race.Experiment.of": 'import sys\n\nprogram = [sys.executable, "-c", "print(3)"]\n'
                              'experiment = ws.race.Experiment.of(program, "print.stress", inject=False, same_output=True)',
        "race.stress": 'point = ws.race.Point(kernel="k", code="0" * 64, pc=0x40, kind="global")\n'
                       'plan = ws.race.Plan(mode="random", seed=0, floor_ns=0, ceiling_ns=50_000, points=(point,))\n'
                       "found = ws.race.stress(experiment, plan, limits=ws.race.Limits(runs=3))\n"
                       'assert found.verdict == "not reproduced" and found.rate_below < 1',
        "race.reduce": 'ws.race.write_plan(plan, "print.plan.json")\n'
                       'experiment = ws.race.Experiment.of(program, "print.reduce", inject=False)\n'
                       'reduced = ws.race.reduce(experiment, ws.race.read_plan("print.plan.json"), deterministic=True)\n'
                       'assert reduced.verdict == "not reproduced"  # the plan does not make it fail',
    }),
]  # fmt: skip
INTRODUCTION = """# Python

<!-- Generated by generate_python.py. -->

```python
import warpsight as ws
```

Modules load on first use, so the import itself is fast. Errors that you can act on are `ws.WarpsightError`, with the subclasses
`ws.UsageError` (wrong arguments), `ws.TraceError` (a missing or damaged trace, or a file that already exists) and `FormatError`
(another tool's file that cannot be read). Docstrings list what each function raises. `force=True` replaces what exists.

[How to record from Python](../how-to/record-from-python.md) · [Jupyter](../how-to/jupyter.md) · [Verbs](cli.md)
"""


def examples() -> Iterator[tuple[str, str]]:
    """Section and code of every example, in the order of the page."""
    for heading, _, names in SECTIONS:
        yield from ((heading, code) for code in names.values() if code)


def page() -> str:
    """The whole page."""
    out = [INTRODUCTION]
    for heading, about, names in SECTIONS:
        out += [f"## {heading}\n", *([f"{about}\n"] if about else [])]
        for name, example in names.items():
            out += _entry(name, example)
    return "\n".join(out)


def _entry(name: str, example: str) -> Iterator[str]:
    found = Trace if name.startswith("Trace.") else warpsight
    for part in name.removeprefix("Trace.").split("."):
        found = getattr(found, part)
    shown = name.replace("Trace.", "trace.") if name.startswith("Trace.") else f"ws.{name}"
    signature = inspect.signature(found)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    named = {parameter.name for parameter in parameters}
    as_verb = shown.startswith(("trace.", *(f"ws.{verb}" for verb in VERBS)))
    known = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} if as_verb else named & OPTIONS
    options = known if len(known) > MOST else set()
    elsewhere = {*(named if as_verb else options), "force"}
    kind = signature.return_annotation
    returned = "" if kind == "None" else f" → `{kind}`"
    yield f"### `{_signature(shown, parameters, options)}`{returned}\n"
    text = _sections(inspect.getdoc(found) or "", elsewhere)
    if verb := AS_VERBS.get(name):
        text = f"As [`warpsight {verb}`]({_link(verb)}). {text.partition(chr(10) * 2)[2]}".rstrip()
    yield f"{text}\n"
    if example:
        yield f"```python\n{example}\n```\n"


@functools.cache
def _anchors() -> dict[str, str]:
    """Of each heading on the page of verbs, its anchor; "" where GitHub's and the site's differ."""
    page = PAGE.with_name("cli.md").read_text(encoding="utf-8")
    headings = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    anchors = {one: re.sub(r"[^\w\- ]", "", one).strip().lower().replace(" ", "-") for one in headings}
    return {heading: "" if "--" in anchor else f"#{anchor}" for heading, anchor in anchors.items()}


def _link(verb: str) -> str:
    """Where a verb is described."""
    return "cli.md" + next(
        anchor for heading, anchor in _anchors().items() if f"{heading} ".startswith(f"{verb} ")
    )


def _signature(shown: str, parameters: list[inspect.Parameter], options: set[str]) -> str:
    """Name, parameters and defaults; types are in the annotations, options of a recording on their own page."""
    parts = []
    before = None
    for parameter in parameters:
        if parameter.name in options:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and before is not parameter.KEYWORD_ONLY:
            parts.append("*")
        parts.append(_parameter(parameter))
        before = parameter.kind
    return f"{shown}({', '.join([*parts, *(['**options'] if options else [])])})"


def _parameter(parameter: inspect.Parameter) -> str:
    """`name=default`."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return f"{stars}{parameter.name}{default}"


def _sections(text: str, elsewhere: set[str]) -> str:
    """A docstring as Markdown: roles as code, arguments that are not described elsewhere as a list, no errors."""
    text = re.sub(r":(?:func|meth|class|attr|data):`~?([^`]+)`", r"`\1`", text)
    out: list[str] = []
    title, skip = "", False
    for line in text.splitlines():
        if found := re.fullmatch(r"(Args|Returns|Raises|Attributes):", line):
            title = found[1]
            out += ["Returns:"] if title == "Returns" else []
        elif not title or not line.startswith("    "):
            title, skip = (title if line.strip() == "" else ""), False
            out.append(line)
        elif title == "Returns":
            out[-1] += f" {line.strip()}"
        elif item := re.match(r"    (\S[^:]*): (.*)", line):
            skip = title == "Raises" or item[1] in elsewhere
            out += [] if skip else [f"* `{item[1]}`: {item[2]}"]
        elif not skip:
            out[-1] += f" {line.strip()}"
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
