"""Loops announced by the program: marks and ranges that recur on one thread."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.model.naming.texts import texts
from warpsight.model.work import distinct, numbered, split, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
NUMBER = re.compile(r"\d+")
_NUMBERED = re.compile(r"#?\d+")
#: Ranges that frameworks put around or at the start of every iteration of a main loop, in any program: torch.profiler's steps,
#: the batch fetch of torch's DataLoader.
_FRAMEWORK = re.compile(r"^ProfilerStep#|^enumerate\(DataLoader\)#")
#: Names that people give to iterations of a main loop: among several candidates, one with such a name is preferred. Inference
#: engines name the batch that they execute: `execute_context_1(512)_generation_8(8)`.
TURN_NAMES = re.compile(
    r"(?<![a-z])(step|iter|iteration|batch|epoch|token|decode|generate|request|frame|sample)s?(?![a-z])|^execute_.*#",
    re.IGNORECASE,
)
#: Where a word begins inside of another, as in `processRequest`.
_INNER_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Names of model parts that recur in every iteration: a name with such a number or ending announces no loop.
PART_NAMES = re.compile(
    r"((?<![A-Za-z])(layer|block)|(?<![A-Za-z])(LAYER|BLOCK)|Layer|Block)s?([^A-Za-z]*$|[ _.:\[(]*#)"
)
#: Names of a pass through a model.
PASS = re.compile(r"(?<![a-z])(forward|backward|fwd|bwd)(?![a-z])", re.IGNORECASE)
#: How frameworks and runtimes implement an iteration: torch's operators, XLA's executions of any program.
_MACHINERY = re.compile(
    r"^(aten|prims?|c10d|_c10d_functional|torch|autograd|quantized)::|"
    r"^(PJRT_|PjRt|TfrtCpu|GpuExecutable|BufferSequencingEvent|ThenExecute)"
)
#: Ranges that occur more often than this are not iterations of a main loop; maximum patterns of names examined per table.
MOST, _PATTERNS = 200_000, 48
#: Names examined by themselves among those that differ in numbers.
_LABELS = 4
#: How a loop was announced; lower ranks are stronger evidence.
MARKED, FRAMEWORK, COUNTED, REPEATED = range(4)


@dataclass(frozen=True)
class Loop:
    """Turns of a loop on one thread, by begin (ns).

    Attributes:
        rank: MARKED (`ws.step()`), FRAMEWORK, COUNTED (names that count up: `batch 3`), REPEATED (one name again and again).
        source: How it was announced, in words.
        end: End of each turn's range; the start of the next where it was marked.
        label: Text of each turn.
        named: Whether people usually give its name to iterations.
        part: Whether people usually give its name to parts of a model, or it is the name of a framework's operator.
    """

    rank: int
    source: str
    process: int
    thread: int
    begin: Column
    end: Column
    label: list[str]
    named: bool
    part: bool = False

    def __len__(self) -> int:
        return len(self.begin)


def load(trace: StoredTrace) -> tuple[Loop, ...]:
    """The loops that a program announced, cached while the trace is open."""
    return trace.kept.get("announced loops", lambda: tuple(_load(trace)))


_FIELDS = {"start": 0, "duration": -1, "thread": 0, "process": 0}


def _load(trace: StoredTrace) -> Iterator[Loop]:
    if trace.count("user_event"):
        yield from _events(trace)
    if trace.count("marker"):
        yield from _grouped(*_of_table(trace, "marker"), texts(trace, "name"), "range")
    if trace.count("op"):
        columns, name_id = _of_table(trace, "op")
        keep = _begins(trace, name_id, ("ProfilerStep#", "enumerate("))
        columns = {name: column[keep] for name, column in columns.items()}
        yield from _grouped(columns, name_id[keep], texts(trace, "name"), "operator")


def names_a_turn(text: str) -> bool:
    """Whether a name, or a word in it, is one that people give to iterations of a main loop."""
    return TURN_NAMES.search(_INNER_WORD.sub(" ", text)) is not None


def shared(trace: StoredTrace) -> list[tuple[Loop, frozenset[int]]]:
    """Turns that several threads take, each as it is free, and these threads.

    They are ranges with a name for turns, on more than one thread of a process. `thread` is -1; `end` is the latest one so far.
    """
    out: list[tuple[Loop, frozenset[int]]] = []
    if not trace.count("marker"):
        return out
    columns, name_id = _of_table(trace, "marker")
    named = texts(trace, "name")
    patterns = {i: _NUMBERED.sub("#", named.get(i) or "") for i in values_in(name_id).tolist()}
    for pattern in sorted({text for text in patterns.values() if names_a_turn(text)}):
        like = np.isin(name_id, [i for i, text in patterns.items() if text == pattern])
        for process in values_in(columns["process"][like]).tolist():
            rows = np.flatnonzero(like & (columns["process"] == process))
            threads = frozenset(values_in(columns["thread"][rows]).tolist())
            if len(rows) > MOST or len(threads) < 2:
                continue
            rows = rows[np.argsort(columns["start"][rows], kind="stable")]
            begin = columns["start"][rows]
            end = np.maximum.accumulate(begin + columns["duration"][rows])
            label = [named.get(i) or "" for i in name_id[rows].tolist()]
            source = f"range {pattern!r} of several threads"
            out.append((Loop(REPEATED, source, process, -1, begin, end, label, True), threads))
    return out


def count(trace: StoredTrace, process: int, prefix: str) -> int:
    """How many ranges and operators of a process have a name that begins with `prefix`."""
    found = 0
    for table in ("marker", "op"):
        if trace.count(table):
            columns, name_id = _of_table(trace, table)
            mine = columns["process"] == process
            found += int(np.count_nonzero(mine & _begins(trace, name_id, (prefix,))))
    return found


def _of_table(trace: StoredTrace, table: str) -> tuple[dict[str, Column], Column]:
    """The host's ranges in a table, and their names."""
    coded_columns = ["category"] if table == "marker" else []
    columns, coded = trace.columns(table, {**_FIELDS, "name_id": 0}, coded_columns)
    keep = columns["duration"] > 0
    if table == "marker":
        kinds = coded["category"]
        # Functions are how an iteration does its work; ranges that a profiler drew on the device side are not announcements.
        left_out = [
            kinds.index(kind) for kind in ("python_function", "gpu_user_annotation", "Trace") if kind in kinds
        ]
        keep &= ~np.isin(columns["category"], left_out)
    return {name: columns[name][keep] for name in _FIELDS}, columns["name_id"][keep]


