"""Describes what options left out of a recording or could not record, so that the trace explains its gaps."""

from __future__ import annotations

from warpsight.recorder.options import table
from warpsight.recorder.options.settings import Settings

#: Kinds of `--trace` that only CUPTI has.
_CUDA_KINDS = ("overhead", "unified_memory", "environment", "jit", "device_graph", "external")


def left_out(settings: Settings, began: int, ended: int, full: int | None) -> list[str]:
    """A sentence for each option that left something out.

    Args:
        settings: the settings of the recording.
        began: when `--delay` and `--for` began to count, ns of CLOCK_MONOTONIC.
        ended: when the program had ended.
        full: when `--max-size` was reached, or None.
    """
    length = (ended - began) / 1e9
    delay, duration = settings.delay, settings.duration
    out = []
    if length < delay:
        return [
            f"--delay {delay:g}: the program had ended after {length:.2f} s, so nothing it did was recorded"
        ]
    if delay:
        out.append(f"--delay {delay:g}: nothing of the first {delay:g} s of {length:.2f} s was recorded")
    if duration and (rest := length - delay - duration) > 0:
        out.append(f"--for {duration:g}: nothing of the program's last {rest:.2f} s was recorded")
    if full is not None:
        at = (full - began) / 1e9
        out.append(f"--max-size {settings.max_size}: the trace was that large after {at:.2f} s, and nothing of the program's "
                   f"last {length - at:.2f} s was recorded")  # fmt: skip
    return out


def of_cuda_alone(settings: Settings) -> str:
    """The requested features that only CUDA's recorder has, for a program that turns out to use only OpenCL; "" if none."""
    asked = [
        option.flag
        for option in table.of_scope(table.RECORDING)
        if option.backends == ("cuda",) and option.group != table.COST and not option.needs
        and getattr(settings, option.name) not in (option.default, "off")
    ]  # fmt: skip
    asked += [f"--trace {kind}" for kind in _CUDA_KINDS if kind in settings.trace]
    return f"only CUDA has {', '.join(asked)}: the program used only OpenCL" if asked else ""
