"""Examples for each verb's help: complete command lines, on a trace named train.warp."""

from __future__ import annotations

#: The words before a colon name a verb or subcommand; command lines follow, each with its effect.
_LISTED = r"""
record:
  warpsight record -- python train.py --epochs 1  # write train.warp
  warpsight record --delay 30 --for 5 -o step.warp -- torchrun train.py  # five seconds, after the warm-up
open:
  warpsight open  # the newest trace in this folder
  warpsight open train.warp --perfetto  # the timeline in the Perfetto UI
analyze:
  warpsight analyze train.warp  # what to fix first
  warpsight analyze train.warp critical-path --from 1s --until 2s  # one analysis, of one second
report:
  warpsight report train.warp  # write train.report.html, redacted for sharing
  warpsight report train.warp --include-paths -o full.html  # keep file paths
flame:
  warpsight flame train.warp  # write train.flame.html: GPU time by host stack
  warpsight flame train.warp --weight idle --to svg  # idle GPU time instead
diff:
  warpsight diff old-*.warp -- new-*.warp  # five runs of each version show what is beyond noise
  warpsight diff main/ -- branch/ --fail-if-slower 3  # fail a CI job
query:
  warpsight query train.warp "SELECT name, count(*) FROM kernel GROUP BY ALL"  # SQL
  warpsight query train.warp --filter 'duration>1ms' --fields name,duration  # no SQL
export:
  warpsight export train.warp --to perfetto  # for ui.perfetto.dev
  warpsight export train.warp --to kineto -o train.pt.trace.json  # for tools of PyTorch's profiler
top:
  warpsight top  # the recording that runs now
  warpsight top 4242 --once --json  # one snapshot, for a script
watch:
  warpsight watch -- python train.py  # report where it hangs or crashes
  warpsight watch --hang-after 60 --on-hang dump -- python train.py  # dump the GPU after a minute
demo:
  warpsight demo  # record a small program on the best device here
  warpsight demo --device opencl -o cpu.warp  # on OpenCL, where there is no GPU
dump:
  warpsight dump 4242  # host stacks and outstanding GPU work of a process
  warpsight dump 4242 --gpu -o hang/  # and where every warp is; ends its kernels
trigger:
  warpsight trigger 4242  # write what the flight recorder holds
  warpsight trigger train.warp --reason 'slow batch'  # by folder
attach:
  warpsight attach 4242 --for 10  # record ten seconds of a running process
  warpsight attach 4242 --ring 30s  # keep the last 30 seconds until a trigger
detach:
  warpsight detach 4242  # stop recording it; it goes on
  warpsight detach $(pgrep -f train.py)  # by name
recover:
  warpsight recover train.warp  # after the launcher was killed
  warpsight recover train.warp && warpsight open train.warp  # and look at it
pack:
  warpsight pack train.warp  # one file, train.warp.zip
  warpsight pack --unpack train.warp.zip  # a folder again
info:
  warpsight info train.warp  # what it holds and what is missing
  warpsight info train.warp --strict  # exit with 3 when anything was lost
stats:
  warpsight stats train.warp  # kernels, the most time first
  warpsight stats train.warp ops --top 10  # operators with FLOPs and their share of the peak
simulate:
  warpsight simulate train.warp  # what would speed it up most
  warpsight simulate train.warp -w 'kernel:gemm/2' -w graphs  # GEMMs twice as fast, launches in graphs
view:
  warpsight view train.warp  # the timeline in the terminal
  warpsight view train.warp --list --kind kernel -n 20  # single events
merge:
  warpsight merge -c perf.txt -g train.warp -o merged.folded  # perf's stacks on GPU time
  warpsight merge -c stacks.txt -g nsys.sqlite -o merged.warp  # as a new trace
import:
  warpsight import trace.json.gz  # write trace.warp; later questions are quick
  warpsight import rank*.json -o job.warp  # one trace of several ranks
core:
  warpsight core core.cuda.1234  # the fault or hang, and the code behind it
  warpsight core core.cuda.1234 --block 3 --thread 17  # one thread's frames and registers
capsule record:
  warpsight capsule record -k 'softmax*' --launch 3 -- python train.py  # cut the fourth launch out: train.capsule
  warpsight capsule record --step 10 -o step.capsule -- python train.py  # a whole iteration, by calls of ws.step()
capsule show:
  warpsight capsule show train.capsule  # its operations, and who wrote each allocation last
  warpsight capsule show train.capsule a2 --when after  # what one allocation held after the kernel
sanitize:
  warpsight sanitize -- ./app  # out-of-bounds and misaligned accesses
  warpsight sanitize --tool racecheck -- python kernel.py  # races in shared memory
mcp:
  warpsight mcp traces/  # serve the traces of a folder
  warpsight mcp --install-skill ~/.claude/skills  # teach an agent the verbs
devices:
  warpsight devices  # the GPUs here
  warpsight devices --json  # for a script
doctor:
  warpsight doctor  # what works here and how to fix the rest
  warpsight doctor --selftest  # try every capability
bench:
  warpsight bench  # what recording costs on this machine
  warpsight bench --links  # how fast copies are
help:
  warpsight help record  # a verb
  warpsight help --all  # every verb
version:
  warpsight version  # this package and its libraries
  warpsight --version  # the same
cluster analyze:
  warpsight cluster analyze job.warp  # which rank holds the others up, since when and why
  warpsight cluster analyze rank0.json rank1.json --json  # traces of torch.profiler, for a script
cluster merge:
  warpsight cluster merge job.warp -o merged.warp  # all ranks in one trace, on one clock
  warpsight cluster merge rank*.warp -o merged.warp && warpsight export merged.warp  # for the Perfetto UI
race points:
  warpsight race points --directed -o app.plan.json -- ./app  # accesses that conflict without an order come first
  warpsight race points --kind tma,mbarrier --source gemm.py:40-60 --warps 0..4 -- python infer.py  # a selection
race check:
  warpsight race check -- ./test  # races, their repairs, and whether they make it fail
  warpsight race check -k 'gemm*' --for 0 --json -- python infer.py  # the detectors alone
race replay:
  warpsight race replay app.plan.json  # the program of the plan, with its delays
  warpsight race replay --allow-changed app.plan.json -- ./app  # the repaired program
replay:
  warpsight replay step.capsule -n 20  # run it 20 times and compare every byte
  warpsight replay gemm.capsule --swap gemm=gemm.cu  # is the new version faster, and still right?
capsule export:
  warpsight capsule export gemm.capsule  # write gemm.cuda/, to build with nvcc
  warpsight capsule export gemm.capsule --to python  # write gemm.python/, which needs the driver alone
race stress:
  warpsight race stress --same-output -- python infer.py  # do delays change what it prints?
  warpsight race stress plan.json --in-process 200 --for 60 -- python test.py  # trials of @ws.race.trial, a minute
race reduce:
  warpsight race reduce infer.stress/failing.json --same-output -- python infer.py  # which instructions?
  warpsight race reduce plan.json --deterministic --json -- ./test  # a test that always ends the same
sass hotspots:
  warpsight sass hotspots -- python train.py  # record, then show the hot lines of each kernel
  warpsight sass hotspots train.warp --by instruction  # of a recording with --pc-sampling on
sass why:
  warpsight sass why train.warp  # why the kernel with most samples is slow, and what to change
  warpsight sass why train.warp attention_fwd --json  # one kernel, for a script
sass list:
  warpsight sass list train.warp attention_fwd -o attention.html  # source, SASS and PTX side by side
  warpsight sass list kernel.cubin -o flow.svg  # the control-flow graph; needs no recording
sass trace:
  warpsight sass trace --kernel 'softmax*' --events memory,barriers -- python train.py  # every access of one kernel
  warpsight sass trace --events memory --blocks 0 -o block.events -- ./app  # of one block
sass probe:
  warpsight sass probe coalescing --kernel 'gemm*' -- python train.py  # requests by their sectors
  warpsight sass probe nan-inf --set TYPE=bfloat16 -- ./app  # which threads store NaN, and where
sass mma:
  warpsight sass mma gemm.cubin  # shapes, gaps and waits of matrix instructions
sass memory:
  warpsight sass memory train.events  # sectors and bank passes of each instruction
  warpsight sass memory train.events -o memory.html  # with addresses over time
sass values:
  warpsight sass values train.events  # what instructions load and store
sass dataflow:
  warpsight sass dataflow train.events -o dataflow.html  # who reads what from whom, with a picture
sass tma:
  warpsight sass tma train.events --block 0  # copies and waits of one block
sass waits:
  warpsight sass waits hung.events  # which warps wait for what, and who has not come
sass races:
  warpsight sass races train.events  # data races with both source lines
  warpsight sass races train.events --json  # for a script
  warpsight sass races --on-device -k 'reduce*' -- ./app  # found while the kernels run, without a trace
sass query:
  warpsight sass query trace.ndjson.zst --filter 'warp=3'  # records of one warp
  warpsight sass query trace.ndjson.zst --group-by sass --count  # how often each instruction ran
"""


def _examples() -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    verb = ""
    for line in _LISTED.strip().splitlines():
        if line.startswith("  "):
            command, what = line.strip().split("  # ")
            found[verb] += ((command, what),)
        else:
            verb = line.removesuffix(":")
            found[verb] = ()
    return found


#: Verb → command lines and what each does.
EXAMPLES = _examples()


def text(verb: str) -> str:
    """The examples of a verb as a paragraph of its help, or ""."""
    listed = EXAMPLES.get(verb, ())
    if not listed:
        return ""
    lines = []
    for command, what in listed:
        lines += [f"  {command}", f"      {what}"]
    return "\n".join(["\b", "Examples:", *lines])
