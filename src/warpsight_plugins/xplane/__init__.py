"""JAX, XLA and TensorFlow profiles: `xplane.pb`, or the folder `jax.profiler.trace` writes.

Fields follow xplane.proto; names of planes, lines and stats follow xla's `profiler/utils/xplane_schema.cc` and the GPU collectors
(`cupti_collector.cc`, `rocm_collector.cc`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from pathlib import Path

    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_SUFFIX = ".xplane.pb"
#: A plane's name near the beginning: an XSpace is a list of planes, and a plane's name precedes its lines.
_PLANE = re.compile(rb"(/device:[A-Za-z]+:\d+|/host:[A-Za-z-]+|Task Environment|#Chip)")


def sniff(source: Source) -> bool:
    """A protobuf that begins with a plane, or a folder that holds such files."""
    if source.is_directory:
        return bool(_files(source.path))
    head = source.head
    return head[:1] == b"\x0a" and (source.path.name.endswith(_SUFFIX) or bool(_PLANE.search(head[:4096])))


def read(source: Source, target: Target, options: Options) -> None:
    """Read one profile, or all of a folder: one file per host.

    Raises:
        FormatError: for a file that is not an XSpace.
    """
    from warpsight_plugins.xplane.space import read_space

    del options
    if not source.is_directory:
        read_space(source, target)
        return
    for member in source.members(_files(source.path)):
        read_space(member, target)


def _files(folder: Path) -> list[Path]:
    """Profiles of the newest run: `plugins/profile/<time>/<host>.xplane.pb`."""
    found = sorted(path for path in folder.rglob(f"*{_SUFFIX}") if path.is_file())
    newest = max((path.parent for path in found), default=None)
    return [path for path in found if path.parent == newest]


COVERAGE = Coverage(
    kept=(
        "kernels, copies, fills, allocations; on TPUs operations as kernels, modules and steps as ranges",
        "host events as ranges; driver calls; HLO and framework operation of a kernel as attributes",
    ),
    lost=(
        "implausible register counts (ROCm); parts of a nanosecond; aggregated events (counted); serialized "
        "HLO",
    ),
    tested=("three real profiles of JAX on ROCm; NVIDIA and TPU planes written after openxla/xla's schema",),
)
