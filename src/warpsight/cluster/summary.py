"""One rank reduced for the cluster's questions: collectives, time between them by cause, kernels and clocks.

It takes megabytes for a trace of gigabytes, and everything that joins ranks starts from it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis import account
from warpsight.analysis.account import Account, stacks_over
from warpsight.analysis.account.classes import COMMUNICATION, COMPUTE, COPY, HOST
from warpsight.analysis.base.frames import is_library, user_frames
from warpsight.analysis.base.tables import table
from warpsight.analysis.steps import iterations
from warpsight.cluster.collectives import announced, collectives, unfinished
from warpsight.model.naming import kernel_names
from warpsight.model.naming.clock_reasons import REASONS
from warpsight.model.selection import Rows
from warpsight.model.work import KERNEL, Work, numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Increase when the contents of a summary change: older ones are then recreated.
VERSION = 11
#: Maximum names kept separately per class; the rest share one row.
_NAMES = 256
_OTHERS = "others"
#: A row per stretch between two collectives (`interval`), class of the account and name.
_ACCOUNT = "interval:int32 class:int16 name:string time:int64:ns count:int64"
#: A row per stretch and place in the program on the host's stacks: the host's time there, ns; place "" is all of it.
_HOST_PLACES = "interval:int32 place:string time:float64:ns"
_KERNELS = "name:string count:int64 total:int64:ns median:float64:ns"
_STEPS = "start:int64:ns duration:int64:ns label:string"
#: Names of iterations that a program counts: `range 'ProfilerStep#'`, or its own step marks.
_ANNOUNCED = re.compile(r"#|step", re.IGNORECASE)
#: Private functions of a library, except `__next__` and the like, and functions defined inside others.
_WRAPPER = re.compile(r"(^|\.)_(?!_\w+__$)\w*$|<locals>")
_RANK_IN_NAME = re.compile(r"rank[-_=]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class About:
    """Identity of the rank, and its clock.

    Attributes:
        clock: Identifies the clock: ranks with equal text share one.
        wall: Wall clock minus the trace's clock, ns; None when unknown.
        wall_error: Possible error of that wall clock (NTP, PTP), ns; None unknown.
        begin: Start of its first device work or collective, ns on its clock.
        end: End of the last.
        lost: Rows that are missing from the trace.
        sm_clock: Mean clock of its device while sampled, MHz; None without counters.
        throttled: Why that clock was throttled, and for which share of the samples.
        afterwards: The function its main thread was mostly in after its last device work, and for how long (ns).
        link_speed: Total rate at which its device can send to the others of its host (NVLink, else PCIe), B/s; None unknown.
        gpu: UUID of its device; "" unknown.
        last_seen: The last moment at which the process is known to have been alive, ns; 0 unknown.
        ended: How it ended, as in table `process` (`exit 1`, `signal 11`); "" unknown.
    """

    path: str
    process: int
    rank: int
    world_size: int | None
    host: str
    pid: int
    device: str
    command: str
    clock: str
    wall: int | None
    wall_error: int | None
    begin: int
    end: int
    lost: int
    damage: str
    sm_clock: float | None
    throttled: tuple[tuple[str, float], ...]
    afterwards: tuple[str, int]
    link_speed: float | None = None
    gpu: str = ""
    last_seen: int = 0
    ended: str = ""


@dataclass(frozen=True)
class RankSummary:
    """One rank's summary; `account` and `host_places` number the stretches that end at each distinct end of `collectives`."""

    about: About
    collectives: pa.Table
    account: pa.Table
    kernels: pa.Table
    steps: pa.Table
    unfinished: pa.Table
    host_places: pa.Table


_TABLES = ("collectives", "account", "kernels", "steps", "unfinished", "host_places")


def summarize(trace: StoredTrace, path: str) -> list[RankSummary]:
    """The summary of each rank in a trace: each process with device work or a known rank."""
    found = [_one(trace, path, row) for row in _processes(trace)]
    active = [one for one in found if one.about.end > one.about.begin or one.about.rank >= 0]
    return active or found[:1]


