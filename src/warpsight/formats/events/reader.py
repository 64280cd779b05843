"""Event traces into the tables `instruction`, `warp_event`, `access`, `probe_value` and `launch`."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.demangle import demangle
from warpsight.device_code.disassembly import INSTRUCTION_SIZE, disassemble_together
from warpsight.device_code.elf import ElfError
from warpsight.formats.events import blocks
from warpsight.formats.events.kinds import (
    EXECUTED,
    KINDS,
    READ,
    READ_REGISTERS,
    TENSOR_COPY,
    TENSOR_MAP,
    WRITE,
)
from warpsight.formats.events.operands import Operands
from warpsight.formats.events.probe_maps import MapContents, held
from warpsight.formats.events.records import Events, decode
from warpsight.formats.events.registers import AT_ONCE, UNIFORM, UNIFORM_PREDICATES
from warpsight.formats.events.tensor_copies import CopyReader, cutracer_fields, maps
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "each event with launch, block, warp, lanes, instruction and device time; accesses and values lane by"
        " lane",
        "maps of probes; instructions; launches with shapes",
    ),
    lost=(
        "device time, registers and dynamic shared memory of kernels; operands beyond the first lane's, "
        "except of accesses",
    ),
    tested=("an H100 with CUDA 13.0",),
)
#: Memory spaces as CUTracer numbers them (0.4).
_SPACES = {"local": 1, "global": 3, "shared": 4, "remote": 4}
_ADDRESSES, _VALUES = "mem_addr_trace", "mem_value_trace"
_OPCODE, _REGISTERS, _TENSOR_COPY = "opcode_only", "reg_trace", "tma_trace"
_AFTER = json.dumps({"ipoint": "after"})
_BATCH = 1 << 17


def sniff(source: Source) -> bool:
    """The file's first bytes."""
    return source.head.startswith(blocks.MAGIC)


def read(source: Source, target: Target, options: Options) -> None:
    """Read a trace; damaged or missing parts are noted.

    Raises:
        FormatError: when it is not an event trace.
    """
    file = blocks.read(source)
    process = target.process(file.process.get("pid", 0), start=file.process.get("monotonic"))
    for cause, count in file.losses:
        target.lost(count, cause, "warp_event", severity="lost" if count else "note", process=process)
    target.source["request"] = file.process.get("request")
    _Importing(file, target, process).run()


