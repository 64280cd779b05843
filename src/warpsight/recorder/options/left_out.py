"""What options left out of a recording on purpose, in words, so that the trace explains its gaps."""

from __future__ import annotations

from warpsight.recorder.options.settings import Settings


def left_out(settings: Settings, began: int, ended: int, full: int | None) -> list[str]:
    """A sentence for each option that left something out.

    Args:
        settings: what the recording was made with
        began: when it began to count `--delay` and `--for`, ns of CLOCK_MONOTONIC
        ended: when the program had ended
        full: when `--max-size` was reached, None when it was not
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
