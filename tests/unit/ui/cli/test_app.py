import importlib
import inspect
import json
import re
import subprocess
import sys

import pytest

from warpsight.device_code import disassembly
from warpsight.ui.cli import app, parser


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_a_command_whose_help_begins_with_its_summary(verb):
    command = importlib.import_module(app.module_of(verb)).command
    assert inspect.getdoc(command).splitlines()[0] == app.VERBS[verb].summary


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_explains_its_options(verb, capsys):
    assert app.main(["help", verb]) == 0
    text = capsys.readouterr().out
    assert app.VERBS[verb].summary in " ".join(text.split())


def test_the_overview_lists_every_verb(capsys):
    assert app.main(["--help"]) == 0
    text = capsys.readouterr().out
    joined = " ".join(text.split())
    assert all(f"  {name} " in text and verb.summary in joined for name, verb in app.VERBS.items())


@pytest.mark.parametrize("columns", [80, 120])
def test_the_overview_keeps_to_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.main(["--help"]) == 0
    assert 70 < max(map(len, capsys.readouterr().out.splitlines())) <= columns


@pytest.mark.parametrize(("columns", "most"), [(80, 80), (120, 100)])
def test_the_help_of_a_verb_takes_the_room_there_is_up_to_100_columns(capsys, monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.main(["help", "record"]) == 0
    assert most - 8 < max(map(len, capsys.readouterr().out.splitlines())) <= most


@pytest.mark.parametrize("verb", app.VERBS)
def test_the_usage_line_has_words_and_brackets_alone(verb, capsys):
    assert app.main(["help", verb]) == 0
    usage = capsys.readouterr().out.splitlines()[0]
    assert usage.startswith(f"Usage: warpsight {verb} [OPTIONS]")
    assert not set("{}") & set(usage)
    assert not re.search(r"[a-z]", usage.split("[OPTIONS]")[1])


def modules_after(*words):
    """Modules that a command line has loaded when it ends."""
    code = f"import sys; from warpsight.ui.cli.app import main; main({list(words)}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_and_version_need_no_library(words):
    assert not {"typer", "click", "rich", "pyarrow", "duckdb", "numpy"} & modules_after(*words)


@pytest.mark.parametrize("verb", app.VERBS)
def test_a_verb_loads_what_it_needs_when_it_runs(verb):
    assert not {"pydantic", "pyarrow", "duckdb", "numpy", "jinja2"} & modules_after(verb, "--help")


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        (["stats", "x", "--no-color"], ["--no-color", "stats", "x"]),
        (["-v", "query", "x", "-q"], ["-v", "-q", "query", "x"]),
        (["record", "--", "prog", "-v"], ["record", "--", "prog", "-v"]),
        (["query", "x", "--", "-v"], ["query", "x", "--", "-v"]),
    ],
)
def test_global_options_may_follow_the_verb(given, moved):
    assert app.hoisted(given) == moved


def test_a_mistyped_verb_is_recognised(capsys):
    assert app.main(["statz", "x"]) == 2
    assert "did you mean stats" in capsys.readouterr().err


def test_a_mistyped_option_is_recognised(capsys):
    assert app.main(["stats", "x", "--lateny"]) == 2
    assert "--latency" in capsys.readouterr().err


def test_an_unexpected_error_is_one_message_and_a_traceback_only_when_asked(capsys, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("warpsight.api.trace.open", broken)
    assert app.main(["info", "x"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert app.main(["-v", "info", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_completion_knows_verbs_without_running_them():
    group = parser.application()
    assert list(group.list_commands(None)) == list(app.VERBS)


def test_a_query_that_ctrl_c_interrupts_is_no_internal_error(monkeypatch, capsys):
    def interrupted():
        """Show versions of warpsight, its parts and its libraries."""
        raise RuntimeError("Query interrupted")  # what DuckDB makes of SIGINT

    monkeypatch.setattr("warpsight.ui.cli.version.command", interrupted)
    assert app.main(["version"]) == app.EXIT_INTERRUPTED
    assert capsys.readouterr().err == ""


def test_the_version_names_parts_libraries_and_programs_that_were_found(tmp_path, monkeypatch, capsys):
    program, library = tmp_path / "nsys", tmp_path / "libwarpsight.so"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    library.touch()
    (tmp_path / "libwarpsight_preload.so").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("WARPSIGHT_LIBRARY", str(library))
    monkeypatch.setenv("WARPSIGHT_CUPTI", str(tmp_path / "libcupti.so.12"))
    disassembly.find_tool.cache_clear()
    try:
        assert app.main(["version", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert app.main(["--version"]) == 0
        lines = capsys.readouterr().out.splitlines()
    finally:
        disassembly.find_tool.cache_clear()
    assert found["parts"] == ["libwarpsight.so", "libwarpsight_preload.so"]
    assert found["system"]["nsys"] == str(program)
    assert found["system"]["CUPTI"].startswith(str(tmp_path / "libcupti.so.12"))
    assert found["system"]["bpftrace"] is None
    assert "parts: libwarpsight.so, libwarpsight_preload.so" in lines
    assert f"nsys: {program}" in lines
    assert lines[-1].startswith("not found: ")
    assert "bpftrace" in lines[-1]
