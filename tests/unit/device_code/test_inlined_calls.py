"""Inlined calls in `.debug_info`: random trees of entries, written form by form, against walking over the trees."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from warpsight.device_code.debug_info.dwarf_info import InfoAddress, InlinedCall, inlined_calls

UNIT, SUBPROGRAM, INLINED, BLOCK, VARIABLE = 0x11, 0x2E, 0x1D, 0x0B, 0x34
NAME, LOW, HIGH, ORIGIN, SPECIFICATION, RANGES, LINKAGE, MIPS = (
    0x03,
    0x11,
    0x12,
    0x31,
    0x47,
    0x55,
    0x6E,
    0x2007,
)
COLUMN, FILE, LINE = 0x57, 0x58, 0x59
#: Sizes of what each form of fixed size holds (DWARF 5, 7.5.6), without addresses, references and strings.
FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x17: 4, 0x1F: 4, 0x20: 8, 0x25: 1, 0x26: 2, 0x28: 4, 0x29: 1,
         0x2A: 2, 0x2C: 4}  # fmt: skip
REFERENCES = {0x12: 2, 0x13: 4, 0x14: 8}
BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}


def leb(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@dataclass
class Entry:
    """An entry of the tree: attributes as (attribute, form, value); a value of a reference is an entry."""

    tag: int
    attributes: list[tuple[int, int, object]] = field(default_factory=list)
    inner: list[Entry] = field(default_factory=list)
    offset: int = 0  # in the section; known once it was written
    low: int = 0  # where its address stands

    def value(self, attribute: int) -> object:
        return next((value for one, _, value in self.attributes if one == attribute), None)


class Unit:
    """Writes one unit; its abbreviations have numbers of their own, which another unit uses for others."""

    def __init__(self, rng: random.Random, root: Entry, version: int, size: int) -> None:
        self.root, self.version, self.size, self.rng = root, version, size, rng
        self.codes: dict[tuple[object, ...], int] = {}
        self.numbers = rng.sample(range(1, 300), 250)

    def written(self, at: int, table: int, strings: bytearray) -> bytes:
        """The unit at `at` of the section; twice, as references go forward too."""
        for _ in range(2):
            offset, size = table.to_bytes(4, "little"), bytes([self.size])
            head = b"\1" + size + offset if self.version == 5 else offset + size
            body = bytearray(self.version.to_bytes(2, "little") + head)
            self._entry(self.root, body, at, strings)
            out = len(body).to_bytes(4, "little") + bytes(body)
        return out

    def abbreviations(self) -> bytes:
        out = bytearray()
        for (tag, children, *attributes), code in self.codes.items():
            assert isinstance(tag, int)
            out += leb(code) + leb(tag) + bytes([bool(children)])
            for attribute, form, constant in attributes:  # type: ignore[misc]
                out += leb(attribute) + leb(form) + (leb(constant) if form == 0x21 else b"")
            out += b"\0\0"
        return bytes(out) + b"\0"

    def _entry(self, entry: Entry, body: bytearray, at: int, strings: bytearray) -> None:
        entry.offset = at + 4 + len(body)
        shape = tuple((name, form, value if form == 0x21 else 0) for name, form, value in entry.attributes)
        key = (entry.tag, bool(entry.inner), *shape)
        body += leb(self.codes.setdefault(key, self.numbers[len(self.codes)]))
        for name, form, value in entry.attributes:
            if name == LOW:
                entry.low = at + 4 + len(body)
            body += self._value(form, value, at, strings)
        for one in entry.inner:
            self._entry(one, body, at, strings)
        body += b"\0" if entry.inner else b""

    def _value(self, form: int, value: object, at: int, strings: bytearray) -> bytes:
        if form in REFERENCES or form == 0x15:
            assert isinstance(value, Entry)
            place = value.offset - at if value.offset else 0
            # A number of fixed length, so that writing twice gives the same places.
            return (
                bytes([place & 127 | 128, place >> 7])
                if form == 0x15
                else place.to_bytes(REFERENCES[form], "little")
            )
        if form == 0x0E:
            strings += str(value).encode() + b"\0"
            return (len(strings) - len(str(value)) - 1).to_bytes(4, "little")
        if form == 0x08:
            return str(value).encode() + b"\0"
        assert isinstance(value, int)
        if form == 0x16:
            return leb(0x05) + value.to_bytes(2, "little")
        if form in (0x09, 0x18, *BLOCKS):
            length = value.to_bytes(BLOCKS[form], "little") if form in BLOCKS else leb(value)
            return length + b"\xff" * value
        if form in (0x0F, 0x0D):
            return leb(value)
        if form in (0x19, 0x21):
            return b""
        return value.to_bytes(self.size if form == 0x01 else FIXED[form], "little")


def number(rng: random.Random, attribute: int, most: int = 127) -> tuple[int, int, int]:
    """An attribute with a small number in any of the forms that hold one."""
    return attribute, rng.choice([0x0B, 0x05, 0x06, 0x07, 0x0F, 0x0D, 0x21, 0x16]), rng.randrange(1, most)


def ignored(rng: random.Random) -> list[tuple[int, int, object]]:
    """Attributes that say nothing about calls, in forms of every size."""
    forms = [*FIXED, *BLOCKS, 0x09, 0x18, 0x19, 0x0F]
    return [
        (0x1000 + form, form, 1 if form == 0x19 else rng.randrange(100))
        for form in rng.sample(forms, rng.randrange(5))
    ]


def callee(rng: random.Random, number_: int) -> Entry:
    names = {LINKAGE: f"_Z{number_}f", MIPS: f"_M{number_}f", NAME: f"f{number_}"}
    chosen = rng.sample(list(names), rng.randrange(1, 4))
    return Entry(SUBPROGRAM, [(name, rng.choice([0x08, 0x0E]), names[name]) for name in chosen])


def body(rng: random.Random, callees: list[Entry], depth: int) -> list[Entry]:
    """Inlined calls, blocks and variables inside one another."""
    out = []
    for _ in range(rng.randrange(4) if depth < 4 else 0):
        tag = rng.choice([INLINED, INLINED, BLOCK, VARIABLE])
        own: list[tuple[int, int, object]] = ignored(rng)
        if tag == INLINED:
            own.append((ORIGIN, rng.choice([*REFERENCES, 0x15]), rng.choice(callees)))
            if rng.random() < 0.8:
                high = (HIGH, 0x01, rng.randrange(1 << 30)) if rng.random() < 0.5 else number(rng, HIGH)
                own += [(LOW, 0x01, rng.randrange(1 << 30)), high]
            else:
                own.append((RANGES, 0x17, 8))
            own += [number(rng, name) for name in (FILE, LINE, COLUMN) if rng.random() < 0.8]
        rng.shuffle(own)
        out.append(Entry(tag, own, [] if tag == VARIABLE else body(rng, callees, depth + 1)))
    return out


def tree(rng: random.Random) -> Entry:
    callees = [callee(rng, one) for one in range(3)]
    declared = [Entry(SUBPROGRAM, [(SPECIFICATION, 0x13, rng.choice(callees))])]  # named by what it specifies
    kernels = [Entry(SUBPROGRAM, [*ignored(rng)], body(rng, callees + declared, 0)) for _ in range(3)]
    return Entry(
        UNIT, [(NAME, 0x08, "a.cu"), *ignored(rng)], [*kernels[:1], *declared, *callees, *kernels[1:]]
    )


def name_of(entry: Entry) -> str:
    for attribute in (LINKAGE, MIPS, NAME):
        if entry.value(attribute):
            return str(entry.value(attribute))
    for attribute in (ORIGIN, SPECIFICATION):
        target = entry.value(attribute)
        if isinstance(target, Entry):
            return name_of(target)
    return ""


def expected(entry: Entry, depth: int = 0) -> Iterator[InlinedCall]:
    low, high = entry.value(LOW), entry.value(HIGH)
    if entry.tag == INLINED and isinstance(low, int) and isinstance(high, int):
        is_address = any(one == HIGH and form == 0x01 for one, form, _ in entry.attributes)
        file, line, column = (entry.value(name) or 0 for name in (FILE, LINE, COLUMN))
        assert isinstance(file, int) and isinstance(line, int) and isinstance(column, int)
        yield InlinedCall(name_of(entry), InfoAddress(entry.low, low), InfoAddress(-1, high), not is_address, file, line,
                          column, depth)  # fmt: skip
    for one in entry.inner:
        yield from expected(one, depth + 1)


def section(rng: random.Random, units: list[Unit], damaged: int = -1) -> tuple[bytes, bytes, bytes]:
    """The section of units, their abbreviations one after another, and their strings; one unit may be of an unknown version."""
    info, tables, strings = bytearray(), bytearray(b"\0" * rng.randrange(3)), bytearray(b"first\0")
    for place, unit in enumerate(units):
        unit.written(len(info), len(tables), bytearray())  # gives the abbreviations their numbers
        whole = bytearray(unit.written(len(info), len(tables), strings))
        if place == damaged:
            whole[4] = 6
        tables += unit.abbreviations()
        info += whole
    return bytes(info), bytes(tables), bytes(strings)


def units_of(rng: random.Random, count: int) -> list[Unit]:
    return [Unit(rng, tree(rng), rng.choice([2, 3, 4, 5]), rng.choice([4, 8])) for _ in range(count)]


def alike(found: list[InlinedCall], wanted: list[InlinedCall]) -> bool:
    """Where an end that is an address stands is not compared."""
    for one, other in zip(found, wanted, strict=True):
        assert (one.high.operand < 0) == one.high_is_length
        other.high = InfoAddress(one.high.operand, other.high.value)
    return found == wanted


@pytest.mark.parametrize("seed", range(40))
def test_every_inlined_call_of_every_unit_is_read_in_order(seed: int) -> None:
    rng = random.Random(seed)
    units = units_of(rng, rng.randrange(1, 4))
    problems: list[str] = []
    found = inlined_calls(*section(rng, units), problems)
    assert problems == []
    assert alike(found, [call for unit in units for call in expected(unit.root)])


@pytest.mark.parametrize("seed", range(6))
def test_a_unit_of_an_unknown_version_costs_its_own_calls_only(seed: int) -> None:
    rng = random.Random(seed)
    units = units_of(rng, 3)
    problems: list[str] = []
    info, tables, strings = section(rng, units, damaged=1)
    found = inlined_calls(info, tables, strings, problems)
    begin = int.from_bytes(info[:4], "little") + 4
    assert problems == [f".debug_info: the unit at {begin} is damaged (version 6 is not known)"]
    assert alike(found, [call for unit in (units[0], units[2]) for call in expected(unit.root)])


def test_functions_that_name_each_other_in_a_ring_have_no_name() -> None:
    one, other = Entry(SUBPROGRAM), Entry(SUBPROGRAM)
    one.attributes, other.attributes = [(ORIGIN, 0x13, other)], [(SPECIFICATION, 0x13, one)]
    call = Entry(INLINED, [(ORIGIN, 0x13, one), (LOW, 0x01, 16), (HIGH, 0x0B, 8)])
    rng = random.Random(0)
    found = inlined_calls(*section(rng, [Unit(rng, Entry(UNIT, [], [call, one, other]), 4, 8)]), [])
    assert [(one.function, one.depth, one.high.value) for one in found] == [("", 1, 8)]


#: A unit of version 4 whose root has one subprogram, and its abbreviations.
SMALL = bytes([4, 0, 0, 0, 0, 0, 8, 1, 2, 0])
TABLE = bytes([1, UNIT, 1, 0, 0, 2, SUBPROGRAM, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("unit", "table", "word"),
    [
        (SMALL, TABLE, ""),
        (SMALL, TABLE[:6], "ends early"),
        (SMALL, TABLE[:5] + b"\3" + TABLE[6:], "abbreviation 2 is not defined"),
        (SMALL[:-2] + b"\x80" * 12, TABLE, "a number does not end"),
        (SMALL[:-2] + b"\x80", TABLE, "ends early"),
        (SMALL, TABLE[:8] + bytes([NAME, 0x08]) + TABLE[8:], ""),  # an empty name
        (SMALL[:-1], TABLE[:8] + bytes([NAME, 0x08]) + TABLE[8:], "a name does not end"),
        (SMALL, TABLE[:8] + bytes([NAME, 0x7F]) + TABLE[8:], "form 0x7f is not known"),
    ],
)
def test_damage_is_named(unit: bytes, table: bytes, word: str) -> None:
    problems: list[str] = []
    assert inlined_calls(len(unit).to_bytes(4, "little") + unit, table, b"", problems) == []
    assert bool(problems) == bool(word) and word in " ".join(problems)


def test_a_unit_that_is_cut_says_how_much_of_it_is_there() -> None:
    whole = len(SMALL).to_bytes(4, "little") + SMALL
    for length, there in ((13, 9), (11, 7)):
        problems: list[str] = []
        assert inlined_calls(whole[:length], TABLE, b"", problems) == []
        assert problems == [
            f".debug_info: the unit at 0 is damaged (it claims 10 bytes, but {there} are present)"
        ]
