"""The whole files that damage begins with: one of every format that a reading verb takes."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
#: Traces that are damaged table by table: small ones, from a CUDA and an OpenCL-free recording.
_PACKED = ("planted_serialised_streams", "planted_leak", "h200_two_devices", "planted_slow_step")
#: Kinds whose bytes are the zip of a folder.
FOLDERS = ("capsule", "job")
#: Files of shared data are cut to so many bytes of text: a child reads one in a second.
_LARGEST = 3_000_000


@dataclass(frozen=True)
class Whole:
    """One file: how it is named, which kind of verbs read it, and how its bytes are had."""

    name: str
    kind: str
    read: Callable[[], bytes]

    @property
    def suffix(self) -> str:
        """The file's own endings, which readers may look at."""
        return self.name.split("/")[-1]

    def write(self, data: bytes, path: Path) -> None:
        """Lay the file out; of a folder the bytes are a zip, whose members become its files."""
        if self.kind not in FOLDERS:
            path.write_bytes(data)
            return
        path.mkdir()
        for name, content in members(data).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)


def _formats() -> Iterator[Whole]:
    for path in sorted((GOLDEN / "formats").rglob("*")):
        if path.is_file() and path.name != "README.md":
            kind = {"cutracer": "sass", "events": "events"}.get(path.parent.name, "trace")
            yield Whole(path.relative_to(GOLDEN / "formats").as_posix(), kind, path.read_bytes)


def _recorded() -> Iterator[Whole]:
    for path in sorted((GOLDEN / "recorded").iterdir()):
        if path.suffix == ".gz":
            yield Whole(f"recorded/{path.name}", "trace", path.read_bytes)  # damage of the compression
            yield Whole(f"recorded/{path.stem}", "trace", _unzipped(path))
        elif path.suffix != ".md":
            yield Whole(f"recorded/{path.name}", "trace", path.read_bytes)


def _unzipped(path: Path) -> Callable[[], bytes]:
    return lambda: gzip.decompress(path.read_bytes())


def _cores() -> Iterator[Whole]:
    names = ("illegal_address.debug", "grid_sync.lineinfo", "mbarrier_wait.lineinfo", "triton_lock.lineinfo")
    for name in names:
        path = GOLDEN / "cores" / f"{name}.gpucore.xz"
        yield Whole(f"cores/{name}.gpucore", "core", lambda path=path: lzma.decompress(path.read_bytes()))  # type: ignore[misc]


def _code() -> Iterator[Whole]:
    for name in (
        "three_lines.sm_90",
        "spin_flag.debug.sm_90",
        "warpgroup_tma.sm_90",
        "gather_kernel.triton.sm_90",
    ):
        path = GOLDEN / "cubins" / f"{name}.cubin.xz"
        yield Whole(f"cubins/{name}.cubin", "cubin", lambda path=path: lzma.decompress(path.read_bytes()))  # type: ignore[misc]
    for path in sorted((GOLDEN / "events").glob("*.zst")):
        yield Whole(f"events/{path.name}", "events", path.read_bytes)


def _folders() -> Iterator[Whole]:
    for path in sorted((GOLDEN / "capsules").iterdir()):
        yield Whole(f"capsules/{path.name}", "capsule", lambda path=path: zipped(_below(path)))  # type: ignore[misc]
    for path in sorted((GOLDEN / "flight_recorder").iterdir()):
        yield Whole(f"jobs/dumps_{path.name}", "job", lambda path=path: zipped(_below(path)))  # type: ignore[misc]
    kineto = {f"rank{i}.json.gz": GOLDEN / "recorded" / f"kineto_h200x2_rank{i}.json.gz" for i in (0, 1)}
    traces = {f"{name}.warp.zip": GOLDEN / f"ranks_{name}.warp.zip" for name in ("loader", "hang")}
    same = {"a.warp.zip": traces["hang.warp.zip"], "again/a.warp.zip": traces["hang.warp.zip"]}
    for name, files in (("kineto", kineto), ("traces", traces), ("twice", same | kineto)):
        yield Whole(f"jobs/{name}", "job",
                    lambda files=files: zipped({n: path.read_bytes() for n, path in files.items()}))  # type: ignore[misc]  # fmt: skip


def _below(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def zipped(files: dict[str, bytes]) -> bytes:
    """The files of a folder as one zip, which a file system's rules for names do not concern."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def _plan() -> bytes:
    """A delay plan as `race points` writes it."""
    points = [{"kernel": "_Z4copyPf", "code": "ab" * 32, "pc": 16 * i, "kind": ("global", "barrier")[i % 2], "opcode": "LDG.E",
               "source": ["a.cu:3", "b.cu:9"]} for i in range(5)]  # fmt: skip
    plan = {"version": 1, "mode": "random", "seed": 7, "probability": 0.5, "floor_ns": 10, "ceiling_ns": 2000, "depth": 0,
            "steps": 0, "points": points, "where": {"ctas": [[0, 4], [8, 9]], "warps": [0, 3]},
            "code": {"_Z4copyPf": ["ab" * 32]}, "versions": {"warpsight": "1"}, "command": ["true"]}  # fmt: skip
    return json.dumps(plan).encode()


def _merged() -> Iterator[Whole]:
    for name in ("stacks.txt", "gpu.json"):
        yield Whole(f"merge/{name}", "merge", (GOLDEN / "merge" / name).read_bytes)


def _packed() -> Iterator[Whole]:
    for name in _PACKED:
        path = GOLDEN / f"{name}.warp.zip"
        yield Whole(f"packed/{path.name}", "packed", path.read_bytes)
    for path in (GOLDEN / "h100_hot_lines.warp.zip", *sorted((GOLDEN / "counters").glob("*.warp.zip"))):
        yield Whole(f"inside/{path.name}", "inside", path.read_bytes)


def _shared() -> Iterator[Whole]:
    """Real traces of others, where they are at hand."""
    folder = os.environ.get("WARPSIGHT_TEST_DATA")
    for path in sorted(Path(folder).iterdir()) if folder else ():
        if path.suffix == ".sqlite":
            yield Whole(f"shared/{path.name}", "trace", path.read_bytes)
        elif path.suffix == ".gz":
            yield Whole(f"shared/{path.stem}", "trace", _begin(path))


def _begin(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        with gzip.open(path) as file:
            return file.read(_LARGEST)

    return read


def members(archive: bytes) -> dict[str, bytes]:
    """The files of a packed trace."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def files() -> list[Whole]:
    """Every file, in an order that stays."""
    plans = (Whole("plans/app.plan.json", "plan", _plan),)
    return [
        *_formats(),
        *_recorded(),
        *_cores(),
        *_merged(),
        *_packed(),
        *_shared(),
        *_code(),
        *_folders(),
        *plans,
    ]
