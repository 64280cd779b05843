"""Finds the repetition in a sequence of kernel names: the period of a loop, and where each turn of it begins.

The period is the lag at which the sequence agrees best with itself, from its autocorrelation: each name becomes a random point on
the unit circle, so that the product of two equal names is 1 and of two different ones 0 on average, and one FFT gives the
agreement at all lags. Of the lags that agree best, the one with the longest uninterrupted runs of agreement is the period (a loop
of layers inside the loop agrees only up to its end), and of equally long runs the shortest lag (two turns are not one). The turns
themselves are found by a mark: a run of names that occurs once per period. Warm-up and turns with more or less work therefore
affect only themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
#: Maximum positions examined for the period: the FFT of twice as many takes 0.1 s.
WINDOW = 1 << 18
#: Minimum iterations of a loop, and minimum agreement of the sequence with itself.
LEAST_TURNS, LEAST_AGREEMENT = 3, 0.6
#: Required agreement, as a share of the way from chance to 1: if one name makes up most of the sequence, it agrees with itself at
#: any lag. If one name is nearly everything, that is the loop.
_BEYOND_CHANCE, _ALL_ONE = 0.35, 0.9
_TRIED = 8
#: Minimum length of the runs of agreement at a lag, as a share of it.
_RUN = 0.25
#: Number of positions that may be missing from the iterations of the shortest loop: a wait, an event.
_MISSING = 2
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Repetition:
    """Turns begin at these places of the sequence; `agreement` is the share of places that equal the place one period later."""

    begins: Column
    period: int
    agreement: float


def find(names: Column, gap: Column) -> Repetition | None:
    """The repetition of a sequence.

    Args:
        names: Integers that stand for the names, in order of issue.
        gap: Idle time before each place; of several possible beginnings of a turn, the one after the longest pause is chosen.

    Returns:
        The repetition, or None where the sequence does not repeat.
    """
    if len(names) < 2 * LEAST_TURNS:
        return None
    _, tokens = np.unique(names, return_inverse=True)
    found = periods(tokens)
    for length, agreement in found:
        begins = _marked(tokens, gap, length)
        if begins is not None:
            return Repetition(begins, length, agreement)
    for length, agreement in found[:1]:
        begins = _equal_steps(tokens, gap, length)
        return None if begins is None else Repetition(begins, length, agreement)
    return None


def period(tokens: Column) -> tuple[int, float] | None:
    """The most likely of :func:`periods`."""
    return next(iter(periods(tokens)), None)


def periods(tokens: Column) -> list[tuple[int, float]]:
    """Possible periods of a sequence of small integers and their agreement, the most likely first, then shorter ones.

    A few odd turns that happen to be equally far apart make a longer period likely, but they mark too few turns of it:

        a b a b a b a b X a b a b a b a b X a b a b a b a b

    For a long sequence, only the middle is examined.
    """
    begin = max((len(tokens) - WINDOW) // 2, 0)
    tokens = tokens[begin : begin + WINDOW]
    count = len(tokens)
    if count < LEAST_TURNS:
        return []
    longest = count // LEAST_TURNS + min(count // 30, _MISSING)  # the first turn or the last may lack some
    estimate = _autocorrelation(tokens, longest)
    judged = [(lag, *_agreement(tokens, lag)) for lag in _candidates(estimate)]
    chance = float(((np.bincount(tokens) / count) ** 2).sum())
    least = max(LEAST_AGREEMENT, chance + _BEYOND_CHANCE * (1 - chance))
    judged = [one for one in judged if one[1] >= (min(least, _ALL_ONE) if one[0] == 1 else least)]
    if not judged:
        return []
    # At a lag that agrees by chance, as where a loop inside the loop is long, runs are much shorter than the lag.
    judged = [one for one in judged if one[2] >= _RUN * one[0] or one[0] == judged[0][0]]
    longest_run = max(run for _, _, run in judged)
    chosen = next(number for number, (_, _, run) in enumerate(judged) if run >= 0.8 * longest_run)
    # A shorter one explains the sequence only if it agrees as well.
    shorter = sorted((one for one in judged[:chosen] if one[1] >= judged[chosen][1]), key=lambda one: -one[2])
    return [(lag, share) for lag, share, _ in [judged[chosen], *shorter[:_TRIED]]]


def halved(found: Repetition, alike: Column) -> Repetition:
    """Twice as many turns if a turn's two halves do the same in reverse order, as in alternating sweeps.

    `alike` are integers for the places of the sequence, equal where the work is the same except for its direction:

        names    read  along_x  along_y  write    read  along_y  along_x  write      one period
        alike      1      2        2       3        1      2        2       3        two turns

    The halves of a turn made of layers differ: its start and its end are in one of them.
    """
    half = found.period // 2
    if found.period % 2 or half < 2:
        return found
    whole = found.begins[found.begins + found.period <= len(alike)]
    whole = whole[np.append(np.diff(whole) == found.period, True)] if len(whole) else whole
    same = [
        np.array_equal(np.sort(alike[at : at + half]), np.sort(alike[at + half : at + 2 * half]))
        for at in whole[:_TRIED].tolist()
    ]
    if not same or sum(same) * 2 <= len(same):
        return found
    begins = np.unique(np.concatenate([found.begins, whole + half]))
    return Repetition(begins, half, found.agreement)


def _candidates(estimate: Column) -> list[int]:
    """Lags worth evaluating, ascending: the best of each octave, so that multiples of a short one do not hide a long one."""
    chosen: set[int] = set()
    low = 1
    while low <= len(estimate):
        octave = estimate[low - 1 : 2 * low - 1]
        chosen.update((np.argsort(-octave, kind="stable")[:_TRIED] + low).tolist())
        low *= 2
    return sorted(chosen)


def _autocorrelation(tokens: Column, longest: int) -> Column:
    """Estimated agreement at lags 1..longest."""
    count = len(tokens)
    size = 1 << (2 * count - 1).bit_length()
    total = np.zeros(longest)
    for seed in range(2):
        points = np.exp(2j * np.pi * _scattered(int(tokens.max()) + 1, seed)).astype(np.complex64)[tokens]
        spectrum = np.fft.fft(points, size)
        lagged = np.fft.ifft(spectrum * spectrum.conj())[1 : longest + 1]
        total += lagged.real
    estimate: Column = total / 2 / (count - np.arange(1, longest + 1))
    return estimate


def _scattered(count: int, seed: int) -> Column:
    """Numbers from 0 to 1 without order: SplitMix64 (Steele, Lea and Flood, 2014). `numpy.random` takes longer to import."""
    bits = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    out: Column = (bits ^ (bits >> np.uint64(31))) / 2.0**64
    return out


def _agreement(tokens: Column, lag: int) -> tuple[float, float]:
    """Share of positions that equal the one `lag` later, and the mean length of the runs of such positions."""
    equal = tokens[lag:] == tokens[:-lag]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
    runs = (edges[1::2] - edges[0::2]).astype(float)
    return float(equal.mean()), float((runs * runs).sum() / len(equal))


def _marked(tokens: Column, gap: Column, length: int) -> Column | None:
    """Where turns begin: occurrences of a run of names that comes once per period, the one after the longest pause.

    None if no run does.
    """
    run = 1
    while True:
        hashes = _runs(tokens, run)
        places = _once_per_period(hashes, length)
        if places is not None:
            break
        if run > 2 * length or run > 4096:
            return None
        run *= 2

    def pause(marked: Column) -> float:
        return float(np.median(gap[marked[marked > 0]])) if (marked > 0).any() else 0.0

    return max(places[:512], key=pause)


def _runs(tokens: Column, run: int) -> Column:
    """A number for each position that identifies the `run` names starting there."""
    number: Column = tokens.astype(np.uint64) * _PRIME + np.uint64(1)
    done = 1
    while done < run:
        rest = np.zeros(len(number), np.uint64)
        rest[: len(number) - done] = number[done:]
        number = number * np.uint64(0xD1B54A32D192ED03) + rest
        number ^= number >> np.uint64(29)
        done *= 2
    return number


def _once_per_period(hashes: Column, length: int) -> list[Column] | None:
    """Positions of each run that occurs about once per period and mostly exactly a period apart; longest lists first."""
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(counts)
    likely = np.flatnonzero(counts >= LEAST_TURNS)
    kept: list[tuple[int, Column]] = []
    # Names used far more often than once per iteration are not marks; few names are used exactly as often as there are
    # iterations.
    most = len(hashes) / length * 1.25 + 1
    for one in likely[counts[likely] <= most][:4096].tolist():
        places = order[ends[one] - counts[one] : ends[one]]
        steps = np.diff(places)
        exact = int((steps == length).sum())
        if exact * 2 >= len(steps) and int(steps.min()) * 2 > length:
            kept.append((exact, places))
    if not kept:
        return None
    most_exact = max(exact for exact, _ in kept)
    return [places for exact, places in kept if exact >= 0.9 * most_exact]


def _equal_steps(tokens: Column, gap: Column, length: int) -> Column | None:
    """Iterations of equal length if nothing marks them, starting after the longest pauses."""
    good = np.flatnonzero(tokens[length:] == tokens[:-length])
    if not len(good):
        return None
    first, last = int(good[0]), int(good[-1]) + length
    sums = np.zeros(length)
    np.add.at(sums, np.arange(first, last) % length, gap[first:last].astype(float))
    phase = int(np.argmax(sums))
    begins: Column = np.arange(first + (phase - first) % length, last, length)
    return begins
