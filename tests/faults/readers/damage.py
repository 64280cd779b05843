"""Ways to damage a file. Each takes a random generator with a seed, so that a number names an input for good."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.faults.readers.corpus import FOLDERS, Whole, members, zipped

#: Values that no writer meant to be where they are put.
ODD: tuple[Any, ...] = (
    None, True, [], {}, [[]], [1, 2], {"a": 1}, "", "x", "\x1b]0;owned\x07\x1b[31mred", "=1+1", "\x00", "-1", "1e400", -1, 0,
    1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), 10**40, 1.5, -0.0, 1e308, float("nan"), float("inf"), "\ud800",
    "../../x", "a" * 70_000, "9" * 5_000,
)  # fmt: skip
#: JSON of a larger file is damaged as bytes: parsing it would take longer than reading it.
_PARSED = 400_000
#: How many times 64 MiB a bomb unpacks to: a few, or 6 GiB. Its last form is for the long run.
_BOMB = (2, 24, 96)


def flip(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Other bits in a few places."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def cut(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """The start of a file, or its end."""
    place = random.randrange(len(data))
    return data[:place] if random.random() < 0.7 else data[place:]


def splice(random: Random, data: bytes, others: Sequence[Whole]) -> bytes:
    """A piece of the same or another file in the middle, or instead of a piece."""
    other = data if random.random() < 0.5 else random.choice(others).read()
    begin = random.randrange(len(other) or 1)
    piece = other[begin : begin + random.choice((1, 16, 256, 4096))]
    place = random.randrange(len(data))
    return data[:place] + piece + data[place + (len(piece) if random.random() < 0.5 else 0) :]


def repeat(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """A piece many times over."""
    begin = random.randrange(len(data))
    piece = data[begin : begin + random.choice((1, 8, 64, 512))]
    return data[:begin] + piece * random.choice((2, 10, 1000)) + data[begin:]


def numbers(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Words of a binary file that are as large as they can be, or digits of a text that go on."""
    out = bytearray(data)
    for _ in range(random.choice((1, 3))):
        place = random.randrange(len(out))
        if chr(out[place]).isdigit():
            out[place : place + 1] = random.choice(
                (b"9" * 400, b"9" * 25, b"-1", b"1e999", b"NaN", b"0x1", b"1_000")
            )
        else:
            width = random.choice((2, 4, 8))
            out[place : place + width] = random.choice(
                (b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\0" * width)
            )
    return bytes(out)


def nesting(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Brackets without end where a value stood."""
    places = [
        i for i in (random.randrange(len(data)) for _ in range(200)) if data[i : i + 1] in (b":", b"[", b",")
    ]
    place = places[0] + 1 if places else random.randrange(len(data))
    opening = random.choice((b"[", b'{"a":'))
    depth = random.choice((100, 1_000, 100_000))
    closing = (b"]" if opening == b"[" else b"}") * depth if random.random() < 0.5 else b""
    return data[:place] + opening * depth + b"1" + closing + data[place:]


def swap_types(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Values of a JSON document, or of lines of it, replaced by values of another type."""
    try:
        found = json.loads(data)
        swapped(random, found)
        return _json(found)
    except (ValueError, RecursionError):
        pass
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 4))):
        place = random.randrange(len(lines))
        try:
            found = json.loads(lines[place])
        except (ValueError, RecursionError):
            continue
        lines[place] = _json(swapped(random, found))
    return b"\n".join(lines)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def swapped(random: Random, value: Any) -> Any:
    """The value with a few places inside it replaced, taken away or renamed."""
    for _ in range(random.choice((1, 2, 10))):
        here, depth = value, 0
        while isinstance(here, (dict, list)) and here:
            key = random.choice(list(here) if isinstance(here, dict) else range(len(here)))
            if (
                not isinstance(here[key], (dict, list))
                or not here[key]
                or random.random() < 0.08 * (depth + 1)
            ):
                how = random.random()
                if how < 0.12:
                    del here[key]
                elif how < 0.2 and isinstance(here, dict):
                    here[random.choice(("", "\x1b[2J", "ts", "id"))] = here.pop(key)
                else:
                    here[key] = deepcopy(random.choice(ODD))
                break
            here, depth = here[key], depth + 1
    return value


