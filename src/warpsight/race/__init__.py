"""Timing bugs: provoke them with delays, confirm that the delays are the cause, and shrink them to the fewest points.

Programs and scripts use `ws.race.trial`, `ws.race.output`, and so on, which load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.race.experiment import Experiment as Experiment
    from warpsight.race.inside import output as output
    from warpsight.race.inside import trial as trial
    from warpsight.race.inside import use_switch as use_switch
    from warpsight.race.oracle import Oracle as Oracle
    from warpsight.race.plan import Plan as Plan
    from warpsight.race.plan import Point as Point
    from warpsight.race.plan import Where as Where
    from warpsight.race.plan import read as read_plan  # noqa: F401
    from warpsight.race.plan import write as write_plan  # noqa: F401
    from warpsight.race.search.reduction import reduce as reduce
    from warpsight.race.stressing import Limits as Limits
    from warpsight.race.stressing import stress as stress

#: Public name -> (module below this one, name there). No module has the name of a function.
_PUBLIC = {
    "Experiment": ("experiment", "Experiment"),
    "Limits": ("stressing", "Limits"),
    "Oracle": ("oracle", "Oracle"),
    "Plan": ("plan", "Plan"),
    "Point": ("plan", "Point"),
    "Where": ("plan", "Where"),
    "output": ("inside", "output"),
    "read_plan": ("plan", "read"),
    "reduce": ("search.reduction", "reduce"),
    "stress": ("stressing", "stress"),
    "trial": ("inside", "trial"),
    "use_switch": ("inside", "use_switch"),
    "write_plan": ("plan", "write"),
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    globals()[name] = value = getattr(import_module(f"{__name__}.{module}"), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
