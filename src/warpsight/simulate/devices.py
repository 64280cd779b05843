"""How much longer or shorter device work takes on another device, by what each is bound by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from warpsight.errors import UsageError
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]


def factors(trace: Trace, work: Work, name: str, lean: int) -> tuple[Column, str]:
    """What each row's time is multiplied with on the device of that name, and how that was found.

    Raises:
        UsageError: The device, or one of the trace's, is not in the table of peaks.
    """
    raise UsageError(f"device:{name}: not yet")
