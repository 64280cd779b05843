"""The core of importing, with a reader that is defined here: one line `pid name start duration` per kernel."""

import gzip
import random
import sys
import types

import pytest
import zstandard

import warpsight as ws
from warpsight.errors import TraceError, UsageError
from warpsight.formats import registry
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files, open_any
from warpsight.formats.registry import Coverage, Reader
from warpsight.formats.source import Source


def sniff(source):
    return source.head.startswith(b"lines\n")


def read(source, target, options):
    rows = []
    with source.open() as file:
        file.readline()
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                source.ended_early(f"line {number} has no end")
                break
            try:
                pid, name, start, duration = line.decode().split()
            except ValueError:
                raise source.error("is not `pid name start duration`", line=number) from None
            process = target.process(int(pid), command=options.get("command"))
            context = target.context(process, 1)
            rows.append(
                {
                    "start": int(start),
                    "duration": int(duration),
                    "name_id": target.name(name),
                    "context": context,
                    "stream": target.stream(process, context, "0xffffffffffff"),
                    "process": process,
                    "graph_level": False,
                }
            )
    target.add("kernel", rows)


@pytest.fixture(autouse=True)
def _lines(monkeypatch):
    module = types.ModuleType("lines_reader")
    module.sniff, module.read, module.COVERAGE = sniff, read, Coverage((), (), ())
    monkeypatch.setitem(sys.modules, "lines_reader", module)
    reader = Reader("lines", "lines_reader", (".lines",), {"command": "the command line"})
    monkeypatch.setitem(registry.READERS, "lines", reader)


TEXT = b"lines\n" + b"".join(b"7 k%d %d 10\n" % (i % 3, 1000 + i * 20) for i in range(5000))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.lines"
    path.write_bytes(TEXT)
    return path


def kernels(trace):
    return trace.sql("SELECT start, duration, name, process FROM kernel ORDER BY process, start").fetchall()


#: Noise, so that each compressor needs several blocks.
STARTS = sorted(random.Random(4).sample(range(10**15), 20_000))
LONG = b"lines\n" + b"".join(b"7 k %d 10\n" % start for start in STARTS)
EXPECTED = [(1000 + i * 20, 10, f"k{i % 3}", 0) for i in range(5000)]