def _processes(trace: StoredTrace) -> list[dict[str, Any]]:
    """The processes with rows, one for each rank: workers of a rank inherit its number and do nothing on the device."""
    rows: list[dict[str, Any]] = trace.arrow("process").sort_by("process").to_pylist()
    if len(rows) < 2:
        return rows
    counts: dict[int, int] = {}
    for name in ("kernel_ids", "collective", "memcpy"):
        for process, count in trace.sql(f"SELECT process, count(*) FROM {name} GROUP BY process").fetchall():
            counts[process] = counts.get(process, 0) + count
    chosen: dict[Any, dict[str, Any]] = {}
    for row in rows:
        key = ("rank", row["rank"]) if row["rank"] is not None else ("process", row["process"])
        if row["rank"] is None and not counts.get(row["process"]):
            continue
        if key not in chosen or counts.get(row["process"], 0) > counts.get(chosen[key]["process"], 0):
            chosen[key] = row
    return list(chosen.values()) or rows[:1]


def _one(trace: StoredTrace, path: str, row: dict[str, Any]) -> RankSummary:
    process = row["process"]
    found = account.account(trace, Rows(processes=(process,)))
    listed = collectives(trace, process)
    steps = [
        one
        for one in iterations.find(trace, Rows(processes=(process,)), repetition=False)
        if one.process == process
    ]
    begin, end = _span(found.work, listed)
    about = About(
        path, process, _rank(row, path), row["world_size"], row["host"], row["pid"], _device(trace, found.work),
        row["command"], *_clock(trace, path, row), begin, end, *_losses(trace, process),
        *_clocks_of(trace, found.work), _afterwards(trace, row, end),
        _link_speed(trace, found.work), _uuid(trace, found.work), _last_seen(trace, process),
        "" if row["exit"] in (None, "unknown") else row["exit"],
    )  # fmt: skip
    return RankSummary(
        about, encoded(listed), encoded(_accounted(trace, found, listed)), _kernels(trace, found.work), _steps(steps),
        unfinished(trace, process), encoded(_host_places(trace, found, listed)),
    )  # fmt: skip


def encoded(data: pa.Table) -> pa.Table:
    """A table with dictionary-encoded strings; otherwise every row would repeat a list of a thousand members."""
    for place, field in enumerate(data.schema):
        if pa.types.is_string(field.type):
            data = data.set_column(place, field.name, data[field.name].combine_chunks().dictionary_encode())
    return data


def codes(column: pa.ChunkedArray) -> tuple[Column, list[str]]:
    """A column of strings as numbers of its distinct strings, -1 for null."""
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    return whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(
        np.int64
    ), whole.dictionary.to_pylist()


def _span(work: Work, listed: pa.Table) -> tuple[int, int]:
    starts, ends = listed["start"].to_numpy(), listed["end"].to_numpy()
    every = np.concatenate([work.start, starts]), np.concatenate([work.end, ends])
    return (int(every[0].min()), int(every[1].max())) if len(every[0]) else (0, 0)


def _rank(row: dict[str, Any], path: str) -> int:
    """The recorded rank, else the number in the file's name; -1 unknown."""
    if row["rank"] is not None:
        return int(row["rank"])
    found = _RANK_IN_NAME.search(Path(path).name)
    return int(found[1]) if found else -1


def _main_device(work: Work) -> int | None:
    """The device that most of the work ran on."""
    devices = [(len(index), device) for device, index in work.per_device() if device is not None]
    return max(devices)[1] if devices else None


def _device(trace: StoredTrace, work: Work) -> str:
    """The device that most of the work ran on, as `GPU 3 (NVIDIA H200)`."""
    device = _main_device(work)
    if device is None:
        return ""
    found = {number: rest for number, *rest in trace.rows("device", "device", "index", "name")}
    return "GPU {} ({})".format(*found[device]) if device in found else f"GPU {device}"


def _uuid(trace: StoredTrace, work: Work) -> str:
    return dict(trace.rows("device", "device", "uuid")).get(_main_device(work)) or ""


