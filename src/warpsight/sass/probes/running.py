"""Probes in a program: their device code in place of the tracer's patches, their maps from its event file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from warpsight.formats.events.kinds import KINDS
from warpsight.recorder.launch import check_runnable
from warpsight.sass.events import tracing
from warpsight.sass.events.tracing import INJECTION, REQUEST, TracedRun, TraceSelection
from warpsight.sass.probes import ptx
from warpsight.sass.probes.definition import Probe, Translated, maps_of, translated
from warpsight.sass.probes.maps import SCOPES

PROBE = 4  # actions of a patch (native/sanitizer/event_format.h)
_RING_MIB = 1  # nothing passes through it


def run(
    program: Sequence[str],
    probes: Sequence[Probe],
    out: Path,
    selection: TraceSelection | None = None,
    map_mib: int = 1024,
) -> TracedRun:
    """Run a program with probes; the event file `out` holds their maps.

    Args:
        program: the command.
        probes: the probes, which run together.
        out: the file; if several processes used a GPU, each has its own, with its pid before the suffix.
        selection: kernels (beside those of each probe), launches, blocks, warps, addresses, offsets.
        map_mib: device memory for the maps of pending launches.

    Raises:
        UsageError: for unsupported code in a probe, with its file and line.
        WarpsightError: when a requirement of probes is missing, or another tool is injected.
    """
    made = translated(probes)
    check_runnable(program[0])
    tracing.refuse_other_tools()
    library, sanitizer = tracing.injected_library(), tracing.sanitizer_library()
    with tempfile.TemporaryDirectory(prefix=".probes-", dir=out.parent.resolve()) as temporary:
        folder = Path(temporary)
        source = folder / "probes.ptx"
        source.write_text(device_code(made))
        patches = tracing.assemble(folder, tracing.architectures(), source)
        lines = request(made, selection or TraceSelection(), folder / "events", sanitizer, patches, map_mib)
        code = tracing.run_injected(program, {INJECTION: str(library), REQUEST: "\n".join(lines)})
        return TracedRun(code, tracing.keep_files(folder, out), tuple(program))


def device_code(probes: Sequence[Translated]) -> str:
    """The PTX for patching the program's kernels."""
    return ptx.module(
        tracing.shipped_ptx("patches").read_text(), tracing.shipped_ptx("probes").read_text(), probes
    )


def request(
    probes: Sequence[Translated],
    selection: TraceSelection,
    file: Path,
    sanitizer: Path,
    patches: Sequence[Path],
    map_mib: int,
) -> list[str]:
    """The request to the library: an event trace's, plus the needs of probes (native/sanitizer/request.cpp)."""
    kinds = dict.fromkeys(where.kind for one in probes for where in one.probe.where)
    chosen = replace(selection, events=(), ring_mib=_RING_MIB)
    lines = [
        line
        for line in tracing.request(chosen, file, sanitizer, patches)
        if not line.startswith(("description=", "mode="))
    ]
    said = {**chosen.described(), "probes": described(probes)}
    return [
        *lines, f"description={json.dumps(said)}", f"mode={PROBE}", f"map_bytes={map_mib << 20}",
        *(f"instruction={number}:{KINDS[number].patch}" for number in kinds),
        *(f"probe={one.probe.kernel}" for one in probes),
        *(f"map={SCOPES[known.per]}:{known.words}{':hidden' * known.hidden}" for known in maps_of(probes)),
    ]  # fmt: skip


def described(probes: Sequence[Translated]) -> dict[str, object]:
    """The probes' description in the event file."""
    return {
        "maps": [known.described() for known in maps_of(probes)],
        "probes": [
            {"name": one.name, "at": list(one.at), "kernel": one.kernel, "level": one.level}
            for one in (each.probe for each in probes)
        ],
    }
