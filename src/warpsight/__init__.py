"""warpsight: records GPU programs and answers from the recording.

    import warpsight as ws

    with ws.record("run.warp"):
        for batch in data:
            with ws.annotate("forward"):
                ...
            ws.step()

    trace = ws.open("run.warp")

Modules load on first use, so importing this package costs next to nothing. Every function that
reports something is a no-op while nothing records.
"""

# The command line can end quietly at Ctrl-C once this package is imported, so that imports nothing, not even `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from warpsight import cluster as cluster
    from warpsight import race as race
    from warpsight import sass as sass
    from warpsight._version import __version__ as __version__
    from warpsight.api.core import core as core
    from warpsight.api.differences import diff as diff
    from warpsight.api.live import top as top
    from warpsight.api.made import import_files as import_files
    from warpsight.api.made import recover as recover
    from warpsight.api.programs import attach as attach
    from warpsight.api.programs import bench as bench
    from warpsight.api.programs import detach as detach
    from warpsight.api.programs import dump as dump
    from warpsight.api.programs import sanitize as sanitize
    from warpsight.api.programs import watch as watch
    from warpsight.api.run import run as run
    from warpsight.api.trace import Trace as Trace
    from warpsight.api.trace import open as open
    from warpsight.errors import TraceError as TraceError
    from warpsight.errors import UsageError as UsageError
    from warpsight.errors import WarpsightError as WarpsightError
    from warpsight.inside import memory as memory
    from warpsight.inside.capsules import capture_frame as capture_frame
    from warpsight.inside.events import annotate as annotate
    from warpsight.inside.events import counter as counter
    from warpsight.inside.events import emit as emit
    from warpsight.inside.events import mark as mark
    from warpsight.inside.events import trigger as trigger
    from warpsight.inside.recording import Recording as Recording
    from warpsight.inside.recording import record as record
    from warpsight.inside.recording import start as start
    from warpsight.inside.recording import statistics as statistics
    from warpsight.inside.recording import step as step
    from warpsight.inside.recording import stop as stop
    from warpsight.inside.timing import time as time
    from warpsight.machine.checks import run as doctor  # noqa: F401
    from warpsight.machine.discovery import detect_platform as detect_platform
    from warpsight.machine.discovery import devices as devices
    from warpsight.model import TraceWriter as TraceWriter
    from warpsight.sass import probes as probes
    from warpsight.sass.probes import probe as probe

#: Public name -> (module, name there; empty for the module itself).
_PUBLIC: dict[str, tuple[str, str]] = {
    "__version__": ("warpsight._version", "__version__"),
    **{
        name: ("warpsight.inside.recording", name)
        for name in ("Recording", "record", "start", "statistics", "step", "stop")
    },
    **{
        name: ("warpsight.inside.events", name) for name in ("annotate", "counter", "emit", "mark", "trigger")
    },
    **{name: ("warpsight.errors", name) for name in ("TraceError", "UsageError", "WarpsightError")},
    **{name: ("warpsight.api.trace", name) for name in ("Trace", "open")},
    **{name: ("warpsight.api.made", name) for name in ("import_files", "recover")},
    **{name: ("warpsight.machine.discovery", name) for name in ("detect_platform", "devices")},
    **{
        name: ("warpsight.api.programs", name)
        for name in ("attach", "bench", "detach", "dump", "sanitize", "watch")
    },
    "capture_frame": ("warpsight.inside.capsules", "capture_frame"),
    "cluster": ("warpsight.cluster", ""),
    "core": ("warpsight.api.core", "core"),
    "diff": ("warpsight.api.differences", "diff"),
    "doctor": ("warpsight.machine.checks", "run"),
    "memory": ("warpsight.inside.memory", ""),
    "probe": ("warpsight.sass.probes", "probe"),
    "probes": ("warpsight.sass.probes", ""),
    "race": ("warpsight.race", ""),
    "sass": ("warpsight.sass", ""),
    "TraceWriter": ("warpsight.model", "TraceWriter"),
    "run": ("warpsight.api.run", "run"),
    "time": ("warpsight.inside.timing", "time"),
    "top": ("warpsight.api.live", "top"),
}

#: Form of a value -> module that draws it.
_DRAWERS = {"text": "warpsight.ui.render.answers", "html": "warpsight.ui.jupyter.display"}

__all__ = [*_PUBLIC]


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext warpsight` calls in a notebook: adds `%%warpsight`."""
    from importlib import import_module

    import_module("warpsight.ui.jupyter").load_ipython_extension(shell)


def _drawn(value: object, form: str) -> str:
    """A value as `text` or `html`, for classes in layers below the modules that draw them (see `_display.py`)."""
    from importlib import import_module

    return str(import_module(_DRAWERS[form]).drawn(value))


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PUBLIC[name]
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value  # the next access costs nothing
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
