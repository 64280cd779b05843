"""NCCL timeouts reported by PyTorch, whose watchdog writes a file per rank when a collective does not end in time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: The prefix of that file, by its newer and its older name (ProcessGroupNCCL; the rank is appended).
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
#: Without a buffer the watchdog writes nothing; PyTorch's own default since 2.6 is this size.
_BUFFERS = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_ON_TIMEOUT = "TORCH_NCCL_DUMP_ON_TIMEOUT"
_EVENTS = "2000"


class NcclDumps:
    """Asks PyTorch to write into a folder, and looks for the files. Values set by the user take precedence."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prefix: Path | None = None
        self._seen: set[Path] = set()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Variables to add."""
        chosen = next((base[name] for name in _PREFIXES if base.get(name)), None)
        out: dict[str, str] = {}
        if chosen is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            chosen = str(self._folder / "rank_")
            out = dict.fromkeys(_PREFIXES, chosen)
        self._prefix = Path(chosen)
        self._seen = set(self._files())
        if not any(base.get(name) for name in _BUFFERS):
            out |= dict.fromkeys(_BUFFERS, _EVENTS)
        if not base.get(_ON_TIMEOUT):
            out[_ON_TIMEOUT] = "1"
        return out

    def look(self) -> list[str]:
        """A reason for each new file."""
        new = [path for path in self._files() if path not in self._seen]
        self._seen.update(new)
        if not new:
            return []
        return ["NCCL timeout: PyTorch's watchdog wrote " + ", ".join(path.name for path in new)]

    def close(self) -> None:
        """Remove the folder when nothing was written to it."""
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def _files(self) -> list[Path]:
        if self._prefix is None:
            return []
        try:
            return sorted(self._prefix.parent.glob(self._prefix.name + "*"))
        except OSError:
            return []
