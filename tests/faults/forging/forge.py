"""Ways to forge and damage a capsule: each takes a generator with a seed, so that a number names a capsule for good.

Damage leaves the hashes as they are; a forger makes them right again, so that only checks of the values can refuse it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import zstandard

MANIFEST, CHECKSUM, BLOBS = "capsule.json", "capsule.sha256", "blobs"
_NUMBERS = (
    -1, 0, 1, 2, 7, 63, 64, 255, 4095, 4096, 65_535, 65_536, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40,
    1 << 44, (1 << 44) + 1, 1 << 56, (1 << 57) - 1, 1 << 57, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1, 1 << 64,
    10**40, -(1 << 63), 1.5, 1e300,
)  # fmt: skip
_TEXTS = (
    "", "x\n", "\x1b]0;owned\x07", "\x9b31m", "%s%n%x", "../../../etc/passwd", "/etc/passwd", "a" * 70_000, "\u2028", "\ud800",
    'x"); system("id', "*/ int main() {", "\\", "kernels: ", "add", " ", "0" * 64, "F" * 64, "-1",
)  # fmt: skip
_ODD = (None, True, False, [], {}, [[]], {"type": "launch"}, "x", 3)
Parts = list[tuple[Any, Any]]


def forged(seed: int, whole: Path, out: Path) -> tuple[str, bool]:
    """Write a capsule of this seed: what was done to it, and whether its hashes were made right again."""
    random = Random(seed)
    shutil.copytree(whole, out)
    if random.random() < 0.3:
        way = random.choice(_DAMAGES)
        way(random, out)
        return way.__name__, False
    document = json.loads((out / MANIFEST).read_text())
    names = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        way = random.choice(_FORGERIES)
        try:
            way(random, document, out)
        except (AttributeError, IndexError, KeyError, TypeError):
            if not names:
                raise
            continue  # an earlier one left nothing that this one could work on
        names.append(way.__name__)
    text = json.dumps(document).encode()
    (out / MANIFEST).write_bytes(text)
    (out / CHECKSUM).write_text(f"{hashlib.sha256(text).hexdigest()}  {MANIFEST}\n")
    return " ".join(names), True


# --- the manifest, with its hash made right ---


def _walk(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: what holds it, and the key."""
    keys = part.keys() if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    for key in list(keys):
        yield part, key
        yield from _walk(part[key])


def _places(document: Any, *kinds: type) -> Parts:
    return [(holder, key) for holder, key in _walk(document) if type(holder[key]) in kinds]