def zstd(data):
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:]) + b"\0" * 512,
        zstd(TEXT),
        zstd(TEXT[:5000]) + zstd(TEXT[5000:]),
    ],
    ids=["plain", "gzip", "gzip members with padding", "zstd", "zstd frames"],
)
def test_compression_is_taken_off_by_content(tmp_path, packed):
    path = tmp_path / "a"
    path.write_bytes(packed)
    made = import_files([path], tmp_path / "a.warp")
    assert made.rows["kernel"] == 5000
    assert made.losses == ()
    with ws.open(tmp_path / "a.warp") as trace:
        assert kernels(trace) == EXPECTED
        assert trace.manifest["source"]["format"] == "lines"


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_compressed_file_that_ends_early_gives_what_comes_before_and_says_so(tmp_path, pack):
    packed = pack(LONG)
    path = tmp_path / "a.gz"
    path.write_bytes(packed[: len(packed) // 2])
    made = import_files([path], tmp_path / "a.warp")
    (loss,) = made.losses
    assert loss["severity"] == "lost" and "a.gz is incomplete" in loss["cause"]
    with ws.open(tmp_path / "a.warp") as trace:
        found = kernels(trace)
        assert 0 < len(found) < len(STARTS)
        assert [row[0] for row in found] == STARTS[: len(found)]
        assert trace.loss.to_pylist()[0]["cause"] == loss["cause"]


@pytest.mark.parametrize("seed", range(8))
def test_damage_in_the_middle_of_gzip_keeps_what_comes_before_it(tmp_path, seed):
    """Some damage is decoded to other bytes for a while, some is noticed at its first byte."""
    chance = random.Random(seed)
    noise = b"lines\n" + b"".join(
        b"7 %s %d 10\n" % (chance.randbytes(8).hex().encode(), 1000 + i) for i in range(9000)
    )
    packed = bytearray(gzip.compress(noise, mtime=0))
    middle = len(packed) // 2
    packed[middle : middle + 64] = chance.randbytes(64)
    path = tmp_path / "a"
    path.write_bytes(packed)
    with Source(path) as source:
        data = source.open().read()
        assert source.truncated and "damaged before byte" in source.damage
    sound = next((i for i, (a, b) in enumerate(zip(data, noise, strict=False)) if a != b), len(data))
    assert sound > len(noise) * 0.45


def test_several_files_are_several_processes_of_one_trace(tmp_path, file):
    second = tmp_path / "b.lines"
    second.write_bytes(TEXT)
    import_files([file, second], tmp_path / "both.warp")
    with ws.open(tmp_path / "both.warp") as trace:
        assert trace.sql('SELECT process, pid, start, "end" FROM process ORDER BY 1').fetchall() == [
            (0, 7, 1000, 1000 + 4999 * 20 + 10),
            (1, 7, 1000, 1000 + 4999 * 20 + 10),
        ]
        assert len(kernels(trace)) == 10_000
        assert [s["file"] for s in trace.manifest["source"]] == [str(file), str(second)]


def test_a_key_that_is_no_small_number_gets_an_id_and_keeps_its_name(tmp_path, file):
    with open_any(file) as trace:
        assert trace.sql("SELECT stream, name FROM stream").fetchall() == [(-1, "0xffffffffffff")]
        assert trace.sql("SELECT DISTINCT stream FROM kernel").fetchall() == [(-1,)]


def test_reading_a_foreign_file_leaves_nothing_behind(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    with ws.open(file) as trace:
        assert len(kernels(trace)) == 5000
        assert trace.path == str(file)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.lines", "tmp"]


def test_an_error_names_file_and_place_and_leaves_no_trace(tmp_path):
    path = tmp_path / "bad.lines"
    path.write_bytes(b"lines\n7 k 1 2\nnonsense\n")
    with pytest.raises(FormatError, match=r"bad\.lines, line 3: is not `pid name start duration`") as raised:
        import_files([path], tmp_path / "bad.warp")
    assert raised.value.line == 3 and raised.value.file == str(path)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.lines"]


def test_a_value_no_column_holds_is_the_files_fault(tmp_path):
    path = tmp_path / "big.lines"
    path.write_bytes(b"lines\n7 k 99999999999999999999999 2\n")
    with pytest.raises(FormatError, match="does not fit"):
        import_files([path], tmp_path / "bad.warp")


def test_an_existing_trace_is_replaced_only_when_asked_and_only_when_all_is_read(tmp_path, file):
    out = tmp_path / "a.warp"
    import_files([file], out)
    with pytest.raises(TraceError, match="exists already; -f replaces it"):
        import_files([file], out)
    bad = tmp_path / "bad.lines"
    bad.write_bytes(b"lines\nnonsense\n")
    with pytest.raises(FormatError):
        import_files([bad], out, force=True)
    with ws.open(out) as trace:
        assert len(kernels(trace)) == 5000
    import_files([file], out, force=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(TraceError, match="is not a trace; it is left alone"):
        import_files([file], tmp_path / "folder", force=True)


def test_what_nobody_knows_is_said_with_where_the_formats_are_listed(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"\x07\x07 something else entirely")
    with pytest.raises(
        FormatError, match=r"x\.bin: holds binary data in no known format \(`warpsight import --formats`"
    ):
        open_any(path)
    (tmp_path / "empty").touch()
    with pytest.raises(FormatError, match="empty: is empty"):
        open_any(tmp_path / "empty")
    with pytest.raises(TraceError, match="missing does not exist"):
        open_any(tmp_path / "missing")
    with pytest.raises(TraceError, match="is not a warpsight trace"):
        open_any(tmp_path)


def test_options_go_to_the_reader_that_knows_them(tmp_path, file):
    import_files([file], tmp_path / "o.warp", options={"command": "train.py"})
    with ws.open(tmp_path / "o.warp") as trace:
        assert trace.sql("SELECT command FROM process").fetchall() == [("train.py",)]
    with pytest.raises(UsageError, match="has no option 'color'; options: command"):
        import_files([file], tmp_path / "p.warp", options={"color": "red"})
    with pytest.raises(UsageError, match="there is no format 'nope'"):
        import_files([file], tmp_path / "p.warp", form="nope")
