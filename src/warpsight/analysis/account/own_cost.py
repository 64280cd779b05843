"""How much longer the run took because of recording, from the recorder's own measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpsight.analysis.account.account import account
from warpsight.analysis.account.classes import RECORDER

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


@dataclass(frozen=True)
class OwnCost:
    """The cost of recording (ns).

    Attributes:
        span: From the first to the last work of the device that lost the most.
        waited: How long that device waited for the recorder.
    """

    span: int
    waited: int

    @property
    def longer(self) -> float:
        """The cost relative to the run's time without recording."""
        return self.waited / max(self.span - self.waited, 1)


def own_cost(trace: StoredTrace) -> OwnCost | None:
    """The cost of recording according to the account; None without device work or without a measurement.

    Where the device was busy all the time, the recorder's time on the host cost nothing.
    """
    if not any(name.startswith("own_") for name in trace.manifest.get("overhead") or {}):
        return None
    found = account(trace)
    recorder = found.pieces.of(RECORDER)
    if not found.gaps.devices:
        return None
    device = found.gaps.device[found.pieces.gap[recorder]]
    waited = np.bincount(
        device, weights=found.pieces.length_of(recorder), minlength=len(found.gaps.devices)
    ).astype(np.int64)
    spans = [times["span"] for times in found.devices.values()]
    most = int(np.argmax(waited / np.maximum(spans, 1)))
    return OwnCost(spans[most], int(waited[most]))
