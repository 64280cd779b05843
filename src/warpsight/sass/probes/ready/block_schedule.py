"""Block schedule: which CTA ran on which multiprocessor, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import warpsight as ws

if TYPE_CHECKING:
    import pyarrow as pa

start = ws.probes.array(1, per="cta", reduce="min")
end = ws.probes.array(1, per="cta", reduce="max")
multiprocessor = ws.probes.array(1, per="cta", reduce="max")


@ws.probe(at=("block_enter", "block_exit"), level="warp")
def block_schedule(event: ws.probes.Event) -> None:
    """Record when a CTA's first warp enters and its last warp exits."""
    start.add(0, event.time)
    end.add(0, event.time)
    multiprocessor.add(0, event.sm)


def derive(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A row per CTA: nanoseconds since the launch's first CTA began."""
    import pyarrow as pa

    launch = tables["start"]["launch"].to_numpy()
    began, ended = (tables[name]["value"].to_numpy() for name in ("start", "end"))
    _, first, of = np.unique(launch, return_index=True, return_inverse=True)
    zero = np.minimum.reduceat(began, first)[of.ravel()]
    columns = {name: tables["start"][name] for name in ("launch", "kernel", "block")}
    times = {"start": began - zero, "end": ended - zero, "launch_start": zero}
    return {"blocks": pa.table({**columns, "sm": tables["multiprocessor"]["value"], **times})}
