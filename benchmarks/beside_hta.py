"""Analyses beside HolisticTraceAnalysis on the same Kineto file: processor time of the question alone, the file already read.

    python benchmarks/beside_hta.py TRACE.json[.gz] --hta PYTHON [--times 24] [--repeat 3]

Makes one file of TRACE's events, repeated with later times and new ids (as import_kineto.py does). Each question runs in a fresh
process on one core: ours on the imported trace, opened for the first time; HTA's after its own loader has parsed the file. The
least of several runs is printed, and what loading took before: `import_files` for us, `TraceAnalysis` for HTA.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.import_kineto import repeated

#: Question: our analysis, and the call of hta.trace_analysis.TraceAnalysis.
QUESTIONS = {
    "temporal breakdown": ("breakdown", "get_temporal_breakdown(visualize=False)"),
    "idle time breakdown": ("gaps", "get_idle_time_breakdown(ranks=[0], visualize=False)"),
    "communication hidden": ("overlap", "get_comm_comp_overlap(visualize=False)"),
    "kernel breakdown": ("kernel-times", "get_gpu_kernel_breakdown(visualize=False)"),
    "launch delays": ("launch-latency", "get_cuda_kernel_launch_stats(ranks=[0], visualize=False)"),
    "queue length": ("queue-depth", "get_queue_length_summary(ranks=[0])"),
    "critical path": (
        "critical-path",
        "critical_path_analysis(rank=0, annotation='ProfilerStep', instance_id=None)",
    ),
}
_OURS = """
import sys, time, resource
from warpsight.analysis.base.registry import analysis
from warpsight.model.selection import Rows
from warpsight.model import open as open_trace
chosen = analysis(sys.argv[2])
with open_trace(sys.argv[1]) as trace:
    loaded = time.process_time()
    chosen.run(trace, Rows())
    print(loaded, time.process_time() - loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_HTA = """
import sys, time, resource, logging, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
began = time.process_time()
analyzer = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
loaded = time.process_time()
if eval("analyzer." + sys.argv[2]) is None:
    sys.exit("HTA gives no answer on this file")
print(loaded - began, time.process_time() - loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def measured(
    python: str, code: str, path: Path, question: str, repeat: int
) -> tuple[float, float, int] | str:
    """Least seconds of the question, with seconds of loading and peak MB of that run; or how it failed."""
    runs = []
    for _ in range(repeat):
        done = subprocess.run(
            [python, "-W", "ignore", "-c", code, str(path), question], capture_output=True, text=True, check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}),
        )  # fmt: skip
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            return lines[-1][:90] if lines else f"exit code {done.returncode}"
        loaded, seconds, memory = done.stdout.split()[-3:]
        runs.append((float(seconds), float(loaded), int(memory)))
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument(
        "--hta", metavar="PYTHON", required=True, help="interpreter with HolisticTraceAnalysis"
    )
    parser.add_argument("--times", type=int, default=24)
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    from warpsight.formats.importing import import_files

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.json"
        events = repeated(chosen.trace, path, chosen.times)
        print(f"{path.stat().st_size / 1e6:.0f} MB, {events:,} events", flush=True)
        import_files([path], Path(folder) / "t.warp")
        for question, (ours, theirs) in QUESTIONS.items():
            for name, python, code, file, call in (
                (f"warpsight {ours}", sys.executable, _OURS, Path(folder) / "t.warp", ours),
                ("HTA", chosen.hta, _HTA, path, theirs),
            ):
                found = measured(python, code, file, call, chosen.repeat)
                told = (
                    found
                    if isinstance(found, str)
                    else f"{found[0]:7.3f} s  (loading {found[1]:6.2f} s, peak {found[2]} MB)"
                )
                print(f"{question:22} {name:26} {told}", flush=True)


if __name__ == "__main__":
    main()
