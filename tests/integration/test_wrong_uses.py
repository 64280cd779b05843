"""Sixty wrong uses: each ends with one message that says what to do, the right exit code and no traceback, in a C locale too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight import _native
from warpsight.model import TraceWriter
from warpsight.model.sharing.pack import pack

_FAILED, _USAGE = 1, 2
#: The command line, T standing for a trace, P for a packed one, and what the message says; spaces in words do not break.
_USES = {
    _USAGE: {
        "recrod -- true": "did you mean record",
        "train.py": "train.py is a program; record it: warpsight record -- python train.py",
        "stast T": "did you mean stats",
        "help recrod": "did you mean record",
        "stats": "Missing argument",
        "stats T kernelz": "did you mean kernels?",
        "stats T --from yesterday": "write 1.5s, 200ms, 12us or 800ns",
        "stats T --from 5s --until 1s": "the time window is empty",
        "analyze T --from 5s --until 1s": "the time window is empty",
        "report T --from 5s --until 5s": "the time window is empty",
        "stats T --device 99": "the trace has 0",
        "analyze T --device 7": "the trace has 0",
        "stats T --stream 99": "there is no stream 99; the trace has 7",
        "analyze T --stream 99": "the trace has 7",
        "analyze T --process 4711": "the trace has 0",
        "flame T --process 4711": "the trace has 0",
        "view T --list --name (": "not a regular expression",
        "flame T --name (": "not a regular expression",
        "stats T --name a(?=b)": "not a regular expression",
        "query T --top many": "'many' is not a whole number",
        "record --delay soon -- true": "--delay",
        "analyze T --sarif --json": "leave out --json",
        "stats T --csv --json": "exclude each other",
        "stats T --by stac": "did you mean stack",
        "stats T --by kernal": "name, shape, stack",
        "stats T --names shortish": "did you mean short?",
        "stats T --jsn": "did you mean --json?",
        "stats T --sort total": "No such option: --sort\n",
        "mcp --port 80": "No such option: --port\n",
        "help race chekc": "Did you mean 'check'?",
        "help record check": "record has no verbs below it",
        "stats T -n many": "'many' is not a whole number",
        "stats T kernels memcpy": "unexpected extra argument(s) (memcpy)",
        "query T SELECT\xa0*\xa0FROM\xa0kernels": 'kernels does not exist; Did you mean "kernel"?',
        "query T DROP\xa0TABLE\xa0kernel": "a trace can only be read",
        "analyze T --from 5 --until 5": "the time window is empty",
        "open T --port 99999": "not in the range 0<=x<=65535",
        "stats T --from 100s": "the recording ends at 0.000000s",
        "analyze T --from 1h": "nothing was recorded from 1h on",
        "view T --from 1h --until 2h": "nothing was recorded from 1h on",
        "report T --from 20s": "nothing was recorded from 20s on",
        "flame T --to svg -o x.png": "x.png is the name of a file of form png, and --to says svg",
        "report P -o P -f": "P.warp.zip is what this command reads; choose another name with -o",
        "stats P -o ./P.warp.zip -f": "choose another name with -o",
        "export P --to chrome -o P -f": "choose another name with -o",
        "record --kernels -- true": "'--kernels' requires an argument",
        "record -o -- true": "'--output' requires an argument",
        "query T SELECT\xa0sum(name)\xa0FROM\xa0kernel": "No function matches",
        "query T SELECT\xa0duration::DATE\xa0FROM\xa0kernel": "SQL: ",
        "query T SELEC": "syntax error",
        "query T --table kernels": "did you mean kernel?",
        "query T --filter durration>5": "did you mean duration",
        "query T --filter name~(": "regular expression",
        "query T --filter duration": "is not a filter",
        "query T --fields nme": "did you mean name",
        "query T --group-by kernl": "columns: start",
        "query T --head -3": "not in the range",
        "view T --list -n 99999999999999999999": "too large a number",
        "stats T --top 9223372036854775808": "too large a number",
        "query T --format xlsx": "table, csv, json",
        "query T -o x.html": "no format has such a name: end it with .txt, .csv",
        "query T -o x.csv --format json": "x.csv is the name of a file of format csv, and --format says json; leave one out",
        "query T --json -o x.csv": "leave one out",
        "query T -o x.csv.gz --compress zstd": "packed with gzip, and --compress says zstd; leave one out",
        "sass query T -o x.parquet": "end it with .txt, .csv",
        "stats T -o x.csv": "add --csv, or choose a name that ends in .txt",
        "info T -o x.csv": "x.csv: this is text, not a .csv file: choose a name that ends in .txt",
        "info T -o x.json": "add --json, or choose a name that ends in .txt",
        "analyze T -o x.parquet": "this is text, not a .parquet file",
        "sass list pipe": "write what comes out of it to a file first",
        "query T --format parket": "did you mean parquet?",
        "export T --to perfeto": "did you mean perfetto?",
        "export T --to csv -o x.parquet": "choose --to parquet",
        "export T --to perfetto -o x.json": "choose --to chrome",
        "export T --to": "'--to' requires an argument",
        "stats kernels": "name a trace before it: warpsight stats TRACE kernels",
        "flame T -o x.pdf": "use the suffix .html, .svg",
        "export T --to kineto -o x.json.gz": "ending in .zst",
        "export T --kind kernels": "did you mean kernel?",
        "export T --from 2s --until 1s": "window is empty",
        "flame T --weight hours": "time, launches",
        "flame T --weight tme": "did you mean time",
        "flame T --to bmp": "html, svg, png",
        "flame T --level stak": "did you mean stack?",
        "flame T --rank 7": "has no rank 7",
        "flame T --iteration 100000": "iteration",
        "view T --width 10": "not in the range",
        "view T --kind kernel": "belongs to --list",
        "view T --list --kind kernal": "did you mean kernel",
        "open T --port 99999999": "not in the range",
        "analyze T iteratoins": "did you mean iterations",
        "analyze T --form json": "No such option",
        "diff T": "two sides",
        "simulate T --speed fast": "No such option",
        "record": "for example: warpsight record",
        "record --stack-depth many -- true": "whole number",
        "record --stacks pyhton -- true": "did you mean python?",
        "record --sample -5 -- true": "from 0 to 10,000",
        "record --backend cudda -- true": "did you mean cuda?",
        "attach": "Missing argument",
        "attach notapid": "not a whole number",
        "trigger nothing.warp": "neither a process id nor",
        "merge nothing.json": "Missing option",
        "sass lst T": "Did you mean 'list'?",
        "devices --jsn": "--json",
        "bench --launches -1": "not in the range",
        "watch": "for example: warpsight watch",
        "doctor --selftst": "--selftest",
        "version --x": "No such option",
    },
    _FAILED: {
        "report nothing.warp": "does not exist",
        "open nothing.warp": "does not exist",
        "diff T nothing.warp": "does not exist",
        "pack nothing.warp": "does not exist",
        "report T -o missing/x.html": "cannot be written",
        "report T -o t.warp/x.html": "x.html is in the trace t.warp, which holds its own files only: choose another folder",
        "pack T -o t.warp/x.warp.zip": "choose another folder",
        "merge -c pipe -g T": "pipe: is a pipe, a socket or a device: write what comes out of it to a file first",
        "merge --compat -c pipe -g plain.txt": "write what comes out of it to a file first",
        "merge --compat -c plain.txt -g /dev/zero": "write what comes out of it to a file first",
        "pack pipe": "write what comes out of it to a file first",
        "pack --unpack pipe": "write what comes out of it to a file first",
        "sass disasm pipe": "write what comes out of it to a file first",
        "cluster analyze pipe": "warpsight: pipe: is a pipe",
        "import nothing.json": "no such file",
        "core nothing.core": "No such file",
        "core plain.txt": "not a GPU core dump; take one with: warpsight watch --on-hang dump -- PROGRAM",
        "core P": "not a GPU core dump",
        "import P": "is a warpsight trace already",
        "capsule show plain.txt": "make one with: warpsight capsule record -- PROGRAM",
        "capsule export nothing.capsule": "does not exist; make one with",
        "record -o plain.txt -- true": "exists and is not a trace; remove it or choose another name with -o",
        "record -f -o plain.txt -- true": "exists and is not a trace; remove it or choose another name with -o",
        "record -o t.warp/x.warp -- true": "x.warp is in the trace t.warp, which holds its own files only",
        "attach 99999999": "no process 99999999",
        "sass list T nokernel": "record with",
        "import T": "is a warpsight trace already",
        "analyze loop": "is a symbolic link to itself",
        "analyze empty.json": "is empty",
        "dump 99999999": "there is no process 99999999",
        "top T": "warpsight info t.warp describes a finished recording",
    },
    126: {
        "record -- ./train.py": "./train.py: cannot be run: permission denied; write python ./train.py",
        "record -- ./plain.txt": "permission denied; chmod +x ./plain.txt",
    },
}
#: One process for all: each line of its input is a command line, each line of its answer exit code and message.
_DRIVER = """
import contextlib, io, json, sys
from warpsight.ui.cli.app import main
for line in sys.stdin:
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(json.loads(line))
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, told.getvalue()]), flush=True)
"""


def _library() -> dict[str, str]:
    """Where the recorder of the installed package is, which the sources have not."""
    path = _native.library_path()
    return {_native.ENVIRONMENT: str(path)} if path else {}


@pytest.fixture(scope="module", params=["C", "C.UTF-8"])
def answers(request, tmp_path_factory):
    """Exit code and message of every use."""
    folder = tmp_path_factory.mktemp("wrong")
    with TraceWriter(folder / "t.warp") as writer:
        row = {
            "start": 5,
            "duration": 7,
            "name_id": writer.name("only"),
            "device": 0,
            "context": 1,
            "stream": 7,
            "process": 0,
        }
        writer.add("kernel", [{**row, "graph_level": False}])
        writer.add("device", [{"device": 0, "index": 0, "uuid": "GPU-0", "name": "NVIDIA H200", "vendor": "NVIDIA",
                               "platform": "cuda"}])  # fmt: skip
        writer.describe()
    (folder / "plain.txt").write_text("hello\n")
    (folder / "train.py").write_text("")
    (folder / "empty.json").write_text("")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    pack(folder / "t.warp", folder / "P.warp.zip")
    uses = [use for group in _USES.values() for use in group]
    stands_for = {"T": "t.warp", "P": "P.warp.zip"}
    lines = [
        json.dumps([stands_for.get(word, word).replace("\xa0", " ") for word in use.split(" ")])
        for use in uses
    ]
    source = str(Path(__file__).resolve().parents[2] / "src")
    environ = {**os.environ, "LC_ALL": request.param, "PYTHONPATH": source, **_library()}
    done = subprocess.run([sys.executable, "-c", _DRIVER], input="\n".join(lines), capture_output=True, text=True, cwd=folder,
                          env=environ, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(uses, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize(
    ("code", "use", "said"), [(code, use, said) for code, uses in _USES.items() for use, said in uses.items()]
)
def test_a_wrong_use_is_told_with_its_remedy(answers, code, use, said):
    ended, message = answers[use]
    assert (ended, said in message) == (code, True), message
    assert message.startswith("warpsight: ") and "Traceback" not in message
    assert len(message.splitlines()) <= (4 if "SELEC" in use else 2)


@pytest.mark.parametrize(
    "verb", [["info"], ["report"], ["core"], ["sass", "list"], ["cluster", "analyze"]], ids=" ".join
)
def test_a_line_end_in_a_name_does_not_break_the_message(verb, tmp_path):
    source = str(Path(__file__).resolve().parents[2] / "src")
    command = [sys.executable, "-m", "warpsight", *verb, "no\nsuch.warp"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": source}, timeout=120)  # fmt: skip
    assert done.returncode in (_FAILED, _USAGE) and len(done.stderr.splitlines()) == 1
    assert "no\\nsuch.warp" in done.stderr


def test_a_script_beside_the_reader_is_run_with_its_interpreter(tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "a.out").write_bytes(b"")
    source = str(Path(__file__).resolve().parents[2] / "src")
    for program, how in (("train.py", "python train.py"), ("a.out", "./a.out"), ("nothing", "")):
        command = [
            sys.executable,
            "-c",
            f"from warpsight.recorder.launch import check_runnable as c; c({program!r})",
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": source}, timeout=120)  # fmt: skip
        assert done.stderr.rstrip().endswith(f"{program}: not found" + (f"; write {how}" if how else ""))