def _begins(trace: StoredTrace, name_id: Column, prefixes: tuple[str, ...]) -> Column:
    """Which of these names begin with one of the prefixes."""
    ids = [number for number, name in texts(trace, "name").items() if name.startswith(prefixes)]
    return np.isin(name_id, ids)


def _events(trace: StoredTrace) -> Iterator[Loop]:
    """`ws.step()` calls, each of which ends an iteration, and events with a duration."""
    columns, coded = trace.columns("user_event", _FIELDS, ["name", "kind"])
    kinds = coded["kind"]
    step = columns["kind"] == (kinds.index("step") if "step" in kinds else -2)
    marks = np.flatnonzero(step & (columns["duration"] == 0))
    group, (processes, threads) = numbered([columns["process"][marks], columns["thread"][marks]])
    for number, rows in enumerate(split(group, len(processes))):
        ends = np.sort(columns["start"][marks[rows]])
        begin = np.concatenate([[np.iinfo(np.int64).min], ends[:-1]])
        label = [str(turn) for turn in range(len(ends))]
        yield Loop(
            MARKED, "ws.step()", int(processes[number]), int(threads[number]), begin, ends, label, True
        )
    rest = np.flatnonzero(columns["duration"] > 0)
    named = dict(enumerate(coded["name"]))
    yield from _grouped(
        {name: columns[name][rest] for name in _FIELDS}, columns["name"][rest], named, "event"
    )


def _grouped(columns: dict[str, Column], name: Column, named: Mapping[int, str], what: str) -> Iterator[Loop]:
    """Loops among ranges: non-overlapping ranges of one thread whose names differ only in numbers."""
    ids, place = distinct(name)
    patterns: dict[str, int] = {}
    code = np.array(
        [patterns.setdefault(_NUMBERED.sub("#", named.get(i) or ""), len(patterns)) for i in ids.tolist()]
        or [0]
    )[place]
    listed = list(patterns)
    group, (processes, threads, codes) = numbered([columns["process"], columns["thread"], code])
    length = np.bincount(group, weights=columns["duration"].astype(float), minlength=len(codes))
    count = np.bincount(group, minlength=len(codes))
    framework = np.array([_FRAMEWORK.match(listed[c]) is not None for c in codes.tolist()], bool)
    likely = np.flatnonzero(count <= MOST)
    likely = likely[np.lexsort((-length[likely], ~framework[likely]))][:_PATTERNS]
    rows_of = split(group, len(codes))
    for number in likely.tolist():
        rows = rows_of[number]
        rows = rows[np.lexsort((-columns["duration"][rows], columns["start"][rows]))]
        begin = columns["start"][rows]
        end = begin + columns["duration"][rows]
        reach = np.maximum.accumulate(end)
        outer = np.append(True, begin[1:] >= reach[:-1]) if len(rows) else np.zeros(0, bool)
        if int(outer.sum()) < len(rows) * 0.5:  # a function that calls itself, not a loop
            continue
        rows, begin, end = rows[outer], begin[outer], end[outer]
        label = [named.get(i) or "" for i in name[rows].tolist()]
        pattern = listed[int(codes[number])]
        is_turn = TURN_NAMES.search(pattern) is not None
        rank = FRAMEWORK if framework[number] else COUNTED if _counts_up(label, is_turn) else REPEATED
        shown = pattern if rank != REPEATED else label[0]
        part = _MACHINERY.match(pattern) is not None or (
            not is_turn and PART_NAMES.search(pattern) is not None
        )
        place_of = int(processes[number]), int(threads[number])
        yield Loop(rank, f"{what} {shown!r}", *place_of, begin, end, label, is_turn, part)
        if rank == REPEATED:
            for same, mine in _again_and_again(label):
                yield Loop(
                    rank,
                    f"{what} {same!r}",
                    *place_of,
                    begin[mine],
                    end[mine],
                    [same] * len(mine),
                    is_turn,
                    part,
                )


def _again_and_again(label: list[str]) -> Iterator[tuple[str, Column]]:
    """Names that come several times among others that differ in numbers, and their places.

    Stages of a turn may be numbered: `mask 1.0`, `mask 1.1`, `mask 1.0`, `mask 1.1`.
    """
    counts = Counter(label)
    for text, count in counts.most_common(_LABELS) if len(counts) > 1 else ():
        if count > 2:
            yield text, np.flatnonzero(np.array([one == text for one in label], bool))


def _counts_up(label: list[str], named: bool) -> bool:
    """Whether the numbers in the names go up from turn to turn: layers count up too, but begin again in every turn.

    One number counts; more than one do in names of turns (`epoch 1 step 20`), while in others they are sizes and shapes.
    """
    if len(label) < 2 or len(set(label)) < len(label):
        return False
    numbers = [tuple(map(int, NUMBER.findall(text))) for text in label[:2000]]
    counters = sum(len(set(column)) > 1 for column in zip(*numbers, strict=False))
    return (counters == 1 or named) and all(one < other for one, other in itertools.pairwise(numbers))