def bomb(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """The file with gigabytes of one byte behind its first half, compressed."""
    filler = random.choice((b" ", b"\0", b"9", b"[", b"a\n", b"{},"))
    piece = filler * ((1 << 20) // len(filler))
    packer = zlib.compressobj(9, wbits=31)
    out = [packer.compress(data[: len(data) // 2])]
    block = _repeating(piece)
    out.append(packer.flush(zlib.Z_FULL_FLUSH))
    head = b"".join(out)
    return head + block * random.choice(_BOMB)


def _repeating(piece: bytes) -> bytes:
    """64 MiB of a piece as raw deflate blocks that may stand one behind the other."""
    packer = zlib.compressobj(9, wbits=-15)
    return b"".join(packer.compress(piece) for _ in range(64)) + packer.flush(zlib.Z_FULL_FLUSH)


def database(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Values, columns and tables of a SQLite database that are not what they were."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(data)
        file.flush()
        connection = sqlite3.connect(file.name)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(random.choice((1, 3, 8))):
            table = random.choice(tables)
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            if columns:
                _change_table(random, connection, table, random.choice(columns))
        connection.commit()
        connection.close()
        return Path(file.name).read_bytes()


def _change_table(random: Random, connection: sqlite3.Connection, table: str, column: str) -> None:
    values: list[Any] = [
        None,
        "x",
        "",
        b"\xff\xfe",
        -1,
        (1 << 63) - 1,
        -(1 << 63),
        1e308,
        "9" * 30,
        "\x1b[31m",
        1 << 40,
    ]
    how = random.random()
    try:
        if how < 0.6:
            some = random.choice(("", " WHERE rowid % 3 = 0", " WHERE rowid = 1"))
            connection.execute(f'UPDATE "{table}" SET "{column}" = ?{some}', (random.choice(values),))
        elif how < 0.7:
            connection.execute(f'DROP TABLE "{table}"')
        elif how < 0.8:
            connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
        elif how < 0.9:
            connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
        else:
            connection.execute(f'DELETE FROM "{table}"')
    except sqlite3.Error:
        pass


def packed(random: Random, data: bytes, others: Sequence[Whole]) -> bytes:
    """A packed trace with another manifest, other columns, or other members."""
    files = members(data)
    how = random.random()
    if how < 0.3:
        files["manifest.json"] = _json(swapped(random, json.loads(files["manifest.json"])))
    elif how < 0.85:
        for _ in range(random.choice((1, 1, 3))):
            name = random.choice([name for name in files if name.endswith(".parquet")])
            files[name] = changed_part(random, files[name])
    else:
        name = random.choice(list(files))
        files[name] = (
            random.choice((flip, cut, splice, numbers))(random, files[name], others) if files[name] else b""
        )
    out = io.BytesIO()
    how = random.random()
    prefix = "trace.warp/" if how < 0.2 else "../" if how < 0.23 else ""
    method = zipfile.ZIP_DEFLATED if random.random() < 0.2 else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(prefix + name, content)
    return out.getvalue()


def changed_part(random: Random, data: bytes) -> bytes:
    """A part with a column renamed, gone, of another type, or with other values."""
    table = pq.read_table(io.BytesIO(data))
    names = table.column_names
    if not names:
        return data
    name = random.choice(names)
    place, count = names.index(name), len(table)
    how = random.random()
    if how < 0.1:
        table = table.drop_columns([name])
    elif how < 0.2:
        table = table.rename_columns([*names[:place], "other", *names[place + 1 :]])
    elif how < 0.25:
        table = table.append_column("more", pa.array(range(count)))
    elif how < 0.3:
        table = pa.concat_tables([table] * random.choice((2, 50)))
    else:
        table = table.set_column(place, name, _other_values(random, table.column(place), count))
    out = io.BytesIO()
    try:
        pq.write_table(table, out)
    except (pa.ArrowException, ValueError):
        return data
    return out.getvalue()


def _other_values(random: Random, column: pa.ChunkedArray, count: int) -> pa.Array:
    def every(value: Any, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array([value] * count, kind)

    kinds: list[Callable[[], pa.Array]] = [
        lambda: every(None, column.type), lambda: every("x" * 20), lambda: every("\x1b[31m=1+1"), lambda: every([1, 2]),
        lambda: every({"a": 1}), lambda: every(1.5), lambda: every(float("nan")), lambda: every(b"\xff"),
        lambda: every((1 << 63) - 1, pa.int64()), lambda: every(-(1 << 63), pa.int64()), lambda: every(-1, pa.int64()),
        lambda: every((1 << 64) - 1, pa.uint64()), lambda: every(0, pa.int64()), lambda: every(1 << 40, pa.int64()),
        lambda: pa.array([random.getrandbits(62) for _ in range(count)], pa.int64()),
        lambda: pa.array([random.randrange(-3, 40) for _ in range(count)], pa.int64()),
        lambda: every(True),
    ]  # fmt: skip
    made = random.choice(kinds)()
    if random.random() < 0.5 and made.type != column.type:
        try:
            return made.cast(column.type, safe=False)
        except pa.ArrowException:
            return made
    return made


def lines(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Lines of a text, or their words, that are gone, twice there, in another order or very long."""
    parts = data.split(b"\n")
    for _ in range(random.choice((1, 2, 8))):
        i, j = random.randrange(len(parts)), random.randrange(len(parts))
        how = random.random()
        if how < 0.2:
            parts[i], parts[j] = parts[j], parts[i]
        elif how < 0.3:
            parts[i:i] = [parts[j]] * random.choice((1, 3, 2_000))
        elif how < 0.4 and len(parts) > 1:
            del parts[i]
        else:
            mark = random.choice((b" ", b"\t", b";", b","))
            words = parts[i].split(mark)
            odd = (
                b"",
                b"-",
                b"\xff\xfe",
                b"\x1b[31m",
                b"=1+1",
                b"\0",
                b"nan",
                b"-9",
                b"9" * 40,
                b"1e999",
                b"a" * 70_000,
                b'"',
            )
            words[random.randrange(len(words))] = random.choice(odd)
            parts[i] = mark.join(words)
    return b"\n".join(parts)


def protobuf(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """Fields of a message, at any depth, with another number, type or value, gone, or there again; lengths fit all the same."""
    for _ in range(random.choice((1, 1, 3, 10))):
        data = _changed_message(random, data, 0)
    return data


def _changed_message(random: Random, data: bytes, depth: int) -> bytes:
    fields = _fields(data)
    if not fields:
        return data
    place = random.randrange(len(fields))
    number, wire, value = fields[place]
    how = random.random()
    if wire == 2 and _fields(value) and random.random() < 0.9 - depth * 0.15:
        fields[place] = (number, wire, _changed_message(random, value, depth + 1))
    elif how < 0.1:
        del fields[place]
    elif how < 0.2:
        fields[place:place] = [fields[place]] * random.choice((1, 2, 500))
    elif how < 0.3:
        fields[place] = (random.choice((1, 2, 3, 8, 9, 60, number + 1, (1 << 29) - 1)), wire, value)
    elif how < 0.4:
        other = random.randrange(len(fields))
        fields[place], fields[other] = fields[other], fields[place]
    elif how < 0.7:
        odd = (0, 1, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
        fields[place] = (number, 0, _varint(random.choice(odd)))
    else:
        nested = _field(1, 2, b"") * random.choice((1, 2_000))
        text = (b"", b"\xff\xfe", b"\x1b[31m", b"=1+1", b"a" * 70_000, bytes(random.randbytes(9)), nested)
        fields[place] = (number, 2, random.choice(text))
    return b"".join(_field(*field) for field in fields)


def _fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """Number, wire type and content of each field; empty when it is no message."""
    found, place = [], 0
    try:
        while place < len(data):
            key, place = _read_varint(data, place)
            wire, begin = key & 7, place
            if wire == 0:
                _, place = _read_varint(data, place)
            elif wire == 2:
                length, begin = _read_varint(data, place)
                place = begin + length
            else:
                place += {1: 8, 5: 4}[wire]
            if not key >> 3 or place > len(data):
                return []
            found.append((key >> 3, wire, data[begin:place]))
    except (IndexError, KeyError):
        return []
    return found


def _field(number: int, wire: int, value: bytes) -> bytes:
    return _varint(number << 3 | wire) + (_varint(len(value)) if wire == 2 else b"") + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not data[place - 1] & 0x80:
            return value, place


def elf(random: Random, data: bytes, _: Sequence[Whole]) -> bytes:
    """An ELF file whose header, section headers or words of one section are not what they were, or that ends early."""
    out = bytearray(data)
    table, size, count = (
        int.from_bytes(data[at : at + n], "little") for at, n in ((40, 8), (58, 2), (60, 2))
    )
    odd = (
        0,
        1,
        2,
        0x7F,
        0xFFFF,
        (1 << 31) - 1,
        (1 << 32) - 1,
        1 << 40,
        (1 << 63) - 1,
        (1 << 64) - 1,
        len(data),
        len(data) - 1,
    )
    for _ in range(random.choice((1, 1, 3, 8))):
        header = table + size * random.randrange(count)
        how = random.random()
        if how < 0.1:
            at, width = random.choice(((4, 1), (16, 2), (18, 2), (40, 8), (48, 4), (58, 2), (60, 2), (62, 2)))
        elif how < 0.5:
            at, width = random.choice(
                ((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8))
            )
            at += header
        else:
            begin = int.from_bytes(data[header + 24 : header + 32], "little")
            length = int.from_bytes(data[header + 32 : header + 40], "little")
            width = random.choice((1, 2, 4, 8))
            at = begin + random.randrange(max(min(length, len(data) - begin) // width, 1)) * width
        out[at : at + width] = (random.choice(odd) % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(out[: random.randrange(len(out))] if random.random() < 0.2 else out)


def folder(random: Random, data: bytes, others: Sequence[Whole]) -> bytes:
    """A folder with files that are damaged, gone, exchanged, empty, or there a second time under another name."""
    files = members(data)
    for _ in range(random.choice((1, 1, 3))):
        name, other = random.choice(list(files)), random.choice(list(files))
        how = random.random()
        if how < 0.1 and len(files) > 1:
            del files[name]
        elif how < 0.2:
            files[name], files[other] = files[other], files[name]
        elif how < 0.3:
            files[random.choice(("copy", "a/b/c", "x\ny", "rank_7", ".hidden", "-f"))] = files[name]
        elif how < 0.35:
            files[name] = b""
        else:
            files[name] = _damaged_member(random, name, files[name], others)
    return zipped(files)


def _damaged_member(random: Random, name: str, data: bytes, others: Sequence[Whole]) -> bytes:
    """By a way that fits the file; one that is damaged already may fit none but the plainest."""
    try:
        return _changed_member(random, name, data, others)
    except (zipfile.BadZipFile, zstandard.ZstdError, OSError, EOFError, ValueError, KeyError, zlib.error):
        return flip(random, data, others)


def _changed_member(random: Random, name: str, data: bytes, others: Sequence[Whole]) -> bytes:
    kind = "packed" if name.endswith(".warp.zip") else "member"
    if not data:
        return b"x"
    if name.endswith(".zst") and random.random() < 0.8:
        inner = zstandard.ZstdDecompressor().decompress(data, max_output_size=64 << 20)
        way = random.choice((flip, cut, splice, numbers, *((elf,) * 3 if inner[:4] == b"\x7fELF" else ())))
        return zstandard.compress(way(random, inner, others) if inner else b"x")
    return random.choice(ways(Whole(name, kind, lambda: data), data))(random, data, others)


def ways(whole: Whole, data: bytes) -> list[Callable[[Random, bytes, Sequence[Whole]], bytes]]:
    """The ways that fit a file; those that know its structure come up as often as all others together."""
    plain = [flip, cut, splice, repeat, numbers, nesting]
    if whole.kind in ("packed", "inside"):
        return plain + [packed] * 14
    if whole.kind in FOLDERS:
        return [folder]
    if data.startswith(b"\x7fELF") and len(data) > 64:
        return [flip, cut, splice, repeat, numbers] + [elf] * 5
    if whole.name.endswith((".pftrace", ".pb")) and _fields(data):
        return plain + [protobuf] * 12
    if data.startswith(b"SQLite format 3"):
        return plain + [database] * 6
    head = data[:64].lstrip()[:1]
    if head in (b"{", b"[") and len(data) <= _PARSED:
        return plain + [swap_types] * 6 + ([bomb] if len(data) < 20_000 else [])
    if data[:2] == b"\x1f\x8b":
        return plain + [recompressed] * 3
    return plain + ([lines] * 4 if b"\0" not in data[:4096] and b"\n" in data else [])


def recompressed(random: Random, data: bytes, others: Sequence[Whole]) -> bytes:
    """What is inside a gzip file, damaged, and compressed again."""
    inner = gzip.decompress(data)
    way = random.choice((flip, cut, splice, repeat, numbers, nesting))
    return gzip.compress(way(random, inner, others), 1)


def damaged(seed: int, wholes: Sequence[Whole], only: str = "") -> tuple[Whole, str, bytes]:
    """The file of a seed: which one it was, how it was damaged, and its bytes."""
    random = Random(seed)
    chosen = [whole for whole in wholes if only in whole.name]
    whole = random.choice(chosen)
    data = whole.read()
    way = random.choice(ways(whole, data))
    return (
        whole,
        way.__name__,
        way(random, data, [one for one in wholes if not one.name.startswith("shared/")]),
    )
