"""Everything that is asked of a stored trace, and the answers as plain data that can be compared with stored ones.

`python -m tests.golden.answering [NAME…]` writes `answers/` anew; the difference in version control is what to review.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import warpsight
from benchmarks.synthetic_trace import Plan, make
from tests.truth import synthetic
from tests.truth.programs import generate
from tests.truth.world import run
from warpsight.analysis.base.registry import ANALYSES
from warpsight.analysis.base.result import Result
from warpsight.analysis.rules.verdict import verdict
from warpsight.analysis.stats.listing import DEFAULT, KINDS
from warpsight.analysis.timeline.scene import scene
from warpsight.api.trace import Trace
from warpsight.errors import WarpsightError
from warpsight.model.schema import TABLES
from warpsight.model.selection import Rows
from warpsight.ui.render.report.timeline import Timeline

HERE = Path(__file__).parent
ANSWERS = HERE / "answers"
RECORDED = [*HERE.glob("*.warp.zip"), *HERE.glob("recorded/*.json.gz")]
#: Generated programs, one of each family.
SEEDS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
NAMES = sorted([*(file.name for file in RECORDED), *(f"program-{seed}" for seed in SEEDS), "synthetic"])
#: Rows of a long table or list that are stored; of the others only their digest.
_SHOWN = 2
#: Characters of a text from which only its beginning is stored.
_LONG = 400
_STATS = (
    ("kernels", "name"), ("kernels", "shape"), ("kernels", "stack"), ("kernels", "device"), ("kernels", "stream"),
    ("kernels", "range"), ("kernels", "op"), ("copies", "name"), ("api", "name"), ("launches", "name"), ("nvtx", "name"),
    ("memory", "stack"), ("counters", "name"), ("sync", "name"), ("ops", "name"), ("ops", "shapes"), ("ops", "family"),
    ("modules", "name"), ("modules", "class"),
)  # fmt: skip
_WEIGHTS = ("time", "launches", "bytes", "idle", "allocated", "samples")
#: Formats in which the trace is written: those that are text.
_FORMATS = ("chrome", "kineto", "folded", "speedscope")
#: Traces of which every question is asked again about a part: one of each origin.
NARROWED = (
    "h200_two_devices.warp.zip", "kineto_h200.json.gz", "planted_leak.warp.zip", "program-3", "program-6",
    "ranks_straggler.warp.zip", "synthetic",
)  # fmt: skip
#: A run that is compared with an earlier one.
_EARLIER = {
    "planted_slow_step.warp.zip": "planted_sync_every_step.warp.zip", "program-4": "program-1",
    "kineto_h200x2_rank1.json.gz": "kineto_h200x2_rank0.json.gz", "ranks_hang.warp.zip": "ranks_straggler.warp.zip",
}  # fmt: skip
_CHANGES = ((), ("launch/2",), ("graphs",), ("kernel:.*/2",), ("overlap:copies",), ("device:H100",))


@contextmanager
def opened(name: str) -> Iterator[Trace]:
    """A stored or generated trace."""
    with tempfile.TemporaryDirectory() as folder:
        yield_from = {file.name: file for file in RECORDED}
        if name in yield_from:
            path = yield_from[name]
        elif name == "synthetic":
            path = make(Path(folder) / "t.warp", Plan(kernels=3_000, overlap=0.05))
        else:
            path = synthetic.write(run(generate(int(name.removeprefix("program-")))), Path(folder))
        with warpsight.open(path) as trace:
            yield trace


def answers(name: str, trace: Trace) -> dict[str, Any]:
    """Question → answer, in plain data."""
    asked: dict[str, Callable[[], Any]] = {"verdict": lambda: verdict(trace).to_json()}
    asked |= {f"analyze {name}": lambda one=one: one.run(trace, Rows()) for name, one in ANALYSES.items()}
    asked |= {
        f"stats {subject} by {by}": lambda subject=subject, by=by: trace.stats(subject, by=by)
        for subject, by in _STATS
    }
    asked |= {f"flame {weight}": lambda weight=weight: _folded(trace, weight) for weight in _WEIGHTS}
    asked |= {
        f"simulate {' '.join(what)}": lambda what=what: trace.simulate(*what).result for what in _CHANGES
    }
    asked["events"] = lambda: trace.events(count=200)
    asked["timeline"] = lambda: _timeline(trace)
    found = {question: plain(_asked(trace, ask)) for question, ask in asked.items()}
    brief = {f"export {form}": lambda form=form: _exported(trace, form) for form in _FORMATS}
    brief |= {
        f"rows of {table}": lambda table=table: _rows(trace, table) for table in TABLES if trace.count(table)
    }
    brief |= _asked_otherwise(trace)
    if name in _EARLIER:
        brief["diff"] = lambda: _compared(trace, _EARLIER[name])
    if name in NARROWED:
        brief |= _narrowed(trace)
    # Of answers about parts of what is stored in full, only whether they change.
    return found | {
        question: _digest(json.dumps(plain(_asked(trace, ask)), sort_keys=True))
        for question, ask in brief.items()
    }


def _asked_otherwise(trace: Trace) -> dict[str, Callable[[], Any]]:
    """The same questions with their other options."""
    asked: dict[str, Callable[[], Any]] = {
        "places of findings": lambda: [(finding.rule, finding.at) for finding in verdict(trace).findings],
        "every event": lambda: trace.events(kind=KINDS),
        "first events": lambda: trace.events(kind=DEFAULT, name="a|e"),
        "latency": lambda: trace.stats("kernels", latency=True),
        "mangled names": lambda: trace.stats("kernels", names="mangled", top=3),
        "view": lambda: trace.view(width=90),
        "view in ASCII": lambda: trace.view(width=200, ascii_only=True),
        "memory rows": lambda: trace.stats("memory", by="stack", top=2),
        "modules": lambda: trace.stats("modules", top=4),
    }
    for options in ({"merge_lines": True}, {"by": ("stream", "process")}, {"iteration": 1}, {"level": ("range",)},
                    {"level": ("op",), "names": "mangled"}, {"begin": "1ms", "end": "20ms"}):  # fmt: skip
        asked[f"flame {options}"] = lambda options=options: _folded(trace, "time", **options)
    return asked


def _narrowed(trace: Trace) -> dict[str, Callable[[], Any]]:
    """Every analysis and the verdict of the middle of the trace, of one device, one stream and one process."""
    begin, end = (
        value or 0
        for value in trace.sql("SELECT min(start), max(start + duration) FROM kernel").fetchall()[0]
    )
    stream = trace.sql(
        "SELECT stream FROM kernel GROUP BY stream ORDER BY count(*) DESC, stream LIMIT 1"
    ).fetchall()[0]
    process = trace.sql("SELECT min(process) FROM process").fetchall()[0]
    parts = {
        "middle": Rows(begin=begin + (end - begin) // 4, end=begin + (end - begin) * 3 // 5),
        "device 0": Rows(devices=(0,)),
        "one stream": Rows(streams=stream or ()),
        "one process": Rows(processes=process or ()),
        "named": Rows(name="a"),
    }
    asked: dict[str, Callable[[], Any]] = {}
    for part, rows in parts.items():
        asked[f"verdict, {part}"] = lambda rows=rows: verdict(trace, rows).to_json()
        asked |= {
            f"analyze {name}, {part}": lambda one=one, rows=rows: one.run(trace, rows)
            for name, one in ANALYSES.items()
        }
    return asked


def _asked(trace: Trace, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except WarpsightError as error:
        return str(error).replace(str(trace.path), "the trace")


def _folded(trace: Trace, weight: str, **options: Any) -> list[str]:
    import io

    out = io.BytesIO()
    trace.flame(weight, to="folded", out=out, **options)
    return sorted(out.getvalue().decode().splitlines())


def _exported(trace: Trace, form: str) -> dict[str, list[str]]:
    """The files of a format, without the rows of the trace that some enclose: those are compressed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(trace.export(form, Path(folder, "out"), rows=False).path)
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        return {file.name: file.read_text().split("},") for file in files if file.is_file()}


