"""Block schedule: which CTA ran on which multiprocessor, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import warpsight as ws

if TYPE_CHECKING:
    import pyarrow as pa

start = ws.probes.array(1, per="cta", reduce="min")
end = ws.probes.array(1, per="cta", reduce="max")
multiprocessor = ws.probes.array(1, per="cta", reduce="max")


@ws.probe(at=("block_enter", "block_exit"), level="warp")
def block_schedule(event: ws.probes.Event) -> None:
    """The first warp that enters and the last that exits bound a CTA."""
    start.add(0, event.time)
    end.add(0, event.time)
    multiprocessor.add(0, event.sm)


def derive(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A row for each CTA, in ns."""
    first = tables["start"].rename_columns(["launch", "kernel", "block", "start"])
    return {
        "blocks": first.append_column("end", tables["end"]["value"]).append_column(
            "sm", tables["multiprocessor"]["value"]
        )
    }