def _link_speed(trace: StoredTrace, work: Work) -> float | None:
    """The speed of the links of the device that most of the work ran on, from the recorded topology."""
    known = {
        gpu.get("uuid"): gpu.get("speed") for gpu in (trace.manifest.get("topology") or {}).get("gpus", ())
    }
    speed = known.get(_uuid(trace, work))
    return None if speed is None else float(speed)


def _clock(trace: StoredTrace, path: str, row: dict[str, Any]) -> tuple[str, int | None, int | None]:
    """Which clock the times are on: CLOCK_MONOTONIC of one boot of one host for our own recordings, else the file's own."""
    pairs = [
        realtime - monotonic
        for process, realtime, monotonic in trace.rows("clock", "process", "realtime", "monotonic")
        if process in (None, row["process"]) and realtime is not None
    ]
    wall = int(np.median(np.array(pairs))) if pairs else None
    clocks = trace.manifest.get("clocks") or {}
    error = (clocks.get("wall") or {}).get("max_error")
    if "source" in trace.manifest:
        return f"{path}:{row['process']}", wall, None
    # Hosts boot at different moments: to the second, that distinguishes two hosts of one name.
    boot = clocks.get("boot") or ("" if wall is None else str(round(wall / 2e9)))
    return f"{row['host']}:{boot}", wall, None if error is None else int(error)


def _losses(trace: StoredTrace, process: int) -> tuple[int, str]:
    found = [
        (count, cause)
        for count, cause, severity, of in trace.rows("loss", "count", "cause", "severity", "process")
        if severity != "note" and of in (None, process)
    ]
    found += [(count, f"files of table {name} are gone") for name, count in trace.missing.items()]
    return sum(count for count, _ in found), found[0][1] if found else ""


def _clocks_of(trace: StoredTrace, work: Work) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """Mean SM clock of the devices that worked, and the reasons that held it down."""
    devices = [device for device, _ in work.per_device() if device is not None]
    if not devices or not trace.count("counter"):
        return None, ()
    sql = f"""SELECT name, avg(value), avg((value > 0)::INT) FROM counter WHERE device IN ({", ".join(map(str, devices))})
        AND time BETWEEN {work.begin} AND {work.finish} GROUP BY name"""
    found = {name: (mean, share) for name, mean, share in trace.sql(sql).fetchall()}
    clock = found["sm_clock"][0] if "sm_clock" in found else None
    reasons = [
        (text, found[name][1]) for name, text in REASONS.items() if name in found and found[name][1] > 0.05
    ]
    return clock, tuple(sorted(reasons, key=lambda one: -one[1]))


def _last_seen(trace: StoredTrace, process: int) -> int:
    """The end of the last call, sample or work of a process, ns; 0 where no collective can be found unfinished."""
    if not announced(trace):
        return 0
    moments = {
        "api": "start + coalesce(duration, 0)",
        "sample": "time",
        "launch": "start + coalesce(duration, 0)",
    }
    parts = [
        f"SELECT max({moment}) AS t FROM {name} WHERE process = {int(process)}"
        for name, moment in moments.items()
        if trace.count(name)
    ]
    moment = (
        trace.sql(f"SELECT max(t) FROM ({' UNION ALL '.join(parts)})").fetchall()[0][0] if parts else None
    )
    return int(moment or 0)


def _afterwards(trace: StoredTrace, row: dict[str, Any], end: int) -> tuple[str, int]:
    """The user's innermost function in most samples of the main thread from some moment on, and the time they span."""
    sql = """SELECT stack, count(*), max(time) FROM sample WHERE process = $p AND thread = $t AND time > $e AND stack IS NOT NULL
        GROUP BY stack ORDER BY 2 DESC, min(time), stack"""
    found = trace.sql(sql, p=row["process"], t=row["pid"], e=end).fetchall() if trace.count("sample") else []
    stacks = trace.stacks([stack for stack, _, _ in found[:8]])
    for stack, _, _ in found[:8]:
        place = user_frames(stacks.get(stack, ()), 1)
        if place:
            return place, max(last for _, _, last in found) - end
    return "", 0


