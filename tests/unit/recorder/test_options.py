"""The table of options, and everything that is made from it."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import warpsight as ws
from warpsight.errors import UsageError
from warpsight.recorder.options import table as options
from warpsight.recorder.options import types as option_types
from warpsight.recorder.options import values as option_values
from warpsight.recorder.options.settings import Settings
from warpsight.ui.cli import parser

ROOT = Path(__file__).parents[3]
ROWS = (*options.OPTIONS, *options.VARIABLES)


def test_no_two_options_share_a_name_a_flag_or_a_variable() -> None:
    names = Counter(row.name for row in ROWS)
    flags = Counter(flag for row in options.OPTIONS for flag in row.spelled)
    variables = Counter(row.environment for row in ROWS if row.environment)
    assert [found for counter in (names, flags, variables) for found in counter if counter[found] > 1] == []


@pytest.mark.parametrize("row", options.OPTIONS, ids=lambda row: str(row.name))
def test_a_default_is_a_value_that_the_option_takes(row: options.Option) -> None:
    if row.default is not None:
        assert option_values.of_value(row, row.default) == row.default
    assert row.group in options.GROUPS and row.help.endswith(".")


def test_the_command_line_has_every_option() -> None:
    command = parser.verb_command("record")
    given = {flag for parameter in command.params for flag in parameter.opts}
    assert {flag for row in options.OPTIONS for flag in row.spelled} <= given


def test_keywords_in_python_are_the_options_of_a_recording() -> None:
    for function, scopes in (
        (ws.record, (options.RECORDING,)),
        (ws.start, (options.RECORDING,)),
        (ws.run, (options.RECORDING, options.VENDOR)),
    ):
        shown = inspect.signature(function).parameters
        for row in options.of_scope(*scopes):
            assert shown[row.name].default == row.default, (function, row.name)
            assert row.help in (function.__doc__ or "") or function is ws.start


def test_generated_types_are_current() -> None:
    made = runpy.run_path(str(ROOT / "scripts/generate_option_types.py"))["text"]()
    there = Path(option_types.__file__).read_text(encoding="utf-8")
    assert there == made, "run: python scripts/generate_option_types.py"


def test_the_page_of_options_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs/reference/generate_options.py"))
    hint = "run: python docs/reference/generate_options.py"
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), hint


def test_the_recorder_reads_the_variables_that_are_sent_to_it(tmp_path: Path) -> None:
    generator = ROOT / "native/runtime/generate_settings.py"
    subprocess.run([sys.executable, generator, options.__file__, tmp_path], check=True)
    table = (tmp_path / "settings_table.h").read_text(encoding="utf-8")
    read = set(re.findall(r'read_\w+\("(\w+)"', table))
    sent = set(Settings().variables())
    assert sent <= read
    assert read - sent == {"WARPSIGHT", "WARPSIGHT_SOCKET", "WARPSIGHT_VERBOSE"}


@pytest.mark.parametrize(("row", "text", "value"), [
    ("cubins", "yes", True), ("cubins", "0", False), ("cubins", "n", False),
    ("sample", "off", 0.0), ("sample", "2.5", 2.5), ("flush", "50", 50),
    ("trace", "kernel, memcpy", ("kernel", "memcpy")), ("kernels", "a b\nc", ("a b", "c")), ("triggers", "crash,nccl",
    ("crash", "nccl")), ("path", "a b.warp", Path("a b.warp")), ("counters", "off", "off"),
    ("ranges", "nvtx, xla", ("nvtx", "xla")),
])  # fmt: skip
def test_texts_of_the_command_line_and_of_variables(row: str, text: str, value: object) -> None:
    assert option_values.of_text(options.BY_NAME[row], text) == value


@pytest.mark.parametrize(("row", "value"), [
    ("cubins", True), ("sample", 0.0), ("stacks", "both"), ("kernels", ("gemm*", "a,b")), ("trace", ("kernel", "sync")),
    ("max_size", 20), ("api", "cudaMemcpy*"), ("triggers", ("crash", "hang=5")), ("backend_args", "--own='a b'"),
])  # fmt: skip
def test_a_value_spelled_for_the_command_line_is_read_as_the_same_value(row: str, value: object) -> None:
    option = options.BY_NAME[row]
    texts = [argument.partition("=")[2] for argument in option_values.spelled(option, value)]
    if option.type == options.SWITCH:
        assert option_values.spelled(option, value) == [option.flag]
    elif option.type == options.TEXTS:
        assert option_values.of_texts(option, texts) == value
    else:
        assert option_values.of_text(option, texts[0]) == value


@pytest.mark.parametrize(("row", "text", "hint"), [
    ("stacks", "pyton", "did you mean python?"), ("cubins", "maybe", "on or off"), ("flush", "5", "from 10 to 60,000"),
    ("flush", "20.5", "whole number"), ("trace", "kernl", "did you mean kernel?"), ("backend", "rcom", "did you mean rocm?"),
    ("sample", "often", "or off"),
])  # fmt: skip
def test_a_value_that_no_option_takes_is_refused_with_what_it_takes(row: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        option_values.of_text(options.BY_NAME[row], text)
