"""Every verb that reads, on traces that are empty, tiny, lossy, wrong, or lack a table: an answer or a message, never a bug."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.analysis.conftest import NAMES
from tests.unit.analysis.test_degenerate import CASES, SHAPE, everything
from warpsight.analysis.flame.graph import WEIGHTS
from warpsight.analysis.stats.sums import BY, SUBJECTS
from warpsight.formats.registry import EXPORTERS
from warpsight.model import TraceWriter
from warpsight.model.schema import TABLES
from warpsight.ui.cli import parser
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.tools import Tools

_WHOLE = "everything"
#: What verbs may meet that analyses alone may not.
_CASES = ("empty", "only definitions", "one kernel", "one kernel that never ran", "one launch", "one kernel without a device",
          "before the start of time", "clock backwards", "ids that nothing defines", _WHOLE)  # fmt: skip
#: Beside what analyses are tested with: each table that `everything` fills is taken away in turn.
_LACKING = [name for name in TABLES if name in {*everything(), "name", "shape", "stack", "frame"}]
#: Exporters that read in ways of their own; the others share theirs.
_DISTINCT = ("perfetto", "chrome", "folded", "speedscope", "pprof", "sbt", "parquet", "dot")
_TRACES = [*_CASES, *(f"without the table {name}" for name in _LACKING)]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every trace by what it is."""
    root = tmp_path_factory.mktemp("odd")
    made = {}
    for number, case in enumerate(_CASES):
        made[case] = root / f"{number}.warp"
        with TraceWriter(made[case]) as writer:
            for name in NAMES:
                writer.name(name)
            writer.shape(**SHAPE)
            writer.stack([("main", "train.py", 3, None, "python", None)])
            writer.stack([("main", "train.py", 3, None, "python", None), "load"])
            for table, content in CASES[case]().items():
                writer.add(table, content)
    for table in _LACKING:
        path = made[f"without the table {table}"] = root / f"no-{table}.warp"
        shutil.copytree(made[_WHOLE], path)
        shutil.rmtree(path / f"table={table}")
    return made


def ask(capfd: pytest.CaptureFixture[str], *arguments: object) -> None:
    """Run a verb: 0, or 1 or 2 with a message that is not about a bug."""
    code = parser.run([str(a) for a in arguments])
    _, err = capfd.readouterr()
    assert code in (0, 1, 2), (arguments, code, err)
    assert "internal error" not in err, (arguments, err)
    if code:
        assert err.startswith("warpsight: "), (arguments, err)


@pytest.mark.parametrize("case", _TRACES)
def test_answers(traces: dict[str, Path], case: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = traces[case]
    ask(capfd, "info", path)
    for subject in SUBJECTS if case in _CASES else ("kernels",):
        ask(capfd, "stats", path, subject)
    for by in BY if case in _CASES else ("stack", "range"):
        ask(capfd, "stats", path, "--by", by, "--csv")
    ask(capfd, "analyze", path)
    ask(capfd, "diff", path, traces[_WHOLE])
    ask(capfd, "diff", traces[_WHOLE], path, "--json")
    ask(capfd, "query", path, "SELECT * FROM kernel")
    ask(capfd, "query", path, "--table", "kernel", "--top", 3)
    for more in (
        ("--plain",),
        ("--width", 40, "--ascii"),
        ("--list",),
        ("--list", "-n", 3, "--kind", "kernel", "--csv"),
    ):
        ask(capfd, "view", path, *more)


@pytest.mark.parametrize("case", _TRACES)
def test_files(traces: dict[str, Path], case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, out = traces[case], tmp_path / "out"
    ask(capfd, "report", path, "-f", "-o", out)
    for weight in WEIGHTS if case in _CASES else ("time",):
        ask(capfd, "flame", path, "-w", weight, "--to", "folded", "-f", "-o", out)
    for form in ("html", "svg", "speedscope") if case in _CASES else ("html",):
        ask(capfd, "flame", path, "--by", "rank", "--to", form, "-f", "-o", out)
    ask(capfd, "flame", path, "--diff", traces[_WHOLE], "--to", "html", "-f", "-o", out)
    for form in EXPORTERS if case in _CASES else _DISTINCT:
        ask(capfd, "export", path, "--to", form, "--process", 0, "-f", "-o", out)
    ask(capfd, "sass", "query", path)


@pytest.mark.parametrize("case", _TRACES)
def test_agents(traces: dict[str, Path], case: str) -> None:
    path = traces[case]
    places = Places([path.parent])
    tools = Tools(places)
    tools.info(path.name)
    tools.analyze(path.name)
    tools.stats(path.name)
    tools.query(path.name, "SELECT * FROM kernel")
    tools.flame(path.name)
    tools.diff(path.name, traces[_WHOLE].name)
    places.close()


def test_a_row_that_ends_before_it_begins_has_no_length_in_any_export(
    traces: dict[str, Path], tmp_path: Path
) -> None:
    import json

    out = tmp_path / "t.json"
    assert parser.run(["export", str(traces["clock backwards"]), "--to", "chrome", "-o", str(out)]) == 0
    lengths = [e["dur"] for e in json.loads(out.read_text())["traceEvents"] if "dur" in e]
    assert lengths and min(lengths) == 0