def edges_of(listed: pa.Table) -> Column:
    """The moments that separate the stretches of a rank's account: the distinct ends of its collectives."""
    return np.unique(listed["end"].to_numpy())


def _accounted(trace: StoredTrace, found: Account, listed: pa.Table) -> pa.Table:
    """The account of the rank's device, cut at the ends of its collectives."""
    edges = edges_of(listed)
    texts: list[str] = []
    interval, kind, name, time = [], [], [], []
    for at, classes, labels, own, names in (*_worked(trace, found), _idle(found)):
        interval.append(np.searchsorted(edges, at, "left"))
        kind.append(classes)
        name.append(labels + len(texts))
        time.append(own)
        texts += names
    places, kinds, labels, times = (np.concatenate(column) for column in (interval, kind, name, time))
    group, (first, klass, label) = numbered([places, kinds, _distinct_texts(labels, texts)])
    total = np.bincount(group, times, len(first))
    count = np.bincount(group, minlength=len(first))
    unique = list(dict.fromkeys(texts))
    return table(_ACCOUNT, {
        "interval": first, "class": klass, "name": np.array(unique or [""], object)[label] if len(label) else [],
        "time": np.rint(total).astype(np.int64), "count": count,
    })  # fmt: skip


def _distinct_texts(labels: Column, texts: list[str]) -> Column:
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([place[text] for text in texts] or [0], np.int64)[labels]


_Part = tuple[Column, Column, Column, Column, list[str]]


def _worked(trace: StoredTrace, found: Account) -> list[_Part]:
    """Ends, classes, names and own times of device work."""
    work = found.work
    own = np.zeros(len(work))
    for index, one in found.gaps.busy:
        own[index] = one.own
    names: dict[int, str] = {}
    if len(work):
        names = dict(trace.rows("name", "id", "demangled"))
    ids, place = np.unique(work.name_id, return_inverse=True)
    texts = [kernel_names.family(names.get(one) or "copies and fills") for one in ids.tolist()]
    texts, onto = _largest(texts, np.bincount(place, own, len(ids)))
    classes = np.where(work.kind == KERNEL, COMPUTE, np.where(work.kind == KERNEL + 1, COMMUNICATION, COPY))
    return [(work.end, classes, onto[place] if len(place) else place, own, texts)]


def _largest(texts: list[str], total: Column) -> tuple[list[str], Column]:
    """The names with the most time, and the index of each name among them; all others share one name."""
    if len(texts) <= _NAMES:
        return texts, np.arange(len(texts))
    order = np.argsort(-total, kind="stable")
    onto = np.full(len(texts), _NAMES, np.int64)
    onto[order[:_NAMES]] = np.arange(_NAMES)
    return [*(texts[i] for i in order[:_NAMES].tolist()), _OTHERS], onto


def _idle(found: Account) -> _Part:
    """The same for idle time; the host's share is named after what it ran."""
    pieces = found.pieces
    texts = list(pieces.names)
    label = pieces.name.copy()
    for one in found.host:
        label[one.pieces] = len(texts)
        texts.append(one.place)
    total = np.bincount(label, pieces.length, len(texts)) if len(label) else np.zeros(len(texts))
    texts, onto = _largest(texts, total)
    own = pieces.length.astype(float)
    return pieces.end, pieces.kind.astype(np.int64), onto[label], own, texts


