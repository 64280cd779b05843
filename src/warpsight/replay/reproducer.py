"""A stand-alone reproducer of a capsule: a folder with one program, in CUDA C++ or Python, and the contents as plain files.

It needs only the driver and nvcc (or Python): `capsule export X --to cuda`, `--to python`. The program reserves the original
addresses, uploads, runs the operations in their order on one stream, and compares; it exits with 0 if every byte matches the
recording, and with 4 otherwise.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpsight.errors import UsageError
from warpsight.model import private_files
from warpsight.replay import swap
from warpsight.replay.capsule import images, layout
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.outcome import title
from warpsight.replay.reproducer_text import CUDA, PYTHON

FORMS = ("cuda", "python")
_RESERVED = 32 << 20
#: Operations of a program at most, those of graphs counted at each launch.
_MOST_OPERATIONS = 1 << 20


@dataclass(frozen=True)
class Exported:
    """A reproducer that was written: its folder, the program in it, and the command that runs it."""

    folder: Path
    program: str
    command: str


def export(capsule: Capsule, form: str, folder: Path, *, force: bool = False) -> Exported:
    """Write a reproducer to a new folder.

    Raises:
        UsageError: when the folder exists, the form is not one of :data:`FORMS`, or there are too many operations.
        CapsuleError: when a chunk is damaged.
    """
    if form not in FORMS:
        raise UsageError(f"--to {form!r}: write cuda, python or trace")
    if folder.is_symlink() or (folder.exists() and (not force or not _is_reproducer(folder))):
        raise UsageError(
            f"{folder} exists: choose another name with -o" + ("" if force else ", or replace it with -f")
        )
    nodes = [len(graph.nodes) for graph in capsule.manifest.graphs]
    count = sum(nodes[o.graph] if isinstance(o, m.GraphLaunch) else 1 for o in capsule.manifest.operations)
    if count > _MOST_OPERATIONS:
        raise UsageError(
            f"{capsule.path} has {count:,} operations, more than one program can hold: use warpsight replay"
        )
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_contents(capsule, temporary)
        program = "replay.cu" if form == "cuda" else "replay.py"
        text = _cuda(capsule.manifest) if form == "cuda" else _python(capsule.manifest)
        with open(private_files.create(temporary / program, new=True), "w", encoding="utf-8") as out:
            out.write(text)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    architecture = swap.architecture(capsule.manifest.device.compute_capability)
    command = (
        "python3 replay.py"
        if form == "python"
        else f"nvcc -arch={architecture} -o replay replay.cu -lcuda && ./replay"
    )
    return Exported(folder, program, f"cd {shlex.quote(str(folder))} && {command}")


def _is_reproducer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("replay.cu", "replay.py"))


def _write_contents(capsule: Capsule, folder: Path) -> None:
    needed = sum(capsule.blobs[chunk] for _, contents in _files(capsule.manifest) for chunk in contents)
    capsule.check_room(needed, folder.parent, "choose a place on another disk with -o")
    for name, contents in _files(capsule.manifest):
        with open(private_files.create(folder / name, new=True), "wb") as out:
            for chunk in capsule.chunks(contents):
                out.write(chunk)
    for i, module in enumerate(capsule.manifest.modules):
        images.check(capsule.path, i, module, np.memmap(folder / f"module_{i}.cubin", np.uint8, "r"))


def _files(manifest: m.Manifest) -> Iterator[tuple[str, list[str]]]:
    for i, module in enumerate(manifest.modules):
        yield f"module_{i}.cubin", module.image
        for n, source in enumerate(module.sources):
            plain = re.sub(r"[^\w.-]", "_", Path(source.name).name)
            yield f"module_{i}_{n}_{plain}", source.contents
    holders: list[tuple[str, m.Allocation | m.Global]] = [
        (f"memory_{i}", one) for i, one in enumerate(manifest.allocations)
    ]
    holders += [(f"variable_{i}", one) for i, one in enumerate(manifest.globals)]
    for name, holder in holders:
        if holder.before is not None:
            yield f"{name}.before", holder.before
        if holder.after is not None:
            yield f"{name}.after", holder.after
    for name, work in _works(manifest):
        if isinstance(work, m.Copy) and work.host is not None:
            yield f"{name}.host", work.host


def _works(manifest: m.Manifest) -> Iterator[tuple[str, m.Operation]]:
    """What is executed, in an order that satisfies every dependency: the recorded one, graphs node by node."""
    for i, operation in enumerate(manifest.operations):
        if isinstance(operation, m.GraphLaunch):
            for n, node in enumerate(manifest.graphs[operation.graph].nodes):
                if node.work is not None:
                    yield f"operation_{i}_{n}", node.work
        elif isinstance(operation, (m.Launch, m.Copy, m.Set)):
            yield f"operation_{i}", operation


def _reservations(manifest: m.Manifest) -> list[tuple[int, int]]:
    """Address and size of the driver's reservations: multiples of 32 MiB around the mappings."""
    found: list[tuple[int, int]] = []
    for row in layout.mappings(manifest.allocations):
        if row["kind"] != 0:
            continue
        start = int(row["address"]) // _RESERVED * _RESERVED
        end = -(-(int(row["address"]) + int(row["size"])) // _RESERVED) * _RESERVED
        if found and start <= found[-1][0] + found[-1][1]:
            found[-1] = (found[-1][0], max(end - found[-1][0], found[-1][1]))
        else:
            found.append((start, end - start))
    return found


def _mappings(manifest: m.Manifest) -> list[tuple[int, int, int]]:
    rows = layout.mappings(manifest.allocations)
    return [
        (int(a), int(s), int(k)) for a, s, k in zip(rows["address"], rows["size"], rows["kind"], strict=True)
    ]


def _relocated(manifest: m.Manifest, address: int) -> tuple[int, int] | None:
    """The variable that contains an address, and the offset."""
    for i, one in enumerate(manifest.globals):
        if one.address <= address < one.address + one.size:
            return i, address - one.address
    return None


def _pointers(holders: Sequence[m.Allocation | m.Global]) -> list[tuple[int, int, int, int]]:
    """Stored pointers to variables: holder, offset in it, variable, addend."""
    relocations = [(i, one) for i, holder in enumerate(holders) for one in holder.relocations]
    return [(i, one.offset, one.target, one.addend) for i, one in relocations]


def _memory_call(manifest: m.Manifest, name: str, work: m.Operation) -> Iterator[str]:
    """A fill or copy in the form of both languages."""

    def place(address: int) -> str:
        inside = _relocated(manifest, address)
        return f"{address:#x}" if inside is None else f"gpu.variables[{inside[0]}] + {inside[1]}"

    if isinstance(work, m.Set):
        yield f"gpu.fill({place(work.destination)}, {work.value}, {work.element}, {work.count}, {work.rows}, {work.pitch})"
    elif isinstance(work, m.Copy) and work.destination is not None:
        to = f"{place(work.destination)}, {work.bytes}, {work.rows}, {work.destination_pitch}"
        if work.source is not None:
            yield f"gpu.copy({to}, {place(work.source)}, {work.source_pitch})"
        elif work.host is not None:
            yield f'gpu.upload({to}, "{name}.host")'


def _comment(text: str) -> str:
    """A string without characters that end a line or reverse text direction.

    A capsule's name must not look like code, or hide code.
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# --- Python ---


def _python(manifest: m.Manifest) -> str:
    """The program in Python, using only ctypes."""
    lines = [
        f"RESERVATIONS = {_hexed(_reservations(manifest))}",
        f"MAPPINGS = {_hexed(_mappings(manifest))}  # address, bytes, 1: pinned host memory",
        f"MODULES = {len(manifest.modules)}",
        f"FUNCTIONS = {[(f.module, f.name, f.attributes) for f in manifest.functions]!r}",
        f"MEMORY = {_hexed([(a.address, a.size) for a in manifest.allocations])}",
        f"VARIABLES = {[(g.module, g.name, g.size) for g in manifest.globals]!r}",
        "# Where pointers to variables are stored: of allocations and of variables; (holder, offset, variable, addend).",
        f"POINTERS = {_pointers(manifest.allocations)!r}",
        f"VARIABLE_POINTERS = {_pointers(manifest.globals)!r}",
        f"LIMITS = {({k: v for k, v in manifest.device.limits.items() if k in (0, 2)})!r}",
        "",
        "",
        "def operations(gpu):",
    ]  # fmt: skip
    calls = [f"    {call}" for name, work in _works(manifest) for call in _python_call(manifest, name, work)]
    return PYTHON.replace("@CAPSULE@", "\n".join([*lines, *(calls or ["    pass"])]))


def _hexed(rows: Sequence[tuple[int, ...]]) -> str:
    return "[" + ", ".join("(" + ", ".join(f"{value:#x}" for value in row) + ")" for row in rows) + "]"


def _python_call(manifest: m.Manifest, name: str, work: m.Operation) -> Iterator[str]:
    yield f"# {name}: {_comment(title(manifest, work))}"
    if isinstance(work, m.Launch):
        attributes = [(a.id, a.value.rstrip(b"\0").hex()) for a in work.attributes]
        pointers = [(r.offset, r.target, r.addend) for r in work.relocations]
        yield (
            f"gpu.launch({work.function}, {tuple(work.grid)}, {tuple(work.block)}, {work.shared_bytes}, "
            f"'{work.parameters.hex()}', {attributes!r}, {pointers!r})"
        )
    else:
        yield from _memory_call(manifest, name, work)


# --- CUDA C++ ---


def _cuda(manifest: m.Manifest) -> str:
    """The program in CUDA C++, using the driver API."""
    lines = [
        _array("Range", "reservations", [f"{{{a:#x}, {s:#x}, 0}}" for a, s in _reservations(manifest)]),
        _array("Range", "mappings", [f"{{{a:#x}, {s:#x}, {k}}}" for a, s, k in _mappings(manifest)]),
        _array("Range", "memory", [f"{{{a.address:#x}, {a.size:#x}, 0}}" for a in manifest.allocations]),
        f"const int module_count = {len(manifest.modules)};",
        _array("Function", "functions", [_cuda_function(f) for f in manifest.functions]),
        _array("Variable", "variables", [f"{{{g.module}, {_quoted(g.name)}, {g.size}}}" for g in manifest.globals]),
        "// Where pointers to variables are stored: of allocations and of variables.",
        _array("Pointer", "pointers", [f"{{{', '.join(map(str, p))}}}" for p in _pointers(manifest.allocations)]),
        _array("Pointer", "variable_pointers", [f"{{{', '.join(map(str, p))}}}" for p in _pointers(manifest.globals)]),
        _array("Range", "limits", [f"{{{k}, {v}, 0}}" for k, v in manifest.device.limits.items() if k in (0, 2)]),
        "",
        "void operations(Gpu& gpu) {",
        *(f"  {call}" for name, work in _works(manifest) for call in _cuda_call(manifest, name, work)),
        "}",
    ]  # fmt: skip
    return CUDA.replace("@CAPSULE@", "\n".join(lines))


def _array(kind: str, name: str, rows: list[str]) -> str:
    return f"const std::vector<{kind}> {name} = {{" + ", ".join(rows) + "};"


def _quoted(text: str) -> str:
    """A C string; names contain no control characters, but may contain quotes and backslashes."""
    letters = [chr(b) if 32 < b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()]
    return '"' + "".join(letters) + '"'


def _cuda_function(function: m.Function) -> str:
    pairs = ", ".join(f"{{{k}, {v}}}" for k, v in function.attributes.items())
    return f"{{{function.module}, {_quoted(function.name)}, {{{pairs}}}}}"


def _cuda_call(manifest: m.Manifest, name: str, work: m.Operation) -> Iterator[str]:
    # Neither a backslash nor the trigraph for one, which would join the next line to the comment.
    yield f"// {name}: " + re.sub(r"\?{2,}/", "?/", _comment(title(manifest, work)).replace("\\", "/"))
    if isinstance(work, m.Launch):
        padded = work.parameters + bytes(-len(work.parameters) % 8)
        words = ", ".join(f"{int(word):#x}" for word in np.frombuffer(padded, "<u8"))
        attributes = ", ".join(
            f"{{{a.id}, {{{', '.join(str(b) for b in a.value.rstrip(bytes(1)))}}}}}" for a in work.attributes
        )
        pointers = ", ".join(f"{{0, {r.offset}, {r.target}, {r.addend}}}" for r in work.relocations)
        grid, block = ", ".join(map(str, work.grid)), ", ".join(map(str, work.block))
        yield (
            f"gpu.launch({work.function}, {{{grid}}}, {{{block}}}, {work.shared_bytes}, {len(work.parameters)}, {{{words}}}, "
            f"{{{attributes}}}, {{{pointers}}});"
        )
    else:
        yield from (f"{call};" for call in _memory_call(manifest, name, work))
