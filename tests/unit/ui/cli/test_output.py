"""Files that verbs write."""

import gzip
import json
import os

import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import output
from warpsight.ui.cli.app import main


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    missing = tmp_path / "missing" / "a.html"
    with (
        pytest.raises(WarpsightError, match=r"missing/a\.html cannot be written: No such file or directory"),
        output.binary(missing),
    ):
        pass
    long = tmp_path / ("x" * 300)
    with pytest.raises(WarpsightError, match="x cannot be written: File name too long"), output.text(long):
        pass
    assert os.listdir(tmp_path) == []


def test_a_name_that_is_nearly_too_long_is_written(tmp_path):
    path = tmp_path / ("x" * 255)
    with output.text(path) as stream:
        stream.write("there")
    assert path.read_text() == "there" and os.listdir(tmp_path) == [path.name]


def test_lines_and_texts_lose_the_same_secrets(tmp_path):
    lines = ["main;run 5\n", "token=hunter2hunter2 3\n", "a\npassword=hunter2 and more\n", "no end"]
    lines.append("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n")
    with output.text(tmp_path / "one") as stream:
        for line in lines:
            stream.write(line)
    with output.text(tmp_path / "other") as stream:
        stream.writelines(lines)
    written = (tmp_path / "one").read_text()
    assert (tmp_path / "other").read_text() == written
    assert "hunter2" not in written and "abc" not in written and "main;run 5" in written


def test_what_was_written_is_said_once_it_is_whole(tmp_path, capsys):
    for name, text, more in (("a.txt", "there", ""), ("a.html", "<svg>", "; open it in any browser")):
        with output.text(tmp_path / name) as stream:
            stream.write(text)
            assert capsys.readouterr().err == ""
        assert capsys.readouterr().err == f"{tmp_path / name}: 5 B{more}\n"
    with output.text(None) as stream:
        stream.write("there")
    assert capsys.readouterr() == ("there", "")


@pytest.mark.parametrize("name", ["a.html", "a.HTM", "a.svg", "a.xhtml", "a.xml"])
@pytest.mark.parametrize("lines", [False, True])
def test_text_is_not_written_as_a_page(lines, name, tmp_path):
    """`diff -o x.html` wrote kernels' names as they are: a browser ran the scripts in them."""
    text = "kernel <script>alert(1)</script>\n"
    with pytest.raises(UsageError, match="text, not a page"), output.text(tmp_path / name) as stream:
        stream.writelines([text]) if lines else stream.write(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lines", [False, True])
def test_text_is_not_written_as_json(lines, tmp_path):
    with (
        pytest.raises(UsageError, match="text, not JSON: add --json"),
        output.text(tmp_path / "a.json") as stream,
    ):
        stream.writelines(["2 kernels\n"]) if lines else stream.write("2 kernels\n")
    assert list(tmp_path.iterdir()) == []
    with output.text(tmp_path / "a.json") as stream:
        stream.write(output.json_text({"kernels": 2}))
        stream.write("\n")


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("a.csv", [], b"name,duration\n"),
        ("a.json", [], b'{\n "columns"'),
        ("a.ndjson", [], b'{"name"'),
        ("a.parquet", [], b"PAR1"),
        ("a.arrow", [], b"ARROW1"),
        ("a.txt", [], b"duration  name"),
        ("a", [], b"duration  name"),
        ("a.dat", ["--format", "csv"], b"name,duration\n"),
        ("a.csv.gz", [], b"\x1f\x8b"),
        ("a.csv.zst", [], b"\x28\xb5\x2f\xfd"),
    ],
)
def test_the_name_decides_what_a_query_writes(name, options, begins, tmp_path):
    """`query -o x.csv` wrote the table for people."""
    trace = make(tmp_path / "t.warp", Plan(kernels=3))
    command = ["query", str(trace), "--fields", "name,duration", *options, "-o", str(tmp_path / name)]
    assert main(command) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)
    if name == "a.csv.gz":
        assert gzip.decompress((tmp_path / name).read_bytes()).startswith(b"name,duration\n")
    if name == "a.json":
        assert len(json.loads((tmp_path / name).read_text())["rows"]) == 3
