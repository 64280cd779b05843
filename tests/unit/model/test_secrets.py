"""What counts as a secret, in texts, command lines, JSON and columns; and what does not."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

import warpsight
from tests.integration.secret_canaries import CANARIES, IN_NAMES, INNOCENT
from warpsight.model import TraceWriter
from warpsight.model.schema import TABLES
from warpsight.model.sharing import secrets
from warpsight.model.sharing.shared import shared

KINDS = [pytest.param(one, id=one.kind) for one in CANARIES]


@pytest.mark.parametrize("canary", KINDS)
def test_no_kind_of_secret_stays_in_a_command_line_or_text(canary) -> None:
    assert canary.secret not in secrets.secretless(canary.text)
    assert canary.secret not in secrets.secretless(f"begin {canary.text} end")
    assert canary.secret not in secrets.secretless(json.dumps({"note": canary.text}))
    assert canary.secret not in " ".join(secrets.arguments(["program", *canary.words, "--lr", "1"]))
    assert secrets.arguments(["program", *canary.words, "--lr", "1"])[-2:] == ["--lr", "1"]


@pytest.mark.parametrize(
    "words",
    [
        ["prog", "Bearer", "VSURRI6WhVrPcHmxznIGTt0EOl85iir4"], ["prog", "aws_secret_access_key", "=", "hunter2"],
        ["prog", "--password", "=", "hunter2"], ["curl", "Authorization:", "Bearer", "Xabcdef123456", "Bearer", "Yabcdef123456"],
    ],
)  # fmt: skip
def test_secrets_that_are_words_of_their_own_do_not_stay(words: list[str]) -> None:
    assert not {"VSURRI6WhVrPcHmxznIGTt0EOl85iir4", "hunter2", "Xabcdef123456", "Yabcdef123456"} & set(
        secrets.arguments(words)
    )
    kept = ["prog", "num_tokens", "=", "5", "Bearer", "of", "key", "=", "x"]
    assert secrets.arguments(kept) == kept


def test_shapes_are_what_a_file_says_that_they_are() -> None:
    """What is free loses its secrets when it is written; `Input Dims` of a Kineto file may be any text."""
    assert next(column for column in TABLES["op"].columns if column.name == "shapes").free


@pytest.mark.parametrize("canary", IN_NAMES, ids=lambda one: one.kind)
def test_nor_in_an_identifier(canary) -> None:
    assert canary.secret not in secrets.secretless(f"kernel_{canary.secret}")


@pytest.mark.parametrize("text", INNOCENT)
def test_other_texts_stay(text: str) -> None:
    assert secrets.shareable(text) == text
    assert secrets.arguments(["program", text]) == ["program", text]


def test_a_column_changes_only_where_it_must() -> None:
    plain = pa.chunked_array([["a", None, "b"], ["a"]])
    assert secrets.column("name", plain) is plain
    coded = pa.chunked_array([pa.array(["x", "token=abc123", None]).dictionary_encode()])
    assert secrets.column("name", coded).to_pylist() == ["x", "token=***", None]
    assert secrets.column("command", pa.array(["p -u me:x1", "p"])).to_pylist() == ["p -u me:***", "p"]


def test_a_trace_is_written_without_them(tmp_path) -> None:
    with TraceWriter(tmp_path / "x.warp") as writer:
        writer.add(
            "process",
            [
                {
                    "process": 0,
                    "pid": 1,
                    "host": "h",
                    "command": "p --password hunter22",
                    "executable": "p",
                    "start": 0,
                }
            ],
        )
        writer.describe(
            settings={
                "argv": ["--token", "abc123", "x"],
                "command": ["p", "--token", "abc123", "x"],
                "api_key": "abc123",
            }
        )
    text = (tmp_path / "x.warp" / "manifest.json").read_text()
    assert "hunter22" not in text and "p --password ***" in text
    assert json.loads(text)["settings"]["command"] == ["p", "--token", "***", "x"]
    assert json.loads(text)["settings"]["argv"] == ["--token", "***", "x"]
    assert json.loads(text)["settings"]["api_key"] == "***"


#: What the recorder or a format works out itself: nothing that a file says stands there as it is.
_OWN = {("memcpy", "kind"), ("memcpy", "source_kind"), ("memcpy", "destination_kind"), ("memset", "memory_kind"),
        ("sync", "kind"), ("graph_node", "kind"), ("marker", "kind"), ("sample", "state"), ("flow", "kind"),
        ("external_id", "kind"), ("instruction", "binary"), ("instruction", "registers"), ("instruction", "uniform_registers"),
        ("warp_event", "kind"), ("probe_value", "kind"), ("range_metric", "kind"), ("shape", "launch_type"), ("stack", "method"),
        ("frame", "kind"), ("frame", "build_id"), ("attribute", "table"), ("collective", "members"), ("collective_part", "kind"),
        ("collective_part", "direction"), ("loss", "severity")}  # fmt: skip


def test_every_text_column_is_looked_through_or_named_here() -> None:
    left_out = {(table.name, column.name) for table in TABLES.values() for column in table.columns
                if column.type == "string" and not (column.free or column.word)}  # fmt: skip
    assert left_out == _OWN


def test_calls_and_categories_of_an_imported_file_hold_none(tmp_path) -> None:
    said = "token=Zq81hunter22x"
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 10, "dur": 5, "pid": 0, "tid": 7, "args": {"correlation": 1}},
        {"ph": "X", "cat": "cuda_runtime", "name": f"launch {said}", "ts": 1, "dur": 2, "pid": 9, "tid": 9,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": said, "name": "a", "ts": 1, "dur": 9, "pid": 9, "tid": 9},
        {"ph": "C", "cat": said, "name": "c", "ts": 2, "pid": 9, "args": {said: 1}},
    ]  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps({"traceEvents": events}))
    with warpsight.open(tmp_path / "x.json") as trace:
        for table in TABLES:
            assert "hunter22" not in str(trace.sql(f"SELECT * FROM {table}").fetchall()), table


def test_a_user_who_is_called_as_a_platform_is_does_not_change_it(tmp_path) -> None:
    with TraceWriter(tmp_path / "x.warp") as writer:
        writer.add("process", [{"process": 0, "pid": 1, "host": "cuda", "command": "/home/nvtx/p", "executable": "/home/nvtx/p",
                                "start": 0}])  # fmt: skip
        writer.add("context", [{"context": 1, "device": 0, "process": 0, "api": "cuda"}])
    with warpsight.open(tmp_path / "x.warp") as trace, shared(trace) as others:
        assert others.sql("SELECT api FROM context").fetchall() == [("cuda",)]
        assert others.sql("SELECT host FROM process").fetchall() != [("cuda",)]


@pytest.mark.parametrize(
    "text",
    [
        "password=" * 20_000,
        "eyJ" * 60_000,
        "://" * 60_000,
        '"' * 100_000,
        "\\" * 100_000,
        "a." * 80_000,
        "--token " * 20_000,
    ],
)
def test_no_text_takes_time_that_grows_with_its_square(text: str) -> None:
    began = time.process_time()
    secrets.shareable(text)
    assert time.process_time() - began < 30  # the square would take minutes


@pytest.mark.parametrize("count", [3, secrets._FEW + 3])
def test_many_texts_at_once(count: int) -> None:
    texts = [*(canary.text for canary in CANARIES), *INNOCENT, "a name \udcff of bytes"]
    texts = (texts * (count // len(texts) + 1))[:count]
    assert secrets.each(texts) == [secrets.secretless(text) for text in texts]
    whole = [text for text in texts if "\udcff" not in text]
    assert secrets.each(whole) == [secrets.secretless(text) for text in whole]
