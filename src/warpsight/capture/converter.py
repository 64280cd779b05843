"""Converts segments to a trace while the program runs: `python -m warpsight.capture.converter DIR [LOG STACKS]`.

With `-` for DIR it imports everything and then waits for a first line `{"do": "open", "folder": DIR}`, so that a flight
recorder's traces start at once.

Standard input has one JSON object per line, standard output one in answer to each:

* `{"do": "convert"}` converts closed segments once there is enough of them → `{"converted": segments,
  "kernels": rows so far}`
* `{"do": "finish", "processes": [{"pid", "arena", "exit", "end"}], "loss": [...], "settings": {...},
  "overhead": {...}, "topology": {...}}`
  converts the rest and completes the trace → `{"finished": {...}}`
* anything that goes wrong → `{"error": "..."}`; segments stay where they are, and the next request tries
  again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa

from warpsight.capture import columns, losses
from warpsight.capture.arena import Arena, Found
from warpsight.capture.clock_fit import fit
from warpsight.capture.functions import patterns
from warpsight.capture.identities import Processes, TraceDevices
from warpsight.capture.journal import Commit, Journal, damaged
from warpsight.capture.parts import PartWriter, keep, wait
from warpsight.capture.rows import definitions as definition_rows
from warpsight.capture.rows.kernel_log import KernelLog, configure
from warpsight.capture.segments.layout import BY_KIND
from warpsight.capture.segments.segment import open_segment, strings
from warpsight.errors import TraceError
from warpsight.machine import wall_clock
from warpsight.model import allocator
from warpsight.model.definitions import Definitions
from warpsight.model.pandas_import import keep_pandas_out
from warpsight.model.schema import TABLES
from warpsight.model.storage import damage, manifest

#: A conversion request waits for this many bytes, so that parts do not become too small; finishing takes the rest.
ENOUGH_BYTES = 16 << 20
#: Segments per round: limits the work repeated after a crash and the lifetime of raw data.
_ROUND_SEGMENTS = 8
#: In `raw` of a flight recorder: the segments are the remainder of a longer recording, and this is why they were kept.
WINDOW = "window.json"


class Converter:
    """The conversion of one recording folder, which stays locked until it ends."""

    def __init__(self, root: Path) -> None:
        """Continue after the last commit.

        Raises:
            TraceError: when the folder has no `raw`, or another converter works on it.
        """
        self.root = root
        self.raw = root / "raw"
        if not self.raw.is_dir():
            raise TraceError(f"{root} is not a recording: it has no folder raw")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._lock = os.fdopen(os.open(self.raw / "lock", flags, 0o600), "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise TraceError(f"{root} is being converted by another process") from None
        self._journal = Journal(self.raw)
        self._writer = PartWriter(root)
        self._load()

    def _load(self) -> None:
        commit, states = self._journal.load()
        self._journal.roll_back(self.root, commit)
        self._writer.rows = Counter(commit.rows)
        self._part = commit.part
        self._definitions = Definitions()
        try:
            self._definitions.load(self.root)
        except (pa.ArrowException, LookupError, OSError) as error:
            raise damage.unreadable(f"{self.root}", error) from None
        self._window = _window(self.raw)
        self._log = KernelLog.of(self.raw, self._definitions, commit.part)
        self._processes = Processes(commit.processes)
        self._devices = TraceDevices(commit.devices)
        self._losses = commit.losses
        self._converted: list[str] = []
        #: The round before this one: its parts may still be on their way to disk.
        self._pending: tuple[Commit, list[Future[Path]]] | None = None
        self._arenas: dict[str, Arena] = {}
        #: definition file → slots that need not be read again
        self._read_slots: dict[str, int] = {}
        try:
            for name, state in states.items():
                self._arena(name).restore(state)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise damaged(self.raw / commit.arrays, error) from None

    def _arena(self, name: str) -> Arena:
        if name not in self._arenas:
            self._arenas[name] = Arena(
                name, self._definitions, self._processes, self._devices, self._losses, self._writer,
                windowed=self._window is not None,
            )  # fmt: skip
            self._arenas[name].kernel_log = self._log
        return self._arenas[name]

    def convert(self, enough_bytes: int = ENOUGH_BYTES) -> dict[str, Any]:
        """Convert closed segments when they have at least `enough_bytes` together.

        Raises:
            OSError: when parts cannot be written; the state stays that of the last commit.
        """
        waiting = [
            path for arena in self._folders() for path in _segments(arena, "data") if path.suffix == ".seg"
        ]
        if self._log is not None:
            enough_bytes = 0  # readers of the log want to see kernels while the program runs
        if not waiting or sum(path.stat().st_size for path in waiting) < enough_bytes:
            return {"converted": 0, "kernels": self._writer.rows["kernel"]}
        with self._recovering():
            self._take(waiting, commit_last=True)
        return {"converted": len(waiting), "kernels": self._writer.rows["kernel"]}

    def finish(
        self,
        processes: Iterable[Mapping[str, Any]] = (),
        loss: Iterable[Mapping[str, Any]] = (),
        settings: Mapping[str, Any] | None = None,
        overhead: Mapping[str, Any] | None = None,
        topology: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Convert the remaining data, open files included, write definitions and manifest, and remove the raw data.

        Raises:
            OSError: when something cannot be written; the raw data stays, and finishing can be tried again.
        """
        ended = {str(p.get("arena")): p for p in processes}
        with self._recovering():
            self._take([p for arena in self._folders() for p in _segments(arena, "data")], commit_last=False)
            for arena in self._arenas.values():
                arena.part = self._part + 1
                arena.finish()
            self._part += 1
            more = {"topology": dict(topology)} if topology else {}
            summary = self._complete(ended, list(loss), dict(settings or {}), dict(overhead or {}), more)
        self.close()
        shutil.rmtree(self.raw, ignore_errors=True)
        (self.root / "recording.json").unlink(missing_ok=True)
        return summary

    def close(self) -> None:
        """Unlock the folder without finishing."""
        self._writer.close()
        if self._log is not None:
            self._log.close()
        self._lock.close()

    @contextlib.contextmanager
    def _recovering(self) -> Iterator[None]:
        """After a failure, return to the last commit, so that the next attempt starts from the state on disk."""
        try:
            yield
        except BaseException:
            pending = self._pending[1] if self._pending else []
            with contextlib.suppress(OSError):
                wait([*pending, *self._writer.queued()])
            if self._log is not None:
                self._log.close()
            self._load()
            raise

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.raw.iterdir() if path.is_dir())

    def _take(self, segments: list[Path], commit_last: bool) -> None:
        """Convert segments, definitions first, committing every few; the last few only when asked to."""
        for folder in self._folders():
            self._define(folder)
        for number, path in enumerate(segments, 1):
            self._part += 1
            arena = self._arena(path.parent.name)
            arena.part = self._part
            self._take_segment(arena, path)
            self._converted.append(f"{path.parent.name}/{path.name}")
            last = number == len(segments)
            # a flight recorder's window is converted at once: someone is waiting for it, and it can be restarted
            round_ends = number % _ROUND_SEGMENTS == 0 and self._window is None
            if (last and commit_last) or (round_ends and not last):
                self._end_round()
            elif self._pending is not None:
                self._settle()  # its parts were written while this segment was decoded
        self._settle()

    def _take_segment(self, arena: Arena, path: Path) -> None:
        """Convert one segment; one with impossible contents is dropped without harming the trace."""
        segment = open_segment(path)
        try:
            arena.take_events(segment)
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # pa.ArrowInvalid is a ValueError
            where = f"{path.parent.name}/{path.name}"
            arena.loss.add("converter", f"segment {where} could not be converted: {error}", segment.slots)

    def _define(self, folder: Path) -> None:
        """Read definition files as far as they have been written."""
        arena = self._arena(folder.name)
        found: Found = {}
        text: list[tuple[int, str]] = []
        for path in _segments(folder, "definitions"):
            key = path.name.removesuffix(".open")
            try:
                segment = open_segment(path)
            except FileNotFoundError:  # closed, and so renamed, at this moment
                segment = open_segment(path.with_name(key))
            first = self._read_slots.get(f"{folder.name}/{key}", 0)
            sealed = first
            for block in segment.blocks(first):
                if block.sealed and block.slot == sealed:
                    sealed += 1
                skip = arena.definition_blocks.fresh(block)
                if skip is None:
                    continue
                arena.pid = arena.pid or block.pid
                if BY_KIND[block.kind].variable:
                    text += strings(block.payload, skip)[0]
                else:
                    found.setdefault(block.kind, []).append((block, block.body(skip)))
            if not segment.growing:
                self._report(arena, segment.damage)
                sealed = segment.slots
            self._read_slots[f"{folder.name}/{key}"] = sealed
        arena.define(found, text)

    def _report(self, arena: Arena, damage: Iterable[Any]) -> None:
        for one in damage:
            cause = (
                f"{one.cause}; definitions are missing ({arena.name}/{one.path.name} at byte {one.offset})"
            )
            arena.loss.add("segment", cause, 1, kind="definition")

    def _end_round(self) -> None:
        """Note what to commit once the round's parts are on disk, so that the next round can begin."""
        self._settle()
        self._write_definitions()
        commit = Commit(
            self._part,
            dict(self._writer.rows),
            dict(self._processes.by_arena),
            deepcopy(self._devices.rows),
            deepcopy(self._losses),
            self._converted,
        )
        self._converted = []
        self._pending = commit, self._writer.queued()
        self._journal.save(commit, {name: arena.state() for name, arena in self._arenas.items()})
        if self._log is not None:  # its lines and the commit name the same part
            self._settle()

    def _settle(self) -> None:
        """Commit the finished round, if one is waiting, and remove its segments."""
        if self._pending is None:
            return
        commit, parts = self._pending
        keep(parts)
        self._pending = None
        if self._log is not None:
            self._log.commit(commit.part)
        self._journal.commit(commit)
        for name in commit.converted:
            (self.raw / name).unlink(missing_ok=True)

    def _write_definitions(self) -> None:
        for table, data in self._definitions.take().items():
            self._writer.add_arrow(table, self._part, data)

    def _complete(
        self,
        ended: dict[str, Mapping[str, Any]],
        loss: list[Mapping[str, Any]],
        settings: dict[str, Any],
        overhead: dict[str, Any],
        more: dict[str, Any],
    ) -> dict[str, Any]:
        processes = self._process_rows(ended)
        rows: dict[str, list[dict[str, Any]]] = {"process": processes, "device": self._devices.rows}
        for arena in self._arenas.values():
            for table, described in definition_rows.rows(arena):
                rows.setdefault(table, []).extend(described)
            for table, data in definition_rows.graphs(arena):
                self._writer.add(table, arena.process_id(), self._part, len(data), _columns(data))
        for table, listed in rows.items():
            data, wrong = columns.table(TABLES[table], listed)
            self._writer.add_arrow(table, self._part, data)
            cause = "a number does not fit its column; the program has written into the recorder's memory"
            losses.LossLog(self._losses).count("converter", cause, wrong, table, "lost")
        clocks = fit([pair for arena in self._arenas.values() for pair in arena.clocks])
        for moment, forward in clocks.get("steps", ()):
            way = "forward" if forward > 0 else "back"
            message = f"the wall clock was set {way} by {abs(forward) / 1e9:.6g} s; times in the trace do not depend on it"
            losses.LossLog(self._losses).add("clock", message, 1, severity="note", time=moment)
        used = {
            row["platform"] for row in self._devices.rows if row.get("runtime")
        }  # counters describe devices too
        kept = [one for one in loss if "platform" not in one or used == ({one["platform"]} - {"none"})]
        lost = losses.table([*self._losses, *map(losses.given, kept)])
        self._writer.add_arrow("loss", self._part, lost)
        self._write_definitions()
        wait(self._writer.queued())
        if clocks:
            clocks |= wall_clock.state(clocks["offset"])
        content = {
            "host": platform.node(),
            "processes": processes,
            "devices": self._devices.rows,
            "clocks": clocks,
            "settings": settings,
            "rows": {name: count for name, count in sorted(self._writer.rows.items()) if count},
            "loss": losses.summary(lost),
            "overhead": overhead,
            **more,
            **({"window": self._window} if self._window is not None else {}),
        }
        manifest.write(self.root, content)
        size = sum(path.stat().st_size for path in self.root.glob("table=*/**/*.parquet"))
        return {
            "rows": content["rows"],
            "loss": content["loss"],
            "bytes": size,
            "processes": len(processes),
            "devices": len(self._devices.rows),
        }

    def _process_rows(self, ended: dict[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for name, number in list(self._processes.by_arena.items()):
            if name in self._arenas:
                rows.append(definition_rows.process(self._arenas[name], ended.get(name, {})))
                _note_unknown_functions(self._arenas[name], rows[-1].get("settings"))
            else:  # seen by the sampler only
                rows.append(
                    {
                        "process": number,
                        "pid": int(name.removeprefix("pid-")),
                        "host": platform.node(),
                        "command": "",
                        "executable": "",
                        "start": 0,
                    }
                )
        return sorted(rows, key=lambda row: int(row["process"]))


def _note_unknown_functions(arena: Arena, settings: str | None) -> None:
    """Report unknown names in WARPSIGHT_API: `record` refuses them, but a variable set inside reaches the recorder."""
    try:
        api = json.loads(settings or "{}").get("api")
    except (ValueError, AttributeError):
        return
    for pattern in patterns.unknown(api) if isinstance(api, str) else ():
        arena.loss.add("settings", f"WARPSIGHT_API: no function matches {pattern!r}", 1, severity="note")


def _window(raw: Path) -> dict[str, Any] | None:
    """The window of a flight recorder's segments; None for a complete recording."""
    try:
        content = json.loads((raw / WINDOW).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _columns(data: pa.Table) -> dict[str, pa.Array]:
    return {name: data.column(name).combine_chunks() for name in data.column_names}


def _segments(folder: Path, prefix: str) -> list[Path]:
    """Segment files of one arena in the order they were begun, closed and open ones."""
    found = [path for path in folder.glob(f"{prefix}-*.seg*") if path.name.endswith((".seg", ".seg.open"))]
    return sorted(found, key=lambda path: path.name.removesuffix(".open"))


def _answer(converter: Converter, line: str) -> dict[str, Any]:
    """Handle one request."""
    try:
        request = json.loads(line)
        action = request.get("do")
        if action == "convert":
            return converter.convert()
        if action == "finish":
            known = {
                key: request[key]
                for key in ("processes", "loss", "settings", "overhead", "topology")
                if key in request
            }
            return {"finished": converter.finish(**known)}
        return {"error": f"unknown request {action!r}"}
    except OSError as error:
        return {
            "error": f"{error.strerror or error}: {error.filename or converter.root}; the raw data is kept: "
            f"make room and run `warpsight recover {converter.root}`"
        }
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _awaited() -> str:
    """The folder named by the first request; empty if no request named one."""
    try:
        return str(json.loads(sys.stdin.readline() or "{}").get("folder", ""))
    except ValueError:
        return ""


def main(arguments: list[str]) -> int:
    """Serve requests on standard input until it ends or the trace is finished."""
    os.umask(0o077)
    allocator.keep_freed_memory(allocator.SMALL)
    keep_pandas_out()
    folder = arguments[0] if arguments[0] != "-" else _awaited()
    if not folder:
        return 0
    root = Path(folder)
    try:
        if not (root / manifest.FILE).exists():
            (root / "raw").mkdir(mode=0o700, exist_ok=True)  # before the first process connects
            if len(arguments) > 1:  # file and stacks of the kernel log
                configure(root / "raw", *arguments[1:3])
        converter = Converter(root)
    except (TraceError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    for line in sys.stdin:
        answer = _answer(converter, line)
        print(json.dumps(answer), flush=True)
        if "finished" in answer:
            return 0
    converter.close()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # somebody waits for the end; taking Python and Arrow down takes a tenth of a second
