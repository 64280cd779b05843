"""Speed and memory of reading Kineto JSON, beside HTA's loader on the same file.

    python benchmarks/import_kineto.py TRACE.json[.gz] [--times 24] [--hta PYTHON] [--repeat 3]

Makes one file of TRACE's events, repeated with later times and new ids, reads it in a fresh process on one core, and prints
MB of JSON per second of processor time (of the whole process, imports included) and peak memory; then the same for
HolisticTraceAnalysis in the interpreter `--hta`, what decoding into dictionaries takes, and what finding the fields takes.
Where pandas is installed pyarrow imports it, though nothing here needs it; a second line is without.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_SHIFTED = re.compile(rb'("(?:ts|Python id|Python parent id|correlation|External id|id)": ?)(\d+)')
_OURS = """
import sys, time, resource, os, tempfile
from warpsight.formats.importing import import_files
with tempfile.TemporaryDirectory() as folder:
    import_files([sys.argv[1]], folder + "/t.warp")
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_ALONE = (
    """
import sys
class Absent:
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
"""
    + _OURS
)
_HTA = """
import sys, time, resource, logging
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_SPANS = """
import sys, time, resource, gc
from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.kineto.layouts import Layouts
from warpsight.formats.kineto.reader import PIECE_BYTES
from warpsight.formats.source import Source
gc.disable()
for pieces in EventStream(Source(sys.argv[1]), begin=Layouts(lambda phase, category: False), piece_bytes=PIECE_BYTES):
    pass
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_DECODED = """
import sys, time, resource, gc
import msgspec
from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.source import Source
gc.disable()
for events in EventStream(Source(sys.argv[1]), msgspec.json.Decoder(list[dict]).decode):
    pass
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def repeated(source: Path, target: Path, times: int) -> int:
    """Write a file whose events are those of `source`, several times; returns how many there are."""
    data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    first = data.index(b"[", data.index(b'"traceEvents"')) + 1
    events, length = json.JSONDecoder().raw_decode(data[first - 1 :].decode())
    end = first - 2 + length
    parts = _SHIFTED.split(data[first:end].rstrip())
    with target.open("wb") as file:
        file.write(data[:first])
        for k in range(times):
            file.write(b"," if k else b"")
            for key, value, text in zip(parts[1::3], parts[2::3], parts[0::3], strict=False):
                step = 60_000_000 if b'"ts' in key else 5_000 if b"Python" in key else 1_000_000
                file.write(text + key + str(int(value) + k * step).encode())
            file.write(parts[-1])
        file.write(data[end:])
    return len(events) * times


def measured(python: str, code: str, path: Path, repeat: int) -> tuple[float, int]:
    """Least processor time and peak memory (MB) of a fresh process on one core."""
    runs = []
    for _ in range(repeat):
        done = subprocess.run(
            [python, "-W", "ignore", "-c", code, str(path)], capture_output=True, text=True, check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}),
        )  # fmt: skip
        seconds, memory = done.stdout.split()[-2:]
        runs.append((float(seconds), int(memory)))
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--times", type=int, default=24)
    parser.add_argument("--hta", metavar="PYTHON", help="interpreter with HolisticTraceAnalysis")
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.json"
        events = repeated(chosen.trace, path, chosen.times)
        size = path.stat().st_size
        print(f"{size / 1e6:.0f} MB, {events:,} events")
        runs = [
            ("dictionaries", sys.executable, _DECODED),
            ("spans only", sys.executable, _SPANS),
            ("warpsight", sys.executable, _OURS),
        ]
        if importlib.util.find_spec("pandas"):
            runs.append(("no pandas", sys.executable, _ALONE))
        if chosen.hta:
            runs.append(("HTA", chosen.hta, _HTA))
        for name, python, code in runs:
            seconds, memory = measured(python, code, path, chosen.repeat)
            print(f"{name:12} {seconds:7.2f} s   {size / seconds / 1e6:6.0f} MB/s   peak {memory} MB")


if __name__ == "__main__":
    main()
