"""Traces of loops, written row by row for tests of iterations."""

from warpsight.analysis.steps.iterations import find
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def copies_around(writer, count, before, kernel, pause):
    """Small copies, the first `before` of them before one kernel of some length (ns), at a pause from each other."""
    name, time = writer.name("the_program"), 1_000
    for place in range(count):
        if place == before:
            writer.add("launch", [{"start": time, "duration": 500, "function": "cudaLaunchKernel", "thread": 7, "process": 0,
                                   "correlation": 1_000, "captured": False}])  # fmt: skip
            writer.add("kernel", [{"start": time + 1_000, "duration": kernel, "name_id": name, "device": 0, "context": 1,
                                   "stream": 7, "process": 0, "correlation": 1_000, "graph_level": False}])  # fmt: skip
            time += kernel + 2_000
        both = {"process": 0, "correlation": place + 1}
        writer.add("api", [{**both, "start": time, "duration": 5_000, "function": "cudaMemcpy", "thread": 7}])
        writer.add("memcpy", [{**both, "start": time + 1_000, "duration": 2_000, "kind": "HtoD", "source_kind": "pageable",
                               "destination_kind": "device", "bytes": 64, "asynchronous": False, "device": 0, "context": 1,
                               "stream": 7}])  # fmt: skip
        time += 5_000 + pause


def found_in(path, **plan):
    with TraceWriter(path) as writer:
        copies_around(writer, **plan)
    with open_trace(path) as trace:
        return find(trace)


def launches(writer, host, device, kernels, first, kind=None):
    """Kernels of some names, each launched 20 µs after the one before and 100 µs long."""
    for place, name in enumerate(kernels):
        both = {"process": 0, "correlation": first + place, "name_id": writer.name(name)}
        writer.add("launch", [{**both, "start": host + place * 20_000, "duration": 4_000, "function": "f", "thread": 7,
                               "captured": False}])  # fmt: skip
        writer.add("kernel", [{**both, "start": device + place * 100_000, "duration": 100_000, "context": 1, "stream": 7,
                               "device": 0, "graph_level": False}])  # fmt: skip


def mark(writer, name, start, duration):
    writer.add("marker", [{"start": start, "duration": duration, "kind": "push/pop", "open": False, "source": "nvtx",
                           "name_id": writer.name(name), "thread": 7, "process": 0}])  # fmt: skip


def announced(path, build):
    with TraceWriter(path) as writer:
        build(writer)
    with open_trace(path) as trace:
        return [(one.source, len(one)) for one in find(trace)]


def waited(writer, start, duration):
    writer.add(
        "sync",
        [{"start": start, "duration": duration, "kind": "stream", "context": 1, "stream": 7, "process": 0}],
    )
