"""`sass validate` and `sass compare`: checks a trace file against its format, and compares two files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import msgspec

from warpsight.errors import UsageError
from warpsight.formats.errors import FormatError, decodes
from warpsight.formats.source import Source
from warpsight.formats.writing.clp import source_of
from warpsight_plugins.cutracer import delays, records, text_trace
from warpsight_plugins.cutracer.lines import Chunk, chunks

#: Errors that are reported; all are counted.
_MOST_ERRORS = 10
#: Errors after which the rest is not looked at: a small archive may unpack to billions of lines.
_HOPELESS = 1_000_000
#: Type names by class.
_TAGS: dict[Any, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(records.Record)}
_HEX = re.compile(records.HEX)
_TRACED = attrgetter(*records.TRACED)
#: Records that describe the file are checked and not counted.
_UNCOUNTED = frozenset({"kernel_metadata", "capture_completion"})


class _HopelessError(Exception):
    """There are so many errors that counting stops."""


@dataclass
class Validation:
    """The contents of a file and its errors."""

    file_size: int = 0
    compression: str = "none"
    record_count: int = 0
    error_count: int = 0
    errors: list[str] = field(default_factory=list)
    types: Counter[str] = field(default_factory=Counter)
    #: (cta, warp, instruction) where events name them.
    ctas: set[tuple[int, ...]] = field(default_factory=set)
    warps: set[int] = field(default_factory=set)
    sass: set[str] = field(default_factory=set)

    @property
    def valid(self) -> bool:
        """Whether the file has records and all of them are valid."""
        return not self.error_count and self.record_count > 0

    def to_json(self) -> dict[str, Any]:
        """The result in CUTracer's form, plus the total number of errors."""
        return {
            "valid": self.valid,
            "record_count": self.record_count,
            "file_size": self.file_size,
            "compression": self.compression,
            "message_type": next(iter(self.types), None),
            "types": dict(self.types),
            "error_count": self.error_count,
            "errors": self.errors,
        }

    def wrong(self, line: int, problem: str) -> None:
        """Count an error, and keep it if it is among the first."""
        self.error_count += 1
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(f"line {line}: {problem}")
        if self.error_count >= _HOPELESS:
            self.errors.append(f"line {line}: the {self.error_count:,}th error; the rest was not checked")
            raise _HopelessError


def form_of(path: Path | str) -> str:
    """`json`, `text` or `delays`, by the name or else by the first bytes.

    Raises:
        UsageError: when it is neither.
    """
    name = Path(path).name
    if ".ndjson" in name or ".jsonl" in name:
        return "json"
    with source_of(path) as source:
        first = source.head.lstrip()[:4]
        if delays.is_delays(source.head):
            return "delays"
    if first.startswith(b"{"):
        return "json"
    if name.endswith(".log") or first == b"CTX ":
        return "text"
    raise UsageError(
        f"{path} is neither an NDJSON nor a text trace nor a delay configuration by its name and content; "
        "use --format json, text or delays"
    )


@decodes
def validate(path: Path | str, form: str = "auto", content: bool = False) -> Validation:
    """Check every record of a trace against its type; `content` also notes CTAs, warps and instructions.

    Raises:
        FormatError: when the file does not exist.
        UsageError: when `form` is auto and the kind of file is unknown.
    """
    form = form_of(path) if form == "auto" else form
    with source_of(path) as source:
        found = Validation(source.size, source.compression or "none")
        with suppress(_HopelessError):
            if form == "text":
                _check_text(source, found)
            elif form == "delays":
                _check_delays(path, found)
            else:
                _check_json(source, found, content)
            if source.truncated:
                found.wrong(found.record_count + 1, source.damage)
    if not found.record_count and not found.error_count:
        found.wrong(1, "the file has no records")
    return found


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[records.Record]:
    return msgspec.json.Decoder(records.Record)


def _check_delays(path: Path | str, found: Validation) -> None:
    """Count the points of a delay configuration, or report what is wrong with it."""
    try:
        found.record_count = delays.read(path).points
        found.types["delay_point"] = found.record_count
    except FormatError as error:
        found.wrong(1, error.problem)


def _check_text(source: Source, found: Validation) -> None:
    """Count the records of a text trace and report what is wrong with it."""
    for number, record in text_trace.records(source):
        if isinstance(record, str):
            found.wrong(number, record)
            continue
        found.record_count += 1
        found.types[record["type"]] += 1
        found.ctas.add(tuple(record["cta"]))
        found.warps.add(record["warp"])
        found.sass.add(" ".join(record["sass"].split()))


