"""A program and its truth as readable text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby

from tests.truth import program as p
from tests.truth.truth import Cause, Truth

#: Steps of a body that are shown; of longer ones the middle is left out.
SHOWN = 24


def program_lines(program: p.Program) -> Iterator[str]:
    """What happens, thread by thread; what repeats is shown once."""
    yield f"seed {program.seed}: {program.family}; {', '.join(program.features)}"
    yield f"machine:  {_fields(program.machine)}"
    yield f"recorder: {_fields(program.recorder)}"
    for thread in program.threads:
        yield ""
        yield f"process {thread.process}, thread {thread.number} ({thread.name}):"
        yield from _steps(thread.steps, 1)


def truth_lines(truth: Truth) -> Iterator[str]:
    """The account as a table, what comes first, iterations, and what would be false."""
    yield f"span of {len(truth.spans)} devices: {truth.span_ns:,} ns"
    yield ""
    yield f"{'class':14} {'ns':>15} {'share':>7}  name"
    for row in truth.rows:
        yield f"{row.cls:14} {row.ns:15,} {row.ns / truth.span_ns:7.2%}  {row.name}"
    yield ""
    yield from (f"{cls:14} {_share(cause, truth)}" for cls, cause in truth.classes.items() if cause.high_ns)
    yield ""
    for cause in truth.firsts:
        names = "anything" if cause.names is None else " or ".join(sorted(cause.names))
        never = f" but {', '.join(sorted(cause.never))}" if cause.names is None and cause.never else ""
        yield f"first: {cause.cls} {_share(cause, truth)}: {names}{never}"
    yield f"iterations: {_fields(truth.iterations) if truth.iterations else 'none'}"
    yield from (f"false: /{pattern}/, because {why}" for pattern, why in truth.false)


def _share(cause: Cause, truth: Truth) -> str:
    low, own, high = (ns / truth.span_ns for ns in (cause.low_ns, cause.ns, cause.high_ns))
    exact = f"{own:.2%}"
    return exact if cause.low_ns == cause.high_ns else f"{exact} ({low:.2%} to {high:.2%})"


def _steps(steps: Sequence[p.Step], depth: int) -> Iterator[str]:
    groups = [(kind, list(same)) for kind, same in groupby(steps, key=_kind)]
    shown: Iterable[tuple[str, list[p.Step]]] = groups
    if len(groups) > SHOWN:
        shown = [*groups[: SHOWN // 2], ("", []), *groups[-SHOWN // 2 :]]
    indent = "  " * depth
    for _, same in shown:
        if not same:
            yield f"{indent}… {len(groups) - SHOWN} more"
            continue
        first = same[0]
        times = f"{len(same)} × " if len(same) > 1 else ""
        if isinstance(first, p.Within):
            place = "" if first.scope.kind not in ("frame", "library", "root") else f" ({first.scope.file})"
            yield f"{indent}{times}{first.scope.kind} {first.scope.name}{place}:"
            yield from _steps(first.body, depth + 1)
        else:
            yield f"{indent}{times}{type(first).__name__} {_fields(first)}".rstrip()


def _kind(step: p.Step) -> str:
    """Steps of the same kind that follow each other are shown as one."""
    if isinstance(step, p.Within):
        return f"{step.scope.kind} {step.scope.name.rstrip('0123456789')}"
    if isinstance(step, p.Launch):
        return f"launch {[getattr(work, 'name', '') for work in step.works]}"
    return type(step).__name__ + str(getattr(step, "function", ""))


def _fields(thing: object) -> str:
    """The fields of a dataclass that are not what they are by default."""
    shown = []
    for field in fields(thing):  # type: ignore[arg-type]
        value = getattr(thing, field.name)
        if value == field.default:
            continue
        if isinstance(value, p.Stream):
            value = f"{value.number} of device {value.device}"
        elif isinstance(value, tuple):
            value = f"({', '.join(map(_value, value[:3]))}{', …' if len(value) > 3 else ''})"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        shown.append(f"{field.name}={value}")
    return " ".join(shown)


def _value(value: object) -> str:
    if isinstance(value, (p.Kernel, p.Copy, p.Fill)):
        return f"{type(value).__name__} {_fields(value)}"
    return str(value)
