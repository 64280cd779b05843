"""The command line as users run it: real processes, exit codes, messages, files."""

import json
import os
import shlex
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.model import TraceWriter

SOURCE = Path(__file__).parents[2] / "src"


def warpsight(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **options.pop("env", {})}
    command = [sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False, **options
    )


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make(tmp_path_factory.mktemp("cli") / "t.warp", Plan(kernels=2_000))


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "incomplete.warp"
    with TraceWriter(path) as writer:
        writer.add(
            "loss", [{"source": "ring", "cause": "the ring was full", "count": 1234, "severity": "lost"}]
        )
        writer.add(
            "kernel",
            [
                {
                    "name_id": writer.name("k"),
                    "context": 1,
                    "stream": 7,
                    "process": 0,
                    "graph_level": False,
                    "start": 1,
                    "duration": 1,
                }
            ],
        )
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "nothing.warp"),
        ("info", "nothing.warp"),
        ("query", "nothing.warp"),
        ("export", "nothing.warp"),
    ],
)
def test_a_trace_that_is_not_there_is_one_line_and_exit_1(arguments, tmp_path):
    done = warpsight(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("nothing.warp does not exist\n")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("query", "T", "SELECT durration FROM kernel"), "did you mean duration"),
        (("query", "T", "SELECT * FROM read_csv('/etc/passwd')"), "/etc/passwd"),
        (("query", "T", "COPY kernel TO 'x'"), "only be read"),
        (("query", "T", "SELECT 1", "--filter", "a=1"), "SQL chooses its own rows"),
        (("query", "T", "--top", "1", "--tail", "1"), "use one of"),
        (("export", "T", "--to", "svg"), "formats: perfetto, chrome"),
        (("export", "T", "--to", "chrome", "--critical-path"), "Perfetto's format only"),
        (("export", "T", "--to", "chrome", "--findings"), "Perfetto's format only"),
        (("stats", "T", "ops", "--by", "stack"), "no grouping 'stack' of operators"),
    ],
)
def test_wrong_usage_is_a_message_and_exit_2(trace, arguments, message, tmp_path):
    done = warpsight(*(trace if a == "T" else a for a in arguments), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [("info", ("T",)), ("query", ("T", "--head", "2")), ("version", ())]
    + [
        ("stats", ("T", s))
        for s in (
            "kernels",
            "copies",
            "api",
            "launches",
            "nvtx",
            "events",
            "memory",
            "counters",
            "sync",
            "ops",
            "modules",
        )
    ]
    + [("export", ("T", "-o", "out", "--to", f)) for f in ("perfetto", "chrome")],
)
def test_json_matches_its_schema(trace, verb, arguments, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    done = warpsight(verb, *(trace if a == "T" else a for a in arguments), "--json", cwd=tmp_path)
    assert done.returncode == 0
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / f"{verb}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(done.stdout), schema)


def test_loss_is_told_by_every_reading_verb(incomplete, tmp_path):
    for arguments in (
        ("stats", incomplete),
        ("query", incomplete),
        ("export", incomplete, "-o", tmp_path / "e"),
    ):
        done = warpsight(*arguments, "-q")
        assert done.returncode == 0
        assert "incomplete: 1,234 lost in ring: the ring was full" in done.stderr
    assert "this trace is incomplete" in warpsight("info", incomplete).stdout


def test_strict_makes_loss_exit_3(incomplete, trace):
    assert warpsight("info", incomplete, "--strict").returncode == 3
    assert warpsight("info", trace, "--strict").returncode == 0


def test_loss_is_red_unless_colours_are_unwanted(incomplete):
    red = "\033[31m"
    assert red in warpsight("stats", incomplete, env={"FORCE_COLOR": "1"}).stderr
    assert red not in warpsight("stats", incomplete).stderr
    assert red not in warpsight("stats", incomplete, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stderr
    assert red not in warpsight("stats", incomplete, "--no-color", env={"FORCE_COLOR": "1"}).stderr


def test_files_are_private_and_existing_ones_are_kept(trace, tmp_path):
    out = tmp_path / "out.csv"
    assert warpsight("query", trace, "--format", "csv", "-o", out).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_text()
    done = warpsight("query", trace, "--count", "--format", "csv", "-o", out)
    assert (done.returncode, out.read_text()) == (1, before)
    assert "-f replaces it" in done.stderr
    assert warpsight("query", trace, "--count", "--format", "csv", "-o", out, "-f").returncode == 0
    assert out.read_text() == "count\n2000\n"


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@pytest.mark.parametrize("form", ["ndjson", "parquet", "arrow"])
def test_a_compressed_answer_goes_to_standard_output_whole(trace, tmp_path, how, form):
    """A compressor closes what it writes to when it ends; standard output stays open."""
    command = [sys.executable, "-m", "warpsight.ui.cli", "query", trace, "--all", "--fields", "name,duration"]
    command += ["--format", form, "--compress", how]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    plain = pa.CompressedInputStream(pa.BufferReader(done.stdout), how).read()
    if form == "ndjson":
        assert plain.count(b"\n") == 2000
    elif form == "parquet":
        assert pq.read_table(pa.BufferReader(plain)).num_rows == 2000
    else:
        assert pa.ipc.open_file(pa.BufferReader(plain)).read_all().num_rows == 2000


def test_a_link_is_replaced_not_followed(trace, tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("mine")
    link.symlink_to(precious)
    assert warpsight("query", trace, "--count", "-o", link).returncode == 1
    assert warpsight("query", trace, "--count", "-o", link, "-f").returncode == 0
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet", "arrow", "table"])
def test_every_output_holds_the_rows(trace, tmp_path, form, compress):
    out = tmp_path / "out"
    options = ["--head", "7", "--fields", "start,short", "--format", form, "--compress", compress]
    done = warpsight("query", trace, *options, "-o", out)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1) and done.stderr.startswith(f"{out}: ")
    import pyarrow as pa

    with pa.input_stream(str(out), compression=None if compress == "none" else compress) as stream:
        data = stream.read()
    rows = {
        "csv": lambda: data.decode().splitlines()[1:],
        "table": lambda: data.decode().splitlines()[1:],
        "json": lambda: json.loads(data)["rows"],
        "ndjson": lambda: [json.loads(line) for line in data.splitlines()],
        "parquet": lambda: pq.read_table(pa.BufferReader(data)).to_pylist(),
        "arrow": lambda: pa.ipc.open_file(data).read_all().to_pylist(),
    }[form]()
    assert len(rows) == 7


@pytest.mark.parametrize(
    ("filters", "sql"),
    [
        (["duration>=10us"], "duration >= 10000"),
        (["short~flash|nccl"], "regexp_matches(short, 'flash|nccl')"),
        (["stream=7|stream=8"], "stream IN (7, 8)"),
        (["duration=1us..5us", "stream!=7"], "duration BETWEEN 1000 AND 5000 AND stream <> 7"),
        (["graph="], "graph IS NULL"),
        (["short!~flash"], "NOT regexp_matches(short, 'flash')"),
        (["graph_level=false"], "NOT graph_level"),
    ],
)
def test_filters_mean_what_they_say(trace, filters, sql):
    given = [part for text in filters for part in ("--filter", text)]
    simple = warpsight("query", trace, *given, "--count", "--no-header").stdout.strip().replace(",", "")
    exact = (
        warpsight("query", trace, f"SELECT count(*) FROM kernel WHERE {sql}", "--no-header")
        .stdout.strip()
        .replace(",", "")
    )
    assert simple == exact


def test_a_reader_that_goes_away_ends_the_verb_quietly(trace):
    command = [sys.executable, "-m", "warpsight.ui.cli", "query", str(trace), "--all", "--format", "ndjson"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


READING = [["analyze", "TRACE"], ["stats", "TRACE", "--json"], ["export", "TRACE", "--to", "chrome", "-o", "-"], ["--help"],
           ["help", "record"], ["stats", "--help"], ["--version"], ["query", "TRACE", "SELECT * FROM kernel"]]  # fmt: skip


def redirected(how, arguments, trace):
    """A verb in a shell with a redirection; TRACE is the trace."""
    words = [sys.executable, "-m", "warpsight", *(str(trace) if a == "TRACE" else a for a in arguments)]
    return subprocess.run(["bash", "-c", f"{shlex.join(words)} {how}"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(SOURCE)})  # fmt: skip


@pytest.mark.parametrize("how", [">&-", ">/dev/full", ">&- 2>&-"])
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(how, arguments, trace):
    done = redirected(how, arguments, trace)
    assert (done.returncode, done.stdout) == (1, "")
    why = {">&-": "standard output is closed", ">/dev/full": "No space left on device"}.get(how)
    assert len(done.stderr.splitlines()) == 1 and why in done.stderr if why else not done.stderr


@pytest.mark.parametrize("how", ["<&-", "2>&-", "2>/dev/full"])
def test_a_result_needs_neither_input_nor_messages(how, trace):
    whole, done = (redirected(one, ["analyze", "TRACE"], trace) for one in ("", how))
    assert (done.returncode, done.stdout, done.stderr) == (0, whole.stdout, "")


def test_piped_tables_are_never_cut(trace):
    text = warpsight("stats", trace, env={"COLUMNS": "40"}).stdout
    longest = warpsight("query", trace, "SELECT max(length(demangled)) FROM kernel", "--no-header").stdout
    assert max(map(len, text.splitlines())) > int(longest)
    assert "…" not in text


def _from_a_removed_folder(folder, *arguments):
    gone = folder / "gone"
    gone.mkdir()
    command = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    return subprocess.run(
        ["sh", "-c", command, "sh", gone, sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_trace_is_read_from_a_folder_that_was_removed(trace, tmp_path):
    done = _from_a_removed_folder(tmp_path, "analyze", trace)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_recording_from_a_folder_that_was_removed_is_refused_with_the_remedy(tmp_path):
    done = _from_a_removed_folder(tmp_path, "record", "-o", tmp_path / "t.warp", "--", "true")
    assert done.returncode == 1
    assert done.stderr == (
        "warpsight: the working directory no longer exists; change to one that does: cd ~\n"
    )
    assert not (tmp_path / "t.warp").exists()