def _check_json(source: Source, found: Validation, content: bool) -> None:
    table: dict[int, str] = {}
    for chunk in chunks(source):
        try:
            decoded = _decoder().decode_lines(chunk.data)
            _check_traced(decoded)
            _check_hexadecimal(decoded)
        except (msgspec.DecodeError, UnicodeDecodeError):
            decoded = list(_one_by_one(chunk, found))
        for kind, count in Counter(map(type, decoded)).items():
            tag = _TAGS[kind]
            if tag not in _UNCOUNTED:
                found.record_count += count
                found.types[tag] += count
        if content:
            _take_content(decoded, found, table)


def _one_by_one(chunk: Chunk, found: Validation) -> Iterator[Any]:
    """The records of a chunk that contains a bad line."""
    ends = chunk.ends()
    for place, number in enumerate(chunk.numbers(ends).tolist()):
        line = chunk.line(place, ends)
        try:
            record = _decoder().decode(line)
            _check_traced([record])
            _check_hexadecimal([record])
            yield record
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            cut = chunk.open_end and place == len(ends) - 1
            found.wrong(number, f"the record is cut off: {error}" if cut else str(error))


def _check_traced(decoded: Iterable[Any]) -> None:
    """Raise for a record that lacks fields only a cuda-gdb sample may lack, and for a sample without its instruction."""
    for record in decoded:
        if type(record) is records.OpcodeOnly and None in _TRACED(record):
            lacking = [
                name for name, value in zip(records.TRACED, _TRACED(record), strict=True) if value is None
            ]
            if len(lacking) < len(records.TRACED) or record.sass is None:
                raise msgspec.ValidationError(f"Object missing required field `{lacking[0]}`")


def _check_hexadecimal(decoded: Iterable[Any]) -> None:
    """Raise if a string is not hexadecimal as it should be; each distinct string is checked once."""
    events = [record for record in decoded if isinstance(record, records.InstructionRecord)]
    for name in records.HEX_FIELDS:
        for text in {getattr(event, name) for event in events}:
            if text is not None and not _HEX.match(text):
                raise msgspec.ValidationError(f"{text!r} is not hexadecimal - at `$.{name}`")


def _take_content(decoded: Iterable[Any], found: Validation, table: dict[int, str]) -> None:
    """Collect CTAs, warps and instructions of events."""
    for record in decoded:
        if isinstance(record, records.KernelMetadata):
            listed = (record.instructions or {}).items()
            table.update({int(key): str(entry.get("sass", "")) for key, entry in listed if key.isdigit()})
        elif isinstance(record, records.InstructionRecord):
            found.ctas.add(tuple(record.cta))
            found.warps.add(record.warp)
            if text := record.sass or table.get(_opcode(record)):
                found.sass.add(" ".join(text.split()))


def _opcode(record: Any) -> int:
    number = record.opcode_id
    return -1 if number is None else int(number)


@dataclass(frozen=True)
class Comparison:
    """Whether a text and an NDJSON trace of the same run agree."""

    text: Validation
    json: Validation
    differences: tuple[str, ...]

    @property
    def consistent(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """The result in CUTracer's form."""
        counts = self.text.record_count == self.json.record_count
        return {
            "consistent": self.consistent,
            "record_count_match": counts,
            "content_match": not [d for d in self.differences if not d.startswith("records")],
            "text_records": self.text.record_count,
            "json_records": self.json.record_count,
            "unique_ctas_count": len(self.json.ctas),
            "unique_warps_count": len(self.json.warps),
            "unique_sass_count": len(self.json.sass),
            "differences": list(self.differences),
        }


def compare(text: Path | str, json: Path | str) -> Comparison:
    """Compare counts, record types, CTAs, warps and instructions of a text and an NDJSON trace.

    Records that the text form cannot hold (values of memory accesses, TMA) are left out on the NDJSON side and reported.
    """
    first, second = validate(text, "text", content=True), validate(json, "json", content=True)
    differences = [f"{one}: {error}" for one, v in (("text", first), ("json", second)) for error in v.errors]
    unsaid = [k for k in ("mem_value_trace", "tma_trace") if second.types[k]]
    held = second.record_count - sum(second.types[k] for k in unsaid)
    if first.record_count != held:
        differences.append(f"records: {first.record_count:,} in the text, {held:,} in the NDJSON")
    kinds = sorted((set(first.types) | set(second.types)) - set(unsaid))
    differences += [
        f"{kind}: {first.types[kind]:,} in the text, {second.types[kind]:,} in the NDJSON"
        for kind in kinds
        if first.types[kind] != second.types[kind]
    ]
    for name in ("ctas", "warps", "sass"):
        only = getattr(first, name) ^ getattr(second, name)
        if only:
            shown = ", ".join(str(v) for v in sorted(only, key=str)[:3])
            differences.append(f"{name}: {len(only):,} are in one file only, such as {shown}")
    return Comparison(first, second, tuple(differences))
