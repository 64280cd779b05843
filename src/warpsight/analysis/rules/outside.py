"""The program's time before its first device work and after its last, which no other rule judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warpsight.analysis.base import words
from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts

#: Reported if at least this share of the program's time is outside.
LEAST_SHARE = 0.5
_ADVICE = (
    "This happens once per run, so it only matters for short runs or frequent starts: import less, cache compiled "
    "kernels and prepared data, load weights while the device starts."
)


def check(facts: Facts) -> Iterator[Finding]:
    """A finding for programs that did something else for most of their time."""
    if facts.rows.begin is not None or facts.rows.end is not None or not len(facts.work):
        return
    lived = life(facts)
    if lived is None:
        return
    begin, end = lived
    before, after = max(facts.work.begin - begin, 0), max(end - facts.work.finish, 0)
    if before + after < max(LEAST_SHARE * (end - begin), 1):
        return
    stretches = (
        (before, "before the first device work", begin, facts.work.begin),
        (after, "after the last", facts.work.finish, end),
    )
    long_stretches = [one for one in stretches if one[0] * 10 >= before + after]
    if long_stretches == [stretches[1]]:
        long_stretches = [(after, "after the last device work", facts.work.finish, end)]
    said = " and ".join(f"{words.duration(time)} {where}" for time, where, _, _ in long_stretches)
    text = f"the program ran for {said}, of {words.duration(end - begin)} in all"
    evidence = tuple(
        f"{where}: {line}"
        for _, where, first, last in long_stretches
        for line in _sampled(facts, first, last)
    )
    _, _, first, last = max(long_stretches)
    yield Finding("note", text, {"before": before, "after": after}, "outside/device-unused", None, evidence, _ADVICE,
                  at=(first, last))  # fmt: skip


def life(facts: Facts) -> tuple[int, int] | None:
    """From the first start to the last end of the processes that used the device, ns; None if unknown."""
    used = {queue.process for queue in facts.work.queues}
    lives = [
        (start, end)
        for process, start, end in facts.trace.rows("process", "process", "start", "end")
        if process in used
    ]
    if not lives or any(start is None or end is None for start, end in lives):
        return None
    return min(start for start, _ in lives), max(end for _, end in lives)


def _sampled(facts: Facts, begin: int, end: int) -> tuple[str, ...]:
    """The most frequently sampled lines of the launching threads, in a stretch of time."""
    if not facts.trace.count("sample"):
        return ()
    threads = facts.trace.sql("SELECT DISTINCT process, thread FROM launch_ids").fetchall()
    if not threads:
        return ()
    listed = ", ".join(f"({process}, {thread})" for process, thread in threads)
    rows = facts.trace.sql(
        f"""SELECT coalesce(stack, 0), count(*) FROM sample WHERE time >= {begin} AND time < {end}
            AND (process, thread) IN ({listed}) GROUP BY 1 ORDER BY min(time), 1"""
    ).fetchall()
    frames = facts.trace.stacks([int(stack) for stack, _ in rows if stack])
    counts: Counter[str] = Counter()
    for stack, count in rows:
        counts[user_frames(frames.get(stack, ()), 1)] += count
    total = counts.total()
    return tuple(
        f"{count / total:.0%} of {total} samples in {where}"
        for where, count in counts.most_common(2)
        if where and count * 10 >= total
    )
