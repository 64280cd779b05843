"""Known work of the recorder itself while the program ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: The thread number of rows without a thread.
NO_THREAD = np.iinfo(np.int32).min
#: Kinds of table overhead that the program would have without a recorder: compiling and loading code, and a full launch queue,
#: which CUPTI also reports there. torch.profiler writes "Unrecognized" for kinds that it does not know; it knows CUPTI's own, and
#: most of the others are of this sort.
_NOT_THE_RECORDERS = (
    "command buffer full",
    "driver compiler",
    "compiler",
    "lazy",
    "module load",
    "runtime triggered",
    "unknown",
    "unrecognized",
)


def stretches(trace: StoredTrace) -> tuple[dict[str, Column], list[str], Column]:
    """Table `overhead` (start and duration in ns, process, thread, kind as an index), the texts of kinds, the recorder's rows."""
    numbers = {"start": 0, "duration": 0, "process": 0, "thread": NO_THREAD}
    columns, texts = trace.columns("overhead", numbers, ["kind"])
    kinds = [text.casefold() for text in texts["kind"]]
    own = np.array([not any(word in kind for word in _NOT_THE_RECORDERS) for kind in kinds] + [False])
    return columns, texts["kind"], np.flatnonzero(own[columns["kind"]])
