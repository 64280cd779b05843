"""Dumps of PyTorch's flight recorder: the last collectives of one rank, with their state and callers.

The watchdog of a process group writes one file per rank when a collective does not end in time (`TORCH_FR_DUMP_TEMP_FILE`);
`torch._C._distributed_c10d._dump_fr_trace` and `_dump_fr_trace_json` give the same. The file is a pickle of plain data or JSON,
both of version 2 (`torch/csrc/distributed/c10d/FlightRecorder.hpp`); no code of the file ever runs.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.errors import TraceError
from warpsight.formats.snapshot.plain_pickle import Once, PlainData
from warpsight.model.sharing.secrets import secretless

#: Keys of an entry: what has none of them in its first part is not a dump.
_MARKS = (b"collective_seq_id", b"pg_config", b"pg_status", b"nccl_version", b"comm_lib_version")
_HEAD = 1 << 16
_RANK = re.compile(r"(\d+)\D*$")
#: Modules that are between the user's code and the collective.
_LIBRARY = ("torch/distributed/", "torch/nn/", "torch/autograd/", "torch/_", "torch/utils/")


@dataclass(frozen=True)
class FlightEntry:
    """One collective, or one send or receive.

    Attributes:
        group: Name of its process group.
        sequence: Number in its group, from 1; sends and receives are counted separately.
        operation: As the profiler spells it, without the library: all_reduce, all_gather, send 0->1.
        sizes: Sizes of the inputs.
        outputs: Sizes of the outputs.
        dtypes: Element types of the inputs.
        state: scheduled, started or completed.
        created_ns: When it was called, ns since 1970.
        frames: The caller's stack as `function (file:line)`, innermost first.
    """

    group: str
    sequence: int
    point_to_point: bool
    operation: str
    sizes: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    state: str
    created_ns: int
    frames: tuple[str, ...]

    @property
    def place(self) -> str:
        """The innermost frame of the user's code; "" if no stack was recorded."""
        own = [frame for frame in self.frames if not any(part in frame for part in _LIBRARY)]
        return (own or list(self.frames) or [""])[0]


@dataclass(frozen=True)
class FlightDump:
    """What one rank's file holds.

    Attributes:
        members: Ranks of each group by its name, if the file has them.
        description: Description of each group by its name.
        completed: Number of the last collective that ended, by group.
    """

    path: str
    rank: int
    version: str
    members: Mapping[str, tuple[int, ...]]
    description: Mapping[str, str]
    completed: Mapping[str, int]
    entries: tuple[FlightEntry, ...]


def is_dump(path: Path) -> bool:
    """Whether a file looks like a dump."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return head[:1] in (b"\x80", b"{") and b"traceEvents" not in head and any(mark in head for mark in _MARKS)


def read(path: str | os.PathLike[str]) -> FlightDump:
    """Read one rank's dump; the number at the end of its name is the rank.

    Raises:
        TraceError: when the file is not a dump, is cut off, or refers to code.
    """
    place = Path(path)
    content = _load(place)
    try:
        config = {
            secretless(str(name)): dict(given) for name, given in (content.get("pg_config") or {}).items()
        }
        status = content.get("pg_status") or {}
        frame = Once(lambda one: secretless(f"{one['name']} ({one['filename']}:{one['line']})"))
        frames = Once(lambda all_: tuple(map(frame, all_ or ())))
        size = Once(lambda one: tuple(map(int, one)))
        sizes = Once(lambda all_: tuple(map(size, all_ or ())))
        entries = tuple(_entry(row, frames, sizes) for row in content.get("entries") or ())
        given = _RANK.search(place.name.removesuffix(".json").removesuffix(".pickle").removesuffix(".pkl"))
        numbers = {str(row["pg_id"]): _group(row) for row in content.get("entries") or () if "pg_id" in row}
        return FlightDump(
            str(path), int(content.get("rank", given[1] if given else -1)), str(content["version"]),
            {name: _ranks(one.get("ranks")) for name, one in config.items() if _ranks(one.get("ranks"))},
            {name: secretless(str(one.get("desc") or "")) for name, one in config.items()} | _descriptions(content),
            _numbers(status, numbers, "last_completed_collective"),
            entries,
        )  # fmt: skip
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"{path} is not a dump of PyTorch's flight recorder: {type(error).__name__}: {error}"
        ) from None


def _load(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            first = file.read(1)
            file.seek(0)
            content = json.load(file) if first in (b"{", b"[") else PlainData(file).load()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from None
    except TraceError as error:
        raise TraceError(f"{path} is refused: {error}") from None
    except (pickle.UnpicklingError, EOFError, ValueError, LookupError, AttributeError, TypeError,
            OverflowError, MemoryError, RecursionError) as error:  # fmt: skip
        raise TraceError(f"{path} is damaged or cut off: {type(error).__name__}: {error}") from None
    if not isinstance(content, Mapping) or "version" not in content:
        raise TraceError(f"{path} is not a dump of PyTorch's flight recorder")
    return content


def _entry(
    row: Mapping[str, Any], frames: Once[tuple[str, ...]], sizes: Once[tuple[tuple[int, ...], ...]]
) -> FlightEntry:
    paired = bool(row.get("is_p2p"))
    done = row.get("retired") or row.get("state") == "completed"
    return FlightEntry(
        _group(row), int(row["p2p_seq_id"] if paired else row["collective_seq_id"]), paired,
        secretless(str(row["profiling_name"]).split(":", 1)[-1]), sizes(row.get("input_sizes")), sizes(row.get("output_sizes")),
        tuple(map(str, row.get("input_dtypes") or ())), "completed" if done else str(row.get("state")),
        int(row.get("time_created_ns") or 0), frames(row.get("frames")),
    )  # fmt: skip


def _group(row: Mapping[str, Any]) -> str:
    return secretless(str(row["process_group"][0]))


def _ranks(given: str | Iterable[int] | None) -> tuple[int, ...]:
    if isinstance(given, str):
        return tuple(int(number) for number in re.findall(r"\d+", given))
    return tuple(int(number) for number in given or ())


def _descriptions(content: Mapping[str, Any]) -> dict[str, str]:
    pairs = [row["process_group"] for row in content.get("entries") or () if len(row["process_group"]) > 1]
    return {
        secretless(str(pair[0])): secretless(str(pair[1])) for pair in pairs if str(pair[1]) != "undefined"
    }


def _numbers(status: Mapping[str, Any], numbers: Mapping[str, str], key: str) -> dict[str, int]:
    """The status identifies groups by their number in the process, entries also by their name."""
    return {numbers.get(str(group), str(group)): int(given.get(key, -1)) for group, given in status.items()}
