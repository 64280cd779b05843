"""A dump as plain data: the verdict, where every lane is, grids, modules. The command line's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.debug.gpucore.addresses import accesses
from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.faults import Fault, faults
from warpsight.debug.gpucore.grid_size import launched_blocks
from warpsight.debug.gpucore.groups import Lanes, SourceSite, grid_of_blocks, histogram, join, places, wait_of
from warpsight.debug.gpucore.hang import Hang
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.layout import FLAGS, GRID_STATUS, Kind, exception_name
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.debug.gpucore.waiting.instructions import WarpWait
from warpsight.device_code.debug_info.inline_chain import Frame, SourceChain, source_line
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.operations import operation

#: Reported once for all kernels without line information.
_NO_LINES = (
    "compiled without line information: build with NVCC_PREPEND_FLAGS=-lineinfo in the environment (or nvcc -lineinfo), and "
    "clear compile caches (ccache, ~/.nv/ComputeCache, TORCH_EXTENSIONS_DIR), which return code compiled without it; "
    "Triton writes lines unless TRITON_DISABLE_LINE_INFO=1; NVRTC needs -lineinfo among its options"
)
_UNEXPLAINED: dict[str, Any] = {"roots": [], "chain": [], "missing_blocks": [], "explanation": []}
_UNKNOWN_MEMORY: dict[str, Any] = {"polls": None, "mbarrier": None}
#: Longer kernel names are shortened in notes.
_LONGEST_NAME = 120


@dataclass(frozen=True)
class SummaryOptions:
    """How much to show.

    Attributes:
        instructions: include the text of instructions, if nvdisasm is available; this takes half a second longer.
        sources: folders that hold source files.
        ptx: files or folders with the kernels' PTX, see :mod:`warpsight.device_code.debug_info.ptx_files`; by default Triton's
            cache.
        limit: how many places to describe.
    """

    instructions: bool = False
    sources: tuple[str, ...] = ()
    ptx: tuple[Path, ...] = ()
    limit: int | None = None


def summarise(core: GpuCore, options: SummaryOptions | None = None) -> dict[str, Any]:
    """Everything the command shows about a dump, ready for JSON; times in UTC, addresses as hexadecimal strings.

    `frames` are innermost first. Everything that is not in the dump is null or missing from its list.
    """
    return View(core, options or SummaryOptions()).document()


class View:
    """The parts of a summary, made from one pass over the lanes.

    Attributes:
        core, options: the dump and the request; code, joined: the dump's code, and its lanes with their owners.
        faults, groups, places: see their modules; places are in the order of a hang's explanation, otherwise by number of lanes.
        hang: the explanation; None when there was an exception, or nothing ran. shown: the places within the limit.
    """

    def __init__(self, core: GpuCore, options: SummaryOptions) -> None:
        self.core, self.options = core, options
        self.code = Code(core)
        for grid in range(len(core.table(Kind.GRIDS))):
            location = self.code.grid_location(grid)
            if location is not None:
                location.cubin.use_ptx(options.ptx, options.sources)
        self.joined: Lanes = join(core)
        self.faults = faults(core, self.code)
        found = histogram(core, self.code, self.joined)
        self.groups = found.groups
        self.places, place_of_lane = places(found, self.code)
        order: Sequence[int] = range(len(self.places))
        self.hang: Hang | None = None
        if self.kind == "hang":
            self.hang = Hang.of(LaneMap.of(core, self.joined, place_of_lane), self.places, self.code)
            self.places, order = list(self.hang.places), self.hang.graph.order
        self._lanes_of = [np.flatnonzero(place_of_lane == number) for number in order[: options.limit]]
        self.shown = self.places[: options.limit]
        addresses = [p.address for p in self.shown] + [f.pc for f in self.faults[:16] if f.pc is not None]
        unique = list(dict.fromkeys(addresses))
        self.texts = self.code.disassemble_all(unique) if options.instructions else {}

    def document(self) -> dict[str, Any]:
        """The whole summary."""
        metadata = self.core.table(Kind.METADATA).rows
        first = metadata[0] if len(metadata) else None
        found = {
            "file": str(self.core.path),
            "kind": self.kind,
            "time": _time(int(first["timestamp"])) if first is not None else None,
            "driver": f"{first['driver_major']}.{first['driver_minor']}" if first is not None else None,
            "cuda": f"{first['cuda_major']}.{first['cuda_minor']}" if first is not None else None,
            "flags": _flags(int(first["flags"])) if first is not None else [],
            "sections": len(self.core.elf.sections),
            "devices": self.devices(),
            "faults": [self.fault(fault) for fault in self.faults],
            "grids": self.grids(),
            **(self.hang.to_json(self.options.limit, self.code) if self.hang else _UNEXPLAINED),
            "places": [self.place(at, place) for at, place in enumerate(self.shown)],
            "places_left_out": len(self.places) - len(self.shown),
            "modules": self.modules(),
            "notes": self.notes(),
        }
        found["problems"] = self.core.problems  # last: reading found them
        return found

    @property
    def kind(self) -> str:
        """`exception`, `hang` or `idle`."""
        return "exception" if self.faults else "hang" if self.groups else "idle"

    def devices(self) -> list[dict[str, Any]]:
        """The devices of the dump."""
        rows = self.core.table(Kind.DEVICES).rows
        return [
            {
                "id": int(row["id"]),
                "name": self.core.text(int(row["name"])),
                "architecture": self.core.text(int(row["sm_type"]))
                or f"sm_{row['sm_major']}{row['sm_minor']}",
                "pci": f"{row['pci_bus']:02x}:{row['pci_device']:02x}",
                "multiprocessors": int(row["sms"]),
                "warps_per_multiprocessor": int(row["warps_per_sm"]),
            }
            for row in rows
        ]

    def frames(self, chain: Sequence[Frame]) -> list[dict[str, Any]]:
        """Frames with their source text."""
        return [
            {
                "function": frame.function,
                "file": frame.file,
                "line": frame.line,
                "column": frame.column or None,
                "text": source_line(frame.file, frame.line, self.options.sources),
            }
            for frame in chain
        ]

    def chain(self, chain: SourceChain | None) -> dict[str, Any]:
        """A chain as plain data, or a placeholder without one."""
        if chain is None:
            return {"frames": [], "refined": False, "origin": None, "raw_frames": None}
        raw = self.frames(chain.raw) if chain.frames != chain.raw else None
        return {
            "frames": self.frames(chain.frames),
            "refined": chain.refined,
            "origin": chain.origin,
            "raw_frames": raw,
        }

    def at(self, address: int) -> dict[str, Any]:
        """An address with its function, instruction and chain."""
        location = self.code.locate(address)
        return {
            "address": hex(address),
            "function": location.function if location else None,
            "offset": location.offset if location else None,
            "operation": operation(self.code.instruction(address)),
            "instruction": self.texts.get(address),
            **self.chain(location.chain if location else None),
        }

    def lane(self, lane: int) -> dict[str, Any]:
        """Coordinates of a lane."""
        core, at = self.core, self.joined
        warp, block, grid = (int(rows[lane]) for rows in (at.warp, at.block, at.grid))
        sm = int(core.table(Kind.BLOCKS).parent[block]) if block >= 0 else -1
        device = int(core.table(Kind.SMS).parent[sm]) if sm >= 0 else -1
        row = core.table(Kind.LANES).rows[lane]
        return {
            "device": int(core.table(Kind.DEVICES).rows["id"][device]) if device >= 0 else None,
            "sm": int(core.table(Kind.SMS).rows["id"][sm]) if sm >= 0 else None,
            "warp": int(core.table(Kind.WARPS).rows["id"][warp]) if warp >= 0 else None,
            "lane": int(row["lane"]),
            "grid": int(core.table(Kind.GRIDS).rows["id"][grid]) if grid >= 0 else None,
            "block": core.table(Kind.BLOCKS).rows["index"][block].tolist() if block >= 0 else None,
            "thread": row["thread"].tolist(),
        }

    def fault(self, fault: Fault) -> dict[str, Any]:
        """One exception with everything known about its place."""
        lane = self._lane_of(fault)
        grid = int(self.joined.grid[lane]) if lane is not None else self._only_grid()
        return {
            "exception": fault.name,
            "code": fault.code,
            "message": fault.message or None,
            "kernel": self.code.grid_name(grid) if grid >= 0 else None,
            "device": fault.device,
            "sm": fault.sm,
            "lanes": list(fault.lanes),
            "where": self.lane(lane) if lane is not None else None,
            "pc": hex(fault.pc) if fault.pc is not None else None,
            "at": self.at(fault.pc) if fault.pc is not None else None,
            "calls": self.calls(lane) if lane is not None else [],
            "accesses": self.accesses(fault),
            "cluster_target": list(fault.target) if fault.target else None,
        }

    def accesses(self, fault: Fault) -> dict[str, Any] | None:
        """The addresses of a memory exception's warp, if its registers still hold them."""
        found = accesses(self.core, self.code, fault)
        if found is None:
            return None
        return {
            "size": found.size,
            "lowest": hex(min(address for _, address in found.by_lane)),
            "highest": hex(max(address for _, address in found.by_lane)),
            "suspects": [{**self.lane(row), "address": hex(address)} for row, address in found.suspects],
        }

    def _lane_of(self, fault: Fault) -> int | None:
        if fault.warp is None:
            return None
        mine = np.flatnonzero(self.joined.warp == fault.warp)
        if not len(mine):
            return None
        named = mine[np.isin(self.core.table(Kind.LANES).rows["lane"][mine], fault.lanes)]
        return int((named if len(named) else mine)[0])

    def wait(self, lane: int) -> WarpWait | None:
        """The wait of a lane's warp."""
        pc = int(self.core.table(Kind.LANES).rows["pc"][lane])
        return wait_of(self.core, self.code, lane, int(self.joined.warp[lane]), pc)

    def fault_pc(self, lane: int) -> int | None:
        """The instruction that raised a lane's exception, if it has one."""
        number, warp = int(self.core.table(Kind.LANES).rows["lane"][lane]), int(self.joined.warp[lane])
        mine = [fault for fault in self.faults if fault.warp == warp and number in fault.lanes]
        return mine[0].pc if mine else None

    def _only_grid(self) -> int:
        return 0 if len(self.core.table(Kind.GRIDS)) == 1 else -1

    def calls(self, lane: int) -> list[dict[str, Any]]:
        """The real calls above a lane's function, innermost first: where each returns to.

        After a jump to nowhere the driver knows the return address only relative to the kernel's start.
        """
        grid = int(self.joined.grid[lane])
        entry = int(self.core.table(Kind.GRIDS).rows["entry"][grid]) if grid >= 0 else 0
        found = []
        for address, offset in self.core.backtrace(lane):
            if self.code.locate(address) is None and address == offset and self.code.locate(entry + offset):
                address = entry + offset
            # The call itself is the instruction before the one it returns to.
            found.append(self.at(address - INSTRUCTION_SIZE))
        return found

    def grids(self) -> list[dict[str, Any]]:
        """The grids with the number of their lanes."""
        core, at = self.core, self.joined
        grids, warps = core.table(Kind.GRIDS), core.table(Kind.WARPS)
        warp_grid = np.full(len(warps), -1, np.int64)
        owned = at.warp >= 0
        warp_grid[at.warp[owned]] = at.grid[owned]
        launched = launched_blocks(core, grid_of_blocks(core))
        found = []
        for row, grid in enumerate(grids.rows):
            mine = at.grid == row
            exited = warps.rows["cbu_exited"][warp_grid == row].astype(np.uint64)
            location = self.code.grid_location(row)
            found.append(
                {
                    "id": int(grid["id"]),
                    "kernel": self.code.grid_name(row),
                    "mangled": location.kernel if location else None,
                    "status": GRID_STATUS[int(grid["status"])] if grid["status"] < len(GRID_STATUS) else None,
                    "grid": grid["grid"].tolist(),
                    "blocks": launched[row],
                    "block": grid["block"].tolist(),
                    "cluster": grid["cluster"].tolist() if grid["cluster"].any() else None,
                    "registers": int(grid["registers"]),
                    "host_thread": int(grid["host_tid"]),
                    "blocks_resident": len(np.unique(at.block[mine])),
                    "warps_resident": int((warp_grid == row).sum()),
                    "lanes_active": int((mine & at.active).sum()),
                    "lanes_diverged": int((mine & ~at.active).sum()),
                    "lanes_exited": sum(int(mask).bit_count() for mask in exited),
                    "line_information": bool(location and location.cubin.has_lines),
                }
            )
        return found

    def place(self, at: int, place: SourceSite) -> dict[str, Any]:
        """One row of the histogram."""
        first = place.groups[0]
        states: dict[str, int] = {}
        for group in place.groups:
            for name, count in group.states:
                states[name] = states.get(name, 0) + count
        return {
            "kernel": self.code.grid_name(place.grid) if place.grid >= 0 else None,
            "lanes": place.lanes,
            "warps": len(np.unique(self.joined.warp[self._lanes_of[at]])),
            "blocks": len(np.unique(self.joined.block[self._lanes_of[at]])),
            "active": any(group.active for group in place.groups),
            "waits_for": place.wait.text if place.wait else None,
            "wait": place.wait.kind if place.wait else None,
            **(self.hang.of_place(at) if self.hang else _UNKNOWN_MEMORY),
            "states": states,
            "at": self.at(place.address),
            "pcs": [{"pc": hex(group.pc), "lanes": group.lanes} for group in place.groups],
            "example": self.lane(first.example),
        }

    def exception_of(self, lane: int) -> str | None:
        """The name of a lane's exception."""
        number = int(self.core.table(Kind.LANES).rows["exception"][lane])
        return exception_name(number) if number else None

    def modules(self) -> list[dict[str, Any]]:
        """The modules and their contents."""
        found = []
        for row, handle in enumerate(self.core.table(Kind.MODULES).rows["handle"].tolist()):
            cubin = self.core.cubin(row)
            found.append(
                {
                    "index": row,
                    "handle": hex(handle),
                    "architecture": f"sm_{cubin.architecture}" if cubin else None,
                    "bytes": len(cubin.elf.data) if cubin else None,
                    "functions": [demangle(name) for name in cubin.sections.values()] if cubin else [],
                    "line_information": cubin.has_lines if cubin else None,
                }
            )
        return found

    def notes(self) -> list[str]:
        """Notes for the reader alongside the facts."""
        found = []
        for row in range(len(self.core.table(Kind.GRIDS))):
            location = self.code.grid_location(row)
            name = self.code.grid_name(row)
            name = name if len(name) <= _LONGEST_NAME else short(name)
            if location is not None and not location.cubin.has_lines:
                found.append(f"{name}: {_NO_LINES}")
            elif location is None:
                found.append(f"{name}: the dump has no code for it")
        if self.kind == "idle":
            found.append("no kernel was running when the dump was made")
        return list(dict.fromkeys(found))


def _time(seconds: int) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat() if seconds else None


def _flags(bits: int) -> list[str]:
    return [name for bit, name in enumerate(FLAGS) if bits >> bit & 1]