class _Importing:
    """One process's file during the import."""

    def __init__(self, file: blocks.EventFile, target: Target, process: int) -> None:
        self._file, self._target, self._process = file, target, process
        self._launches = {int(said["launch"]): said for said in file.launches}
        self._offset = int(file.process.get("realtime", 0)) - int(file.process.get("monotonic", 0))
        self._names = {number: target.name(str(said["name"])) for number, said in self._launches.items()}
        self._operands = Operands(file)
        self._copies = CopyReader({})

    def run(self) -> None:
        self._add_launches()
        self._add_instructions()
        self._add_probes()
        events = decode(self._file.records)
        if len(events) < self._file.recorded:
            self._target.lost(self._file.recorded - len(events), "records that no patch writes", "warp_event")
        is_map = events.kind == TENSOR_MAP.number
        if is_map.any():
            self._copies = CopyReader(maps(events.words, events.offset[is_map]))
            events = events.take(~is_map)
        for launch in np.unique(events.launch).tolist():
            rows = np.flatnonzero(events.launch == launch)
            numbers = _numbered(events, rows)
            for begin in range(0, len(rows), _BATCH):
                part = np.arange(begin, min(begin + _BATCH, len(rows)))
                self._add_events(events.take(rows[part]), int(launch), numbers[part])

    def _add_launches(self) -> None:
        rows = []
        for number, said in self._launches.items():
            grid, block = said["grid"], said["block"]
            shape = self._target.shape(
                grid_x=grid[0],
                grid_y=grid[1],
                grid_z=grid[2],
                block_x=block[0],
                block_y=block[1],
                block_z=block[2],
            )
            rows.append({
                "start": int(said["monotonic"]), "duration": None, "function": "cuLaunchKernel",
                "thread": self._target.thread(self._process, int(said["thread"])), "correlation": number,
                "process": self._process, "stack": None, "name_id": self._names[number], "shape_id": shape, "captured": False,
            })  # fmt: skip
        if rows:
            self._target.add("launch", rows)

    def _add_probes(self) -> None:
        """What maps of probes hold."""
        known = len(self._file.losses)
        for one in held(self._file):
            if one.lost:
                self._target.lost(
                    one.lost, f"additions that did not fit into the map {one.map.name}", "probe_value"
                )
            self._add_map(one)
        for cause, count in self._file.losses[known:]:
            self._target.lost(count, cause, "probe_value")

    def _add_map(self, one: MapContents) -> None:
        """A row per element; per column for a row of a ring, and with both numbers for a bin."""
        columns, rows = one.columns, len(next(iter(one.columns.values())))
        key = {"array": one.map.key, "top": one.map.key, "ring": "row", "histogram": "low"}[one.map.kind]
        values = {
            "array": ["value"],
            "top": ["weight"],
            "histogram": ["high", "count"],
            "ring": [*one.map.types],
        }[one.map.kind]
        owner = {name: columns.get(name, [None] * rows) for name in ("block", "warp", "thread")}
        for name in values:
            real = columns[name].dtype == np.float64
            self._target.add("probe_value", {
                "grid_launch": np.full(rows, one.launch), "name_id": [self._names[one.launch]] * rows,
                "map": [one.map.name] * rows, "kind": [one.map.kind] * rows, **owner,
                "key": columns.get(key, np.zeros(rows, np.int64)),
                "column": [name if one.map.kind == "ring" or name == "high" else "value"] * rows,
                "value": [None] * rows if real else columns[name], "number": columns[name] if real else [None] * rows,
                "process": np.full(rows, self._process),
            })  # fmt: skip

    def _add_instructions(self) -> None:
        """Add each kernel's instruction table once, and what CUTracer's files say about a kernel."""
        kernels = {
            (int(said["module"]), str(said["name"])): number for number, said in self._launches.items()
        }
        for module in {module for module, _ in kernels}:
            own = {name: number for (of, name), number in kernels.items() if of == module}
            cubin = self._cubin(module)
            sections = {name: cubin.section_of(name) for name in own} if cubin else {}
            codes = {
                name: cubin.instructions(at) for name, at in sections.items() if cubin and at is not None
            }
            architecture = cubin.architecture if cubin else 0
            texts = disassemble_together({own[name]: code for name, code in codes.items()}, architecture)
            for name, number in own.items():
                self._describe(self._launches[number], cubin, sections.get(name))
                traced = self._operands.of(self._launches[number])
                rows = [
                    {"name_id": self._names[number], "grid_launch": number, "opcode": at // INSTRUCTION_SIZE,
                     "sass": text, "process": self._process, **_register_columns(registers)}
                    for at, (text, registers) in traced.items()
                ] or [
                    {"name_id": self._names[number], "grid_launch": number, "opcode": at // INSTRUCTION_SIZE,
                     "sass": f"{text} ;", "process": self._process}
                    for at, text in texts.get(number, {}).items()
                ]  # fmt: skip
                if rows:
                    self._target.add("instruction", rows)

    def _describe(self, said: dict[str, Any], cubin: Cubin | None, section: int | None) -> None:
        """CUTracer's description of a kernel; registers and dynamic shared memory are 0 if unknown."""
        name = str(said["name"])
        code = cubin.instructions(section) if cubin is not None and section is not None else b""
        at = cubin.elf.by_name.get(f".nv.shared.{name}") if cubin else None
        shared = int(cubin.elf.sections["size"][at]) if cubin and at is not None else 0
        described = {
            "mangled_name": name, "unmangled_name": demangle(name), "grid": said["grid"], "block": said["block"],
            "ctx": hex(int(said["context"])), "func_addr": hex(int(said["pc"])),
            "kernel_checksum": hashlib.sha256(code).hexdigest()[:16], "nregs": int(said.get("registers", 0)),
            "shmem_dynamic": int(said.get("shared_dynamic", 0)),
            "shmem_static": int(said.get("shared_static", shared)),
        }  # fmt: skip
        self._target.source.setdefault("kernels", []).append(described)

    def _cubin(self, module: int) -> Cubin | None:
        """A module's code; None where the file lacks it or it is damaged."""
        try:
            return Cubin(self._file.cubins[module], f"module {module}")
        except (KeyError, ElfError):
            return None

    def _add_events(self, events: Events, launch: int, numbers: npt.NDArray[Any]) -> None:
        said = self._launches.get(launch)
        if said is None:
            self._target.lost(len(events), "events of a launch whose description is missing", "warp_event")
            return
        inside = events.block.astype(np.int64) < int(np.prod(said["grid"], dtype=np.int64))
        if not inside.all():
            self._target.lost(
                int((~inside).sum()), "events of blocks that the grid does not have", "warp_event"
            )
            events, numbers = events.take(inside), numbers[inside]
        x, y = int(said["grid"][0]), int(said["grid"][1])
        block = events.block.astype(np.int64)
        warps = -(-int(np.prod(said["block"])) // 32)
        half = 1 << 31
        pc = (events.pc.astype(np.int64) - int(said["pc"]) % (1 << 32) + half) % (1 << 32) - half
        kinds = np.array(
            [KINDS[kind].name if kind in KINDS else f"kind_{kind}" for kind in events.kind.tolist()], object
        )
        access = events.is_access
        kinds[events.kind == EXECUTED.number], kinds[events.kind == READ_REGISTERS.number] = (
            _OPCODE,
            _REGISTERS,
        )
        kinds[events.kind == TENSOR_COPY.number] = _TENSOR_COPY
        kinds[access] = np.where(events.has_values[access], _VALUES, _ADDRESSES)
        columns = {
            "event": numbers, "kind": kinds, "time": events.time - self._offset,
            "cta_x": block % x, "cta_y": block // x % y, "cta_z": block // (x * y), "warp": block * warps + events.warp,
            "opcode": pc // INSTRUCTION_SIZE, "pc": pc, "active_mask": events.guard,
            "attributes": np.array(self._attributes(events, said, pc), object),
        }  # fmt: skip
        own = np.flatnonzero((events.kind != READ_REGISTERS.number) | (events.flags >> 1 == 0))
        count = len(own)
        self._target.add("warp_event", {
            "grid_launch": np.full(count, launch), "name_id": [self._names[launch]] * count,
            "process": np.full(count, self._process), **{name: column[own].tolist() for name, column in columns.items()},
        })  # fmt: skip
        self._add_accesses(events, launch, numbers)
        self._add_registers(events, launch, numbers, pc)

    def _attributes(self, events: Events, launch: dict[str, Any], pc: npt.NDArray[Any]) -> list[str | None]:
        """What has no column: operands of other kinds as those of the first lane. Accesses have theirs in table `access`."""
        first, second, access = events.first_operand(0), events.first_operand(1), events.is_access
        copies = self._tensor_copies(events, launch, pc)
        found: list[str | None] = []
        for row, kind in enumerate(events.kind.tolist()):
            if access[row]:
                found.append(None)
                continue
            if kind in (EXECUTED.number, READ_REGISTERS.number):
                found.append(_AFTER if kind == READ_REGISTERS.number and int(events.flags[row]) & 1 else None)
                continue
            if kind == TENSOR_COPY.number:
                found.append(copies[row])
                continue
            said = {"sm": int(events.sm[row]), "flags": int(events.flags[row])}
            known = KINDS.get(kind)
            if known and known.a:
                said[known.a] = int(first[row])
            if known and known.b:
                said[known.b] = int(second[row])
            found.append(json.dumps(said))
        return found

    def _tensor_copies(self, events: Events, launch: dict[str, Any], pc: npt.NDArray[Any]) -> dict[int, str]:
        """Row → a copy by the TMA in CUTracer's fields. Those that are not understood are counted."""
        rows = np.flatnonzero(events.kind == TENSOR_COPY.number)
        texts = self._operands.texts(launch)
        own = [texts.get(offset, "") for offset in pc[rows].tolist()]
        copies = list(self._copies.copies(events.take(rows).tensor_copies(), own))
        strange = sum(copy.operands is None for copy in copies)
        if strange:
            self._target.lost(
                strange, "operands of TMA instructions, of which only the registers are known", "warp_event"
            )
        return {
            row: json.dumps(cutracer_fields(copy, self._copies))
            for row, copy in zip(rows.tolist(), copies, strict=True)
        }

    def _add_registers(
        self, events: Events, launch: int, numbers: npt.NDArray[Any], pc: npt.NDArray[Any]
    ) -> None:
        """32 rows per register, one for a uniform register."""
        rows = np.flatnonzero(events.kind == READ_REGISTERS.number)
        if not len(rows):
            return
        found = events.take(rows).registers()
        record = rows[found.record]
        place = (events.flags[record] >> 1).astype(np.int64) * AT_ONCE + found.slot
        register = self._operands.registers(self._launches[launch], pc[record], place)
        known = register >= 0
        if not known.all():
            self._target.lost(
                int((~known).sum()), "registers of instructions that are not described", "register"
            )
        uniform = ((register >= UNIFORM) & (register < UNIFORM + 256)) | (register == UNIFORM_PREDICATES)
        first = np.argmax(events.guard[record][:, None] >> np.arange(32, dtype=np.uint32) & 1, axis=1)
        for alike in (False, True):
            chosen = np.flatnonzero(known & (uniform == alike))
            if not len(chosen):
                continue
            lanes, number = 1 if alike else 32, register[chosen]
            if alike:
                number = np.where(number == UNIFORM_PREDICATES, number, number % UNIFORM)
            self._target.add("register", {
                "grid_launch": np.full(len(chosen) * lanes, launch),
                "event": np.repeat(np.asarray(numbers)[record[chosen]], lanes), "register": np.repeat(number, lanes),
                "uniform": np.full(len(chosen) * lanes, alike),
                "lane": [None] * len(chosen) if alike else np.tile(np.arange(32, dtype=np.int8), len(chosen)),
                "value": found.value[chosen, first[chosen]] if alike else found.value[chosen].ravel(),
                "process": np.full(len(chosen) * lanes, self._process),
            })  # fmt: skip

    def _add_accesses(self, events: Events, launch: int, numbers: object) -> None:
        """32 rows per access, as in CUTracer: 0 for inactive lanes."""
        rows = np.flatnonzero(events.is_access)
        chosen = events.take(rows)
        if not len(chosen):
            return
        spaces = np.array([_SPACES.get(KINDS[kind].space, 0) for kind in chosen.kind.tolist()])
        loads = (chosen.flags & (READ | WRITE)) == READ
        words = chosen.values().view(np.uint32).reshape(len(chosen), 32, 4)
        known = chosen.has_values
        size = np.where(known, chosen.size, 0).astype(np.int64)
        columns: dict[str, Any] = {
            "grid_launch": np.full(len(rows) * 32, launch), "event": np.repeat(np.asarray(numbers)[rows], 32),
            "lane": np.tile(np.arange(32, dtype=np.int8), len(rows)), "address": chosen.operand(0).ravel(),
            "space": np.repeat(spaces, 32), "is_load": np.repeat(loads, 32), "bytes": np.repeat(chosen.size.astype(np.int64), 32),
            "process": np.full(len(rows) * 32, self._process),
        }  # fmt: skip
        for word in range(4):
            absent = np.repeat(size <= 4 * word, 32)
            columns[f"value{word}"] = np.ma.array(words[:, :, word].ravel(), mask=absent).tolist()
        self._target.add("access", columns)


def _numbered(events: Events, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers of a launch's events: parts of one instruction's registers form one event."""
    part = np.where(events.kind[rows] == READ_REGISTERS.number, events.flags[rows] >> 1, 0)
    first = part == 0
    numbers = np.cumsum(first) - 1
    if first.all():
        return numbers
    warp = events.block[rows].astype(np.int64) << 8 | events.warp[rows]
    order = np.lexsort(
        (np.arange(len(rows)), events.flags[rows] & 1, events.lanes[rows], events.pc[rows], warp)
    )
    last = np.maximum.accumulate(np.where(first[order], np.arange(len(order)), 0))
    numbers[order] = numbers[order[last]]
    return numbers


def _register_columns(registers: list[int]) -> dict[str, str]:
    """The columns with the registers of an instruction."""
    return {
        "registers": json.dumps([r for r in registers if r < UNIFORM]),
        "uniform_registers": json.dumps([r - UNIFORM for r in registers if UNIFORM <= r < 2 * UNIFORM]),
    }
