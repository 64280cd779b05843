"""`warpsight import` as users run it: real processes, exit codes, messages, files."""

import gzip
import json
import os
import resource
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "formats"
KINETO = GOLDEN / "kineto" / "every_kind.json"


def warpsight(*arguments, cwd, file_bytes=resource.RLIM_INFINITY):
    """Run a verb; `file_bytes` bounds every file that it writes, as a full disk would."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False, cwd=cwd,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)),
    )  # fmt: skip


def test_a_file_becomes_a_private_trace_that_verbs_read(tmp_path):
    (tmp_path / "model.pt.trace.json.gz").write_bytes(gzip.compress(KINETO.read_bytes()))
    done = warpsight("import", "model.pt.trace.json.gz", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == ""
    assert "model.pt.trace.json.gz: kineto" in done.stderr and "3 kernel" in done.stderr
    made = tmp_path / "model.pt.trace.warp"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    info = warpsight("info", made, "--json", cwd=tmp_path)
    assert info.returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pt.trace.json.gz", "model.pt.trace.warp"]
    stats = json.loads(warpsight("stats", made, "kernels", "--json", cwd=tmp_path).stdout)
    again = json.loads(warpsight("stats", "model.pt.trace.json.gz", "kernels", "--json", cwd=tmp_path).stdout)
    assert stats["tables"] == again["tables"] and len(stats["tables"]["kernels"]["rows"]) == 3


def test_json_matches_its_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    (tmp_path / "cut.json").write_bytes(KINETO.read_bytes()[:-300])
    done = warpsight("import", KINETO, "cut.json", "-o", "two.warp", "--json", "-q", cwd=tmp_path)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "import.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(told, schema)
    assert [f["damage"] is None for f in told["files"]] == [True, False]
    assert told["rows"]["kernel"] == 6
    assert "incomplete: 1 lost" in done.stderr


def test_several_files_are_several_ranks(tmp_path):
    for rank in (0, 1):
        text = KINETO.read_text().replace('"rank": 3', f'"rank": {rank}')
        (tmp_path / f"rank{rank}.json").write_text(text)
    assert warpsight("import", "rank0.json", "rank1.json", "-o", "job.warp", cwd=tmp_path).returncode == 0
    sql = "SELECT rank, count(*) FROM kernel JOIN process USING (process) GROUP BY rank ORDER BY rank"
    rows = json.loads(warpsight("query", "job.warp", sql, "--format", "json", cwd=tmp_path).stdout)
    assert [tuple(row.values()) for row in (rows["rows"] if isinstance(rows, dict) else rows)] == [
        (0, 3),
        (1, 3),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "there is nothing to import"),
        (("missing.json",), 1, "missing.json: there is no such file"),
        (("junk",), 1, "junk: "),
        (("junk", "--from", "kineto"), 1, "junk, byte 0: is not a JSON object or array of trace events"),
        (("junk", "--from", "nope"), 2, "there is no format 'nope' to read; formats: "),
        ((KINETO, "--option", "a=b"), 2, "format kineto has no option 'a'; options: none"),
        ((KINETO, "--option", "a"), 2, "is not KEY=VALUE"),
        ((KINETO, "-o", "taken.warp"), 1, "taken.warp exists already; -f replaces it"),
        ((KINETO, "-o", "taken.warp", "-f"), 1, "taken.warp exists and is not a trace; it is left alone"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(tmp_path, arguments, code, message):
    (tmp_path / "junk").write_bytes(b"\x01\x02 neither this nor that")
    (tmp_path / "taken.warp").mkdir()
    done = warpsight("import", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["junk", "taken.warp"]


def test_a_part_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path):
    done = warpsight("import", KINETO, "-o", "t.warp", cwd=tmp_path, file_bytes=1000)
    assert done.returncode == 1
    assert "File too large" in done.stderr and "table=" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_formats_are_listed(tmp_path):
    done = warpsight("import", "--formats", cwd=tmp_path)
    assert done.returncode == 0
    assert {"kineto", "chrome", "perfetto", "nsys"} <= {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("form", ["perfetto", "chrome", "kineto"])
def test_exports_of_an_import_are_recognised_as_what_they_are(tmp_path, form):
    assert warpsight("export", KINETO, "--to", form, "-o", "out", cwd=tmp_path).returncode == 0
    told = json.loads(warpsight("import", "out", "-o", "back.warp", "--json", cwd=tmp_path).stdout)
    assert told["files"][0]["format"] == form
    assert told["rows"]["kernel"] == 3 and told["rows"]["launch"] == 3


def test_an_export_never_overwrites_what_it_reads(tmp_path):
    (tmp_path / "t.json").write_bytes(KINETO.read_bytes())
    done = warpsight("export", "t.json", "--to", "chrome", "-f", cwd=tmp_path)
    assert done.returncode == 2 and "is the input" in done.stderr
    assert (tmp_path / "t.json").read_bytes() == KINETO.read_bytes()
