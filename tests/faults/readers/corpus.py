"""The whole files that damage begins with: one of every format that a reading verb takes."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
#: Traces that are damaged table by table: small ones, from a CUDA and an OpenCL-free recording.
_PACKED = ("planted_serialised_streams", "planted_leak", "h200_two_devices", "planted_slow_step")
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


def _formats() -> Iterator[Whole]:
    for path in sorted((GOLDEN / "formats").rglob("*")):
        if path.is_file() and path.name != "README.md":
            kind = "sass" if path.parent.name in ("cutracer",) else "trace"
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


def _merged() -> Iterator[Whole]:
    for name in ("stacks.txt", "gpu.json"):
        yield Whole(f"merge/{name}", "merge", (GOLDEN / "merge" / name).read_bytes)


def _packed() -> Iterator[Whole]:
    for name in _PACKED:
        path = GOLDEN / f"{name}.warp.zip"
        yield Whole(f"packed/{path.name}", "packed", path.read_bytes)


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
    return [*_formats(), *_recorded(), *_cores(), *_merged(), *_packed(), *_shared()]
