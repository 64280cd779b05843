"""Patterns in the values that instructions load and store, after GVProf (SC'20) and ValueExpert (ASPLOS'22).

The type of values (integers, floats of 16, 32 or 64 bits) follows from the instruction that uses or produces them. If it only
moves them, they are words, about which less is known.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.operands import access
from warpsight.formats.events.kinds import READ, WRITE
from warpsight.sass.events.trace import EventTrace, TracedInstruction

Array = npt.NDArray[Any]
#: Instructions with fewer values are skipped.
FEWEST = 32
#: A value is frequent from this share on, if there are few distinct ones.
FREQUENT, FEW_DISTINCT = 0.5, 0.1
#: Bits of a mantissa that approximate values keep.
_KEPT_BITS = 8
_MOST_VALUES = 1 << 20
_TYPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("float64", re.compile(r"^(D(ADD|MUL|FMA|SETP|MNMX)|F2F\.F32\.F64|F2I\S*F64)")),
    ("float32", re.compile(r"^(F(ADD|MUL|FMA|SETP|MNMX|SEL|SWZADD|CHK)|MUFU|F2F|F2I|F2FP)")),
    ("float16", re.compile(r"^H(ADD2|MUL2|FMA2|SETP2|MNMX2)(?!\S*BF16)")),
    (
        "integer",
        re.compile(r"^(I(ADD|ADD3|MAD|SETP|MNMX|ABS|DP)|LEA|VIADD|SHF|I2F|I2FP|POPC|FLO|U?SEL|LOP3)"),
    ),
    ("bfloat16", re.compile(r"^H(ADD2|MUL2|FMA2|SETP2|MNMX2)\S*BF16")),
)
_WORD, _INTEGER = "word", "integer"
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
#: Instructions after a load, or before a store, in which its user or maker is looked for.
_REACH = 96


@dataclass(frozen=True)
class ValuePatterns:
    """The values of one memory instruction over all launches of its kernel.

    Attributes:
        kernel, where, sass: the instruction; operation: load or store.
        type: type of the values: `float32`, …, `integer`, or `word` if the code does not say; bytes: bytes per value.
        values: number of values examined; distinct: exact number of distinct ones.
        zero, most_common: shares of zeros and of the most common value; example: that value, as text.
        not_finite: number of NaNs and infinities.
        patterns: those found, each with its reason.
    """

    kernel: str
    where: str
    sass: str
    operation: str
    type: str
    bytes: int
    values: int
    distinct: int
    zero: float
    most_common: float
    example: str
    not_finite: int
    patterns: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return asdict(self)


def value_patterns(trace: EventTrace) -> list[ValuePatterns]:
    """Every memory instruction with recorded values; those with patterns first, then by the share of the most common value."""
    types = _Types(trace)
    parts: dict[tuple[str, TracedInstruction, int], list[tuple[Array, Array, int]]] = {}
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        events = events.take(events.is_access & events.has_values)
        for batch in events.batches():
            operation = batch.flags & (READ | WRITE)
            keys, inverse = np.unique(
                np.stack([batch.pc.astype(np.int64), operation.astype(np.int64)], axis=1), axis=0, return_inverse=True
            )  # fmt: skip
            places = trace.places(launch, keys[:, 0].astype(np.uint32))
            for number, (place, (_, kind)) in enumerate(zip(places, keys.tolist(), strict=True)):
                own = batch.take(np.flatnonzero(inverse.ravel() == number))
                part = own.values()[own.active], own.operand(0)[own.active], int(own.size[0])
                parts.setdefault((launch.name, place, kind), []).append(part)
    rows = [_patterns(trace, types, key, listed) for key, listed in parts.items()]
    return sorted(
        rows, key=lambda row: (not row.patterns, -row.most_common, -row.values, row.where, row.operation)
    )


def _patterns(
    trace: EventTrace, types: _Types, key: tuple[str, TracedInstruction, int], parts: list[tuple[Array, Array, int]]
) -> ValuePatterns:  # fmt: skip
    kernel, place, kind = key
    words = np.concatenate([words for words, _, _ in parts])[:_MOST_VALUES]
    addresses = np.concatenate([addresses for _, addresses, _ in parts])[:_MOST_VALUES]
    size = parts[0][2]
    type_ = types.of(place, kind == READ)
    bytes_ = min(_BYTES.get(type_, size if size <= 8 else 4), size)
    raw = _elements(words, size, bytes_)
    places = (addresses[:, None] + np.arange(0, size, bytes_, dtype=np.uint64)).ravel()
    listed, counts = np.unique(raw, return_counts=True)
    numbers = _numbers(listed, type_, bytes_)
    finite = np.isfinite(numbers)
    zero = float(counts[numbers == 0].sum() / len(raw))
    top = int(counts.argmax())
    return ValuePatterns(
        kernel, trace.describe(place), trace.sass(place), "load" if kind == READ else "store", type_, bytes_, len(raw),
        len(listed), zero, float(counts[top] / len(raw)), f"{numbers[top]:.9g}", int(counts[~finite].sum()),
        tuple(_found(raw, places, listed, counts, numbers, type_, bytes_)),
    )  # fmt: skip


def _elements(words: Array, size: int, bytes_: int) -> Array:
    """The values of lanes, split into elements: 16 bytes of float32 are four values."""
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), 16)[:, :size]
    return np.asarray(np.ascontiguousarray(raw).view(f"<u{bytes_}").ravel().astype(np.uint64))


def _numbers(raw: Array, type_: str, bytes_: int) -> Array:
    """As float64; integers and words are signed."""
    if type_ == "bfloat16":
        return np.asarray((raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
    kind = {"float64": "<f8", "float32": "<f4", "float16": "<f2"}.get(type_, f"<i{bytes_}")
    with np.errstate(invalid="ignore"):
        return np.asarray(raw.astype(f"<u{bytes_}").view(kind).astype(np.float64))


def _found(
    raw: Array, places: Array, listed: Array, counts: Array, numbers: Array, type_: str, bytes_: int
) -> list[str]:  # fmt: skip
    if len(raw) < FEWEST:
        return []
    if len(listed) == 1:
        return ["all zero" if numbers[0] == 0 else f"always {numbers[0]:.9g}"]
    found = []
    most = counts.max() / len(raw)
    if most >= FREQUENT and len(listed) <= max(FEW_DISTINCT * len(raw), 2):
        found.append(f"{most:.0%} are {numbers[counts.argmax()]:.9g}")
    if type_ == _WORD:
        return found
    float_ = type_ != _INTEGER
    finite = numbers[np.isfinite(numbers)]
    if float_ and len(finite) and (finite == np.trunc(finite)).all() and np.abs(finite).max() < 2**31:
        found.append("floats that are whole numbers")
    narrower = _narrower(numbers, type_, bytes_)
    if narrower:
        found.append(f"fit into {narrower}")
    if float_ and not found:
        dropped = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}[type_] - _KEPT_BITS
        rough = np.unique(listed >> np.uint64(dropped)) if dropped > 0 else listed
        if len(rough) <= FEW_DISTINCT * len(listed):
            found.append(f"only {len(rough):,} differ in the first {_KEPT_BITS} bits of their mantissas")
    step = _step(places, _numbers(raw, type_, bytes_))
    if step is not None:
        found.append(f"grow by {step:.9g} with each address")
    return found


def _narrower(numbers: Array, type_: str, bytes_: int) -> str:
    """A smaller type that represents all values exactly."""
    if type_ == _INTEGER:
        low, high = numbers.min(), numbers.max()
        for bytes_of in (1, 2, 4):
            half = 2.0 ** (8 * bytes_of - 1)
            if bytes_of < bytes_ and low >= -half and high < 2 * half and (low >= 0 or high < half):
                return f"{8 * bytes_of} bits"
        return ""
    for name, narrow in (("float16", np.float16), ("float32", np.float32)):
        if _BYTES[name] < _BYTES[type_]:
            with np.errstate(over="ignore", invalid="ignore"):
                if np.array_equal(numbers.astype(narrow).astype(np.float64), numbers, equal_nan=True):
                    return name
    return ""


def _step(places: Array, numbers: Array) -> float | None:
    """The step of values that are linear in their address; None if they are not, or are all equal."""
    unique, first = np.unique(places, return_index=True)
    values = numbers[first]
    if len(unique) < FEWEST or not np.isfinite(values).all():
        return None
    run = np.diff(unique)
    width = run.min()
    with np.errstate(over="ignore", invalid="ignore"):
        slope = np.diff(values) / (run // width).astype(np.float64)
    same = slope[0] != 0 and (slope == slope[0]).all() and (run % width == 0).all()
    constant = np.array_equal(values[np.searchsorted(unique, places)], numbers)
    return float(slope[0]) if same and constant else None


class _Types:
    """The types of values, derived from the code around their instruction."""

    def __init__(self, trace: EventTrace) -> None:
        self._trace = trace
        self.of = lru_cache(maxsize=4096)(self._of)

    def _of(self, place: TracedInstruction, load: bool) -> str:
        listed = self._trace.instructions(place.module, place.function)
        own = access(listed.get(place.offset, ""))
        wanted = own.writes if load else own.reads & ~own.addresses & ~own.guard
        step = INSTRUCTION_SIZE if load else -INSTRUCTION_SIZE
        for offset in range(place.offset + step, place.offset + _REACH * step, step):
            text = listed.get(offset)
            if text is None or not wanted:
                break
            known = access(text)
            touches = (known.reads if load else known.writes) & wanted
            if touches:
                plain = text.split(None, 1)[1] if text.startswith("@") and " " in text else text
                found = next((name for name, pattern in _TYPES if pattern.match(plain)), None)
                if found:
                    return found
                if not load:
                    break
            wanted &= ~known.writes if load else ~0
        return _WORD