def _rows(trace: Trace, table: str) -> pa.Table:
    return trace.sql(f"SELECT * FROM {table} ORDER BY ALL").to_arrow_table()


def _compared(trace: Trace, earlier: str) -> Any:
    with opened(earlier) as before:
        found = trace.diff(before)
        tables = {
            name: table for name, table in found.result.tables.items() if name != "runs"
        }  # which has paths
        return {"headline": found.headline, "verdict": found.verdict, "tables": tables}


def _timeline(trace: Trace) -> dict[str, Any]:
    """What the report's timeline draws: the whole, a tenth of it, and the sums of that tenth."""
    drawn = scene(trace, Rows())
    shown = Timeline(trace, drawn, str)
    begin, length = drawn.begin - drawn.origin, drawn.end - drawn.begin
    window = (begin + length // 2, begin + length * 6 // 10)
    return {"whole": shown.data(None), "window": shown.requested_window(*window), "sums": shown.sums(*window)}


def plain(value: Any) -> Any:
    """Numbers to seven digits, long lists by their beginning and a digest of the whole."""
    if isinstance(value, pa.Table):
        value = value.to_pylist()
    if isinstance(value, Result):
        value = {"tables": dict(value.tables), "findings": [finding.to_json() for finding in value.findings]}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        rows = [plain(one) for one in value]
        if len(rows) <= _SHOWN + 1:
            return rows
        return [*rows[:_SHOWN], f"{len(rows)} in all, digest {_digest(json.dumps(rows, sort_keys=True))}"]
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[: _LONG // 4]}… {len(value)} characters, digest {_digest(value)}"
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(names: list[str]) -> None:
    """Write the answers of some traces, of all by default."""
    ANSWERS.mkdir(exist_ok=True)
    for name in names or NAMES:
        with opened(name) as trace:
            text = json.dumps(answers(name, trace), indent=1, ensure_ascii=False, sort_keys=True)
        (ANSWERS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