def _number(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(_places(document, int))
    old = holder[key]
    near = (old + 1, old - 1, old + 8, old * 2, -old, old << 16, random.choice(_NUMBERS))
    holder[key] = random.choice((*near, random.choice(_NUMBERS), random.choice(_NUMBERS)))


def _number_of_another(random: Random, document: Any, _: Path) -> None:
    places = _places(document, int)
    (holder, key), (other, its) = random.choice(places), random.choice(places)
    holder[key] = other[its]


def _text(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(_places(document, str))
    holder[key] = random.choice(_TEXTS)


def _lost(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(list(_walk(document)))
    del holder[key]


def _odd(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(list(_walk(document)))
    holder[key] = random.choice(_ODD)


def _more(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(_places(document, dict))
    holder[key][random.choice(("more", "type", "relocations", "stream"))] = random.choice(_ODD)


def _many(random: Random, document: Any, _: Path) -> None:
    """An element of a list, many times."""
    places = [place for place in _places(document, list) if place[0][place[1]]]
    holder, key = random.choice(places)
    holder[key] += [random.choice(holder[key])] * random.choice((1, 1, 3, 1000, 70_000))


def _shuffled(random: Random, document: Any, _: Path) -> None:
    holder, key = random.choice(_places(document, list))
    random.shuffle(holder[key])


def _moved(random: Random, document: Any, _: Path) -> None:
    """A part in another one's place."""
    places = list(_walk(document))
    (holder, key), (other, its) = random.choice(places), random.choice(places)
    holder[key] = json.loads(json.dumps(other[its]))


def _synchronized(random: Random, document: Any, _: Path) -> None:
    """Many streams, and the host waits for all of them again and again."""
    count = random.choice((3, 300, 65_536))
    document["streams"] = [{"default": random.random() < 0.5} for _ in range(count)]
    used = [{"type": "record", "stream": i, "event": 0} for i in range(0, count, random.choice((1, 64)))]
    document["events"] = 1
    document["operations"] += used + [{"type": "synchronize"}] * random.choice((1, 100, 20_000))


def _graph(random: Random, document: Any, _: Path) -> None:
    """A graph whose empty nodes wait for all nodes before them."""
    works = [o for o in document.get("operations", []) if o["type"] in ("launch", "copy", "set")] or [None]
    count = random.choice((2, 30, 2000))
    nodes: list[Any] = [{"work": random.choice(works), "after": []} for _ in range(count)]
    empty = range(count, count + random.choice((1, 30, 2000)))
    nodes += [{"after": list(range(count)) if i == count else [i - 1]} for i in empty]
    document.setdefault("graphs", []).append({"nodes": nodes})
    document["operations"].append({"type": "graph", "stream": 0, "graph": len(document["graphs"]) - 1})


def _contents(document: Any) -> Parts:
    """Every list of hashes."""
    return [
        (holder, key)
        for holder, key in _places(document, list)
        if holder[key] and all(isinstance(one, str) and len(one) == 64 for one in holder[key])
    ]


def _swapped(random: Random, document: Any, _: Path) -> None:
    places = _contents(document)
    (holder, key), (other, its) = random.choice(places), random.choice(places)
    holder[key], other[its] = other[its], holder[key]


def _forged_chunk(random: Random, document: Any, out: Path) -> None:
    """Other bytes, with their right hash: a bit, a hole, random ones, an end that is missing, too many."""
    holder, key = random.choice(_contents(document))
    at = random.randrange(len(holder[key]))
    blob = out / BLOBS / f"{holder[key][at]}.zst"
    if not blob.is_file():
        return
    data = bytearray(zstandard.ZstdDecompressor().decompress(blob.read_bytes()))
    place = random.randrange(len(data) or 1)
    for _ in range(random.choice((1, 1, 4, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    width = random.choice((2, 4, 8, 64))
    data = random.choice((
        data, data[:place], data + data, data[:place] + b"\xff" * width + data[place + width :], random.randbytes(len(data)),
        data[:64] + bytes(max(len(data) - 64, 0)),
    ))  # fmt: skip
    holder[key][at] = _put(out, bytes(data))
    if "size" in holder and random.random() < 0.5:
        holder["size"] = len(data)


def _bomb(random: Random, document: Any, out: Path) -> None:
    """Contents of one small chunk, thousands of times: what is some kilobytes on disk and gigabytes in memory."""
    document["chunk_bytes"] = 16 << 20
    name = _put(out, bytes(16 << 20))
    places = [place for place in _contents(document) if "size" in place[0]]
    if not places:
        return
    holder, key = random.choice(places)
    count = random.choice((16, 512, 100_000))
    holder[key], holder["size"] = [name] * count, count * (16 << 20)


def _put(out: Path, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    (out / BLOBS / f"{name}.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
    return name


_FORGERIES = (
    _number, _number, _number, _number, _number_of_another, _number_of_another, _text, _lost, _odd, _more, _many, _shuffled,
    _moved, _synchronized, _graph, _swapped, _forged_chunk, _forged_chunk, _bomb,
)  # fmt: skip


# --- files, with the hashes as they were ---


def _file(random: Random, out: Path) -> Path:
    return random.choice(sorted(path for path in out.rglob("*") if path.is_file()))


def _damaged(random: Random, out: Path) -> None:
    """Other bits, a piece that is lost, doubled or in another place, an end that is missing or too long."""
    file = _file(random, out)
    whole = file.read_bytes()
    at, length = random.randrange(len(whole)), random.randrange(1, 64)
    changed = whole
    while changed == whole:
        changed = random.choice((
            whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :], whole[:at] + whole[at + length :],
            whole[: at + length] + whole[at : at + length] + whole[at + length :], whole[:at], b"",
            whole + random.randbytes(length), b"\xff\xfe" + whole, whole + whole, random.randbytes(len(whole)),
        ))  # fmt: skip
    file.write_bytes(changed)


def _nested(random: Random, out: Path) -> None:
    depth = random.choice((100, 5000, 1_000_000))
    (out / MANIFEST).write_bytes(
        random.choice((b"[" * depth, b'{"a":' * depth, b'{"format":' + b"[" * depth))
    )


def _linked(random: Random, out: Path) -> None:
    """A link, even to the same bytes, in the place of a file or of the folder of blobs."""
    place = random.choice((out / BLOBS, _file(random, out)))
    away = out.with_name(out.name + ".away")
    place.rename(away)
    place.symlink_to(random.choice((away, "/dev/zero", "/etc/passwd", "nowhere", place.name)))


def _special(random: Random, out: Path) -> None:
    file = _file(random, out)
    file.unlink()
    kind = random.choice(("fifo", "folder", "socket", "nothing"))
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "socket":
        folder = os.open(file.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as made:  # paths of sockets are short
            made.bind(f"/proc/self/fd/{folder}/{file.name}"[:107])
        os.close(folder)


def _exchanged(random: Random, out: Path) -> None:
    """Two chunks in each other's place."""
    blobs = sorted((out / BLOBS).iterdir())
    one, other = random.sample(blobs, 2)
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def _repacked(random: Random, out: Path) -> None:
    """A frame of another size, without its size, with a window of its own, or with another frame behind it."""
    blob = random.choice(sorted((out / BLOBS).iterdir()))
    data = zstandard.ZstdDecompressor().decompress(blob.read_bytes())
    blob.write_bytes(random.choice((
        zstandard.ZstdCompressor(write_content_size=False).compress(data), blob.read_bytes() * 2,
        zstandard.ZstdCompressor().compress(data + b"x"), zstandard.ZstdCompressor().compress(bytes(1 << 26)),
        zstandard.ZstdCompressor().compress(bytes(len(data) + 1)),
    )))  # fmt: skip


_DAMAGES = (_damaged, _damaged, _damaged, _nested, _linked, _special, _exchanged, _repacked)
