import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.device_code import disassembly
from warpsight.errors import UsageError
from warpsight.ui.cli import app, examples, parser
from warpsight.ui.cli.options import newest

GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_a_command_whose_help_begins_with_its_summary(verb):
    command = importlib.import_module(app.module_of(verb)).command
    assert inspect.getdoc(command).splitlines()[0] == app.VERBS[verb].summary


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_explains_its_options(verb, capsys):
    assert app.main(["help", verb]) == 0
    text = capsys.readouterr().out
    assert app.VERBS[verb].summary in " ".join(text.split())


def test_the_overview_has_the_common_verbs_and_says_how_to_see_the_others(capsys):
    assert app.main(["--help"]) == 0
    text = capsys.readouterr().out
    common = [name for name, verb in app.VERBS.items() if verb.common]
    listed = [
        line.split()[0]
        for line in text.partition("Verbs:")[2].partition("…")[0].splitlines()
        if line[:3].strip()
    ]
    assert sorted(listed) == sorted(common)
    assert f"{len(app.VERBS) - len(common)} more: warpsight help --all" in text


@pytest.mark.parametrize("words", [["help", "--all"], ["--help", "--all"]])
def test_every_verb_is_listed_on_request(words, capsys):
    assert app.main(words) == 0
    text = capsys.readouterr().out
    joined = " ".join(text.split())
    assert all(f"  {name} " in text and verb.summary in joined for name, verb in app.VERBS.items())


@pytest.mark.parametrize(
    ("verb", "line"), [(v, c) for v, listed in examples.EXAMPLES.items() for c, _ in listed]
)
def test_every_example_of_a_help_is_a_command_line_that_parses(verb, line):
    words = shlex.split(line.partition(" && ")[0].replace("$(pgrep -f train.py)", "4242"))[1:]
    assert words[: len(verb.split())] == verb.split() or verb in ("recover", "version", "help")
    if words[0] not in app.VERBS:  # `warpsight --version` has no verb
        return
    command, rest = parser.verb_command(words[0]), words[1:]
    if " " in verb:
        command, rest = command.get_command(command.make_context(words[0], list(rest)), words[1]), words[2:]
    command.make_context(words[-1], rest).close()


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_two_examples(verb, capsys):
    if hasattr(importlib.import_module(app.module_of(verb)), "BELOW"):
        return
    assert app.main(["help", verb]) == 0
    text = capsys.readouterr().out.partition("Examples:")[2]
    assert all(line in text for line, _ in examples.EXAMPLES[verb])
    assert len(examples.EXAMPLES[verb]) >= 2


def test_a_path_where_a_verb_should_be_is_opened(tmp_path, capsys):
    path = tmp_path / "not.warp"
    path.write_text("neither a trace nor anything else")
    assert app.main([str(path)]) == 1
    assert "not.warp" in capsys.readouterr().err
    assert app.main([str(tmp_path / "missing.warp")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_open_takes_the_newest_trace_of_a_folder(tmp_path):
    with pytest.raises(UsageError, match="there is no trace in"):
        newest(tmp_path)
    for time, name in ((2, "old.warp"), (9, "new.warp"), (5, "middle.warp")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
        os.utime(tmp_path / name / "manifest.json", (time, time))
    assert newest(tmp_path) == tmp_path / "new.warp"
    (tmp_path / "packed.warp.zip").write_bytes(b"")
    assert newest(tmp_path) == tmp_path / "packed.warp.zip"


@pytest.mark.parametrize("verb", ["analyze", "flame", "info", "report", "view"])
def test_looking_needs_no_name_where_a_trace_is(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert app.main([verb]) == 2
    assert "there is no trace in" in capsys.readouterr().err
    shutil.copy(GOLDEN / "planted_slow_step.warp.zip", tmp_path / "slow.warp.zip")
    assert app.main([verb]) == 0
    assert capsys.readouterr().err.startswith("slow.warp.zip, the newest trace here:\n")


@pytest.mark.parametrize(("word", "verb"), [("profile", "record"), ("show", "open"), ("flamegraph", "flame")])
def test_words_of_other_tools_lead_to_the_verb(word, verb, capsys):
    assert app.main([word, "train.py"]) == 2
    assert f"did you mean {verb}?" in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "least"), [(40, 36), (60, 50), (80, 70), (120, 70)])
@pytest.mark.parametrize("words", [["--help"], ["help", "--all"]], ids=" ".join)
def test_the_overview_keeps_to_the_terminal(capsys, monkeypatch, columns, least, words):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.main(words) == 0
    assert least < max(map(len, capsys.readouterr().out.splitlines())) <= columns


@pytest.mark.parametrize(("columns", "most"), [(80, 80), (120, 100)])
def test_the_help_of_a_verb_takes_the_room_there_is_up_to_100_columns(capsys, monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.main(["help", "record"]) == 0
    assert most - 8 < max(map(len, capsys.readouterr().out.splitlines())) <= most


@pytest.mark.parametrize("verb", ["record", "flame", "query", "watch"])
def test_options_and_their_texts_fit_a_terminal_of_40_columns(capsys, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "40")
    assert app.main(["help", verb]) == 0
    text = capsys.readouterr().out
    options = text[text.index("  -o, --output" if "  -o, --output" in text else "Options:") :].partition(
        "\n  Examples:"
    )[0]
    assert [line for line in options.splitlines() if len(line) > 40] == []


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

    monkeypatch.setattr("warpsight.ui.cli.about.version.command", interrupted)
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


@pytest.mark.parametrize("verb", ["open", "top", "info", "doctor", "cluster"])
def test_help_fits_a_narrow_terminal(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert app.main([verb, "--help"]) == 0
    told = capsys.readouterr().out.partition("\n  Examples:")[0].splitlines()
    words = [line for line in told if " " in line.strip()]  # a long word alone cannot be broken
    assert (
        max(map(len, (line for line in words if not line.startswith(("Usage", "       ", "`")))), default=0)
        <= 40
    )


@pytest.mark.parametrize("group", ["sass", "race", "cluster", "capsule"])
def test_a_group_lists_its_verbs_with_whole_sentences(group, capsys):
    module = importlib.import_module(app.module_of(group))
    assert app.main([group, "--help"]) == 0
    text = capsys.readouterr().out
    assert "..." not in text.partition("Options:")[2]
    joined = " ".join(text.replace("-\n", "-").split())
    for place in parser.places_below(module).values():
        told = " ".join(inspect.getdoc(importlib.import_module(place).command).split("\n\n")[0].split())
        assert told.replace("- ", "-") in joined.replace("- ", "-")
    headings = dict.fromkeys(module.BELOW.values()) if isinstance(module.BELOW, dict) else ["Commands"]
    places = [text.index(f"\n{heading}:\n") for heading in headings]
    assert places == sorted(places)


@pytest.mark.parametrize("chosen", ["", "mimalloc"])
def test_reading_commands_decode_into_the_memory_that_numpy_uses(chosen):
    """Unless the user's environment chooses another pool; a library's user never gets one from us."""
    program = """if True:
        import sys
        from warpsight.ui.cli import app
        app._own_process([sys.argv[1], "t.warp"])
        import pyarrow
        print(pyarrow.default_memory_pool().backend_name)
    """
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if chosen:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = chosen

    def pool(verb):
        command = [sys.executable, "-c", program, verb]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert pool("analyze") == (chosen or "system")
    assert pool("open") != "system"
