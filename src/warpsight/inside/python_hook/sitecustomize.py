"""Runs at the start of a recorded Python program when `--ranges torch` is on.

Switches torch's NVTX ranges on once torch has been imported, and runs the user's own sitecustomize as if this one
were not there.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def _ranges_on(torch: ModuleType) -> None:
    if "torch" not in os.environ.get("WARPSIGHT_RANGES", ""):
        return
    import atexit

    try:
        # The equivalent of torch.autograd.profiler.emit_nvtx, which also works if torch was built without CUDA checks.
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=True)
        ranges.__enter__()
        atexit.register(ranges.__exit__, None, None, None)
    except Exception as error:  # another profiler is on, or a torch without NVTX: the program goes on
        print(f"warpsight: --ranges torch: {type(error).__name__}: {error}", file=sys.stderr)


class _AfterTorch:
    """Finds torch in the usual way and adds one step after its execution."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # once is enough
        import importlib.util

        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        if not hasattr(loader, "exec_module"):
            return spec
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _ranges_on(module)

        loader.exec_module = exec_module
        return spec


def _run_users_own() -> None:
    import importlib.machinery

    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    sys.path[:] = others
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _AfterTorch())
_run_users_own()