def _host_places(trace: StoredTrace, found: Account, listed: pa.Table) -> pa.Table:
    """Where the host was in its part of the idle time, inclusive: every place of the user's program on its stacks.

    What the innermost of them calls of a library is a place, too: `DataLoader.__next__, at train (train.py:9)`. Where there are
    samples they alone count: the stacks of launches show what was running before and after a stretch, not in it.
    """
    rows = found.pieces.of(HOST)
    if not len(rows) or not trace.count("stack"):
        return table(_HOST_PLACES, [])
    held = stacks_over.of_pieces(trace, found.calls, found.gaps, found.pieces, rows)
    chosen = np.flatnonzero(held.sampled) if held.sampled.any() else np.arange(len(held.time))
    interval = np.searchsorted(edges_of(listed), found.pieces.end[held.piece[chosen]], "left")
    group, (stretch, stack) = numbered([interval, held.stack[chosen].astype(np.int64)])
    time = np.bincount(group, held.time[chosen], len(stretch))
    texts = trace.stacks(set(stack.tolist()) - {0})
    sums: dict[tuple[int, str], float] = {}
    for at, number, length in zip(stretch.tolist(), stack.tolist(), time.tolist(), strict=True):
        for place in ("", *_places_on(texts.get(number, ()))):
            sums[at, place] = sums.get((at, place), 0.0) + length
    total: dict[str, float] = {}
    for (_, place), length in sums.items():
        total[place] = total.get(place, 0.0) + length
    kept = set(sorted(total, key=lambda place: -total[place])[:_NAMES])
    rows_of = [
        {"interval": at, "place": place, "time": length}
        for (at, place), length in sums.items()
        if place in kept
    ]
    return table(_HOST_PLACES, rows_of)


def _places_on(frames: tuple[str, ...]) -> set[str]:
    """The user's places on a stack (outermost frame first), and the library function that the innermost one calls.

    Wrappers are not what was called: a module's `_wrapped_call_impl`, or functions made by a decorator.
    """
    own = [place for place, frame in enumerate(frames) if not is_library(frame)]
    out = {frames[place] for place in own}
    called = (frame.split(" (")[0] for frame in frames[own[-1] + 1 :]) if own else iter(())
    name = next((text for text in called if not _WRAPPER.search(text)), None)
    return out | {f"{name}, at {frames[own[-1]]}"} if name else out


def _kernels(trace: StoredTrace, work: Work) -> pa.Table:
    """Count, total and median of the kernels by name, the most time first."""
    mine = np.flatnonzero(work.kind == KERNEL)
    if not len(mine):
        return table(_KERNELS, [])
    names = dict(trace.rows("name", "id", "demangled"))
    ids, place = np.unique(work.name_id[mine], return_inverse=True)
    length = work.end[mine] - work.start[mine]
    total = np.bincount(place, length, len(ids))
    order = np.argsort(place, kind="stable")
    parts = np.split(length[order], np.cumsum(np.bincount(place))[:-1])
    rows = [
        {"name": kernel_names.family(names.get(one) or "?"), "count": len(part), "total": int(time),
         "median": float(np.median(part))}
        for one, part, time in zip(ids.tolist(), parts, total.tolist(), strict=True)
    ]  # fmt: skip
    rows.sort(key=lambda row: -int(str(row["total"])))
    return table(_KERNELS, rows[:_NAMES])


def _steps(found: list[iterations.Iterations]) -> pa.Table:
    """The iterations that the program itself counted; for what merely repeats, the collectives are the better source."""
    counted = [one for one in found if _ANNOUNCED.search(one.source)]
    if not counted:
        return table(_STEPS, [])
    one = max(counted, key=len)
    return table(_STEPS, {"start": one.start, "duration": one.duration, "label": one.label})


def to_bytes(one: RankSummary) -> dict[str, bytes]:
    """A summary as named files."""
    from dataclasses import asdict

    out = {"about.json": json.dumps({"version": VERSION, **asdict(one.about)}).encode()}
    for name in _TABLES:
        sink = pa.BufferOutputStream()
        data: pa.Table = getattr(one, name)
        with pa.ipc.new_stream(sink, data.schema) as writer:
            writer.write_table(data)
        out[f"{name}.arrow"] = sink.getvalue().to_pybytes()
    return out


def from_bytes(files: dict[str, bytes]) -> RankSummary | None:
    """The summary that :func:`to_bytes` wrote; None if another version wrote it."""
    about = json.loads(files["about.json"])
    if about.pop("version") != VERSION:
        return None
    about["afterwards"] = tuple(about["afterwards"])
    about["throttled"] = tuple((text, share) for text, share in about["throttled"])
    tables = {name: pa.ipc.open_stream(files[f"{name}.arrow"]).read_all() for name in _TABLES}
    return RankSummary(About(**about), **tables)
