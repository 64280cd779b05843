"""Names in a trace are somebody else's: a terminal shows them and does nothing else, a spreadsheet does not run them."""

from __future__ import annotations

import csv
import io
import os
import pty
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.analysis.test_degenerate import SHAPE, everything
from warpsight.model import TraceWriter
from warpsight.ui.cli import app, parser
from warpsight.ui.render import tables, terminal

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1A\u202ekcab\nnext\tline\r"
VERBS = (
    ("info",), ("stats",), ("stats", "@", "--by", "stack"), ("stats", "@", "nvtx"), ("stats", "@", "events"),
    ("analyze",), ("view", "@", "--plain"),
    ("view", "@", "--list"), ("query", "@", "SELECT * FROM name"), ("query", "@", "SELECT * FROM name", "--format", "csv"),
    ("query", "@", "SELECT * FROM marker"), ("flame", "@", "--to", "folded", "-o", "-"),
    ("query", "@", "SELECT * FROM no_such_\x1b[2J"),
)  # fmt: skip


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evil") / "x.warp"
    with TraceWriter(path) as writer:
        for number in range(8):
            writer.name(f"=cmd|' /C calc'!A{number}{EVIL}")
        writer.shape(**SHAPE)
        writer.stack([(f"main{EVIL}", f"train{EVIL}.py", 3, None, "python", None)])
        writer.stack([(f"main{EVIL}", f"train{EVIL}.py", 3, None, "python", None), f"load{EVIL}"])
        for table, content in everything().items():
            writer.add(table, content)
        writer.add("loss", [{"source": "import", "cause": f"cause {EVIL}", "count": 1, "severity": "lost"}])
    return path


def on_a_terminal(*words: str) -> str:
    """What a terminal gets from a verb."""
    pid, master = pty.fork()
    if not pid:
        os.environ |= {"TERM": "xterm", "COLUMNS": "200"}
        sys.stdout = os.fdopen(os.dup(1), "w")
        sys.stderr = os.fdopen(os.dup(2), "w")
        try:
            app.main(list(words))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    parts = []
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:
            break
        if not piece:
            break
        parts.append(piece)
    os.waitpid(pid, 0)
    os.close(master)
    return b"".join(parts).decode("utf-8", "replace")


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2]))
def test_no_control_character_of_a_name_reaches_a_terminal(words: tuple[str, ...], evil: Path) -> None:
    given = [str(evil) if word == "@" else word for word in words]
    if "@" not in words:
        given[1:1] = [str(evil)]
    shown = on_a_terminal(*given)
    assert len(shown) > 20
    for unwanted in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e"):
        assert unwanted not in shown


def test_a_text_is_printable_on_one_line() -> None:
    assert terminal.printable("a\x1b[31m\u202eb\nc\td") == "a\\x1b[31m\\u202eb c d"
    assert terminal.printable("größe → ∞") == "größe → ∞"


def test_no_cell_of_a_csv_is_a_formula() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "void f()", "", "1-1"]
    stream = io.StringIO(newline="")
    tables.write_csv(pa.table({"=name": texts, "value": list(range(-4, 5))}), stream)
    rows = list(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert [row[0] for row in rows] == [
        "'=name",
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        "'\tx",
        "'\nx",
        "void f()",
        "",
        "1-1",
    ]
    assert [row[1] for row in rows[1:]] == [str(number) for number in range(-4, 5)]


def test_nor_in_an_export(evil: Path, tmp_path: Path) -> None:
    assert parser.run(["export", str(evil), "--to", "csv", "-o", str(tmp_path / "x.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        for name in archive.namelist():
            for row in csv.reader(io.StringIO(archive.read(name).decode(), newline="")):
                for cell in row:
                    assert not cell.startswith(("=", "+", "@")), (name, cell)
                    assert (
                        not cell.startswith("-") or cell[1:].replace(".", "").replace("e-", "").isdigit()
                    ), (name, cell)
