"""Content that no reader foresaw is told as damage of the file, in one line and one class of error; and quickly."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from warpsight.formats import registry
from warpsight.formats.errors import FormatError, decoding
from warpsight.formats.source import MOST_EXPANSION, SMALL_BYTES, Source
from warpsight.ui.cli import parser

GOLDEN = Path(__file__).parents[2] / "golden"


def ask(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = parser.run([str(word) for word in words])
    return code, capfd.readouterr().err


def test_an_error_of_a_decoder_names_the_file() -> None:
    with (
        pytest.raises(
            FormatError, match=r"^x\.json: is damaged or does not follow its format \(KeyError: 'a'\)$"
        ),
        decoding("x.json"),
    ):
        {}["a"]
    with pytest.raises(FormatError, match="nested too deeply"), decoding("x.json"):
        raise RecursionError
    with pytest.raises(MemoryError), decoding("x.json"):
        raise MemoryError


@pytest.mark.parametrize("odd", [[1], {}, 1 << 70, "\x1b[31m"])
@pytest.mark.parametrize("key", ["ts", "pid", "tid", "name", "id", "args"])
@pytest.mark.parametrize(
    "name",
    ["kineto/own.pt.trace.json", "unitrace/unitrace.json", "mctracer/mctracer.json", "chrome/own.json"],
)
def test_a_value_of_another_type(
    name: str, key: str, odd: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((GOLDEN / "formats" / name).read_text())
    events = document["traceEvents"] if isinstance(document, dict) else document
    for event in events[:: max(len(events) // 7, 1)]:
        if isinstance(event, dict) and (key in event or key == "args"):
            event[key] = odd
    path = tmp_path / Path(name).name
    path.write_text(json.dumps(document))
    code, err = ask(capfd, "info", path)
    assert code in (0, 1) and "internal error" not in err
    assert "\x1b" not in err


@pytest.mark.parametrize("verb", [("sass", "warps"), ("sass", "query"), ("sass", "validate"), ("info",)])
@pytest.mark.parametrize("odd", [[], {}, "x", 1 << 70])
def test_an_instruction_trace_with_values_of_another_type(
    verb: tuple[str, ...], odd: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = (GOLDEN / "formats" / "cutracer" / "small.ndjson").read_text().splitlines()
    path = tmp_path / "small.ndjson"
    path.write_text(
        "".join(json.dumps({**json.loads(line), "opcode_id": odd, "warp": odd}) + "\n" for line in lines)
    )
    code, err = ask(capfd, *verb, path)
    assert code in (0, 1, 2) and "internal error" not in err


def test_braces_without_end_are_not_tried_one_by_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    events = b",".join(
        b'{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,"ts":%d,"dur":1}' % i for i in range(4000)
    )
    path = tmp_path / "deep.json"
    path.write_bytes(
        b'{"schemaVersion":1,"traceEvents":['
        + events
        + b',{"a":' * 1
        + b'{"a":' * 60_000
        + b"1"
        + b"}" * 60_000
        + b"x"
    )
    code, err = ask(capfd, "info", path)  # within the limit of time that every test has
    assert (code, "internal error" in err) == (1, False)


def test_what_no_reader_can_even_look_at_is_of_no_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\r\n1\r2,3\n\0")
    with Source(path) as source:
        assert registry.sniff(source) is None


@pytest.mark.parametrize("begin", [b'{"schemaVersion":1,"traceEvents":[', b"[", b""])
def test_a_file_that_unpacks_to_gigabytes_is_refused(
    begin: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(begin + b" " * (SMALL_BYTES * 2), 9))
    assert path.stat().st_size * MOST_EXPANSION < SMALL_BYTES * 2
    code, err = ask(capfd, "import", "--from", "kineto", path, "-o", tmp_path / "x.warp")
    assert code == 1
    assert f"unpacks to more than {MOST_EXPANSION} times its size" in err
    assert not (tmp_path / "x.warp").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"../../data/kineto_h100_qwen.json.gz", "'../../data/kineto_h100_qwen.json.gz': a symbolic link"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "Git LFS's pointer to a file of 12,345 bytes"),
        (b"/annex/objects/SHA256E-s12--ab.json\n", "git annex get"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["x.json.gz", "x.sqlite", "x.warp.zip"])
def test_what_stands_for_a_file_that_is_not_there(
    name: str, content: bytes, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    code, err = ask(capfd, "info", tmp_path / name)
    assert code == 1
    assert told in err
