"""The events that write a trace of the window: those of `--trigger crash,hang=60s,slow-step=3,nccl`, and those always armed."""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.errors import UsageError

KINDS = ("crash", "hang", "slow-step", "nccl")
_DEFAULT_HANG_S = 60.0
_DEFAULT_FACTOR = 3.0
#: Traces written for automatic triggers at most; asked-for ones (signal, command, call) are always written.
MOST_AUTOMATIC = 20


@dataclass(frozen=True)
class Triggers:
    """The armed triggers: seconds without completion (0 off), a multiple of the median (0 off), and its ranges."""

    crash: bool = False
    hang_s: float = 0.0
    slow_factor: float = 0.0
    slow_pattern: str = ""
    nccl: bool = False


def parse(items: tuple[str, ...]) -> Triggers:
    """Parse `--trigger`; by default crash and nccl. `slow-step=3:forward*` names the ranges that are steps.

    Raises:
        UsageError: for an unknown trigger or an invalid number.
    """
    if not items:
        return Triggers(crash=True, nccl=True)
    values: dict[str, float | bool | str] = {}
    for item in items:
        name, _, value = item.partition("=")
        if name == "none" and not value:
            continue
        if name not in KINDS:
            raise UsageError(f"--trigger must be one of {', '.join(KINDS)} or none, not {item!r}")
        if name in ("crash", "nccl"):
            if value:
                raise UsageError(f"--trigger {name} takes no value, not {item!r}")
            values[name] = True
        elif name == "hang":
            values["hang_s"] = _number(value.removesuffix("s"), _DEFAULT_HANG_S, 1.0, item)
        else:
            factor, _, pattern = value.partition(":")
            values["slow_factor"] = _number(factor, _DEFAULT_FACTOR, 1.0, item)
            values["slow_pattern"] = pattern
    return Triggers(**values)  # type: ignore[arg-type]


def _number(text: str, default: float, least: float, item: str) -> float:
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"--trigger {item!r}: {text!r} is not a number") from None
    if not least <= value < 1e9:
        raise UsageError(f"--trigger {item!r}: the number must be at least {least:g}")
    return value
