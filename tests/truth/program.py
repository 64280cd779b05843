"""A GPU program as data: what each host thread does, step by step, on which machine, and what a recorder sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

#: Kinds of scopes that a program or a framework announces: a recorder of annotations sees their start and end.
ANNOUNCED = ("annotation", "op", "step")
#: Scopes that cover everything and so name nothing: the outermost frames, and the ranges of iterations.
GENERIC = ("root", "step")


@dataclass(frozen=True)
class Stream:
    """A stream; `device` is the device's id in the trace, `number` any int32."""

    device: int
    number: int
    process: int = 0
    context: int = 1


@dataclass(frozen=True)
class Machine:
    """How long the hardware and the driver take.

    latency_ns: from the end of a launch call to the start of its work when nothing is before it.
    jitter: by how much of itself a latency differs from the median, at most.
    turnaround_ns: between two works of a stream, the second of which is there already.
    wake_ns: from the end of the awaited work to the return of the wait.
    queue_depth: works that a stream holds before a launch blocks.
    """

    latency_ns: int = 4_000
    jitter: float = 0.2
    turnaround_ns: int = 900
    wake_ns: int = 6_000
    queue_depth: int = 1024


@dataclass(frozen=True)
class Recorder:
    """What is kept of a program.

    file: `warp` (a trace folder) or `kineto` (torch.profiler's JSON).
    frames: where from: `none`, `launches` (stacks of calls), `samples` (stacks of threads at moments), `both`,
        `functions` (every function's start and end; Kineto only).
    sample_every_ns: time between two samples of a thread.
    names_overhead_thread: whether rows of the recorder's own time tell their thread.
    """

    file: str = "warp"
    annotations: bool = True
    frames: str = "none"
    sample_every_ns: int = 10_000_000
    names_overhead_thread: bool = True


@dataclass(frozen=True)
class Scope:
    """A named stretch of host code.

    kind: `annotation` (NVTX, ws.annotate, record_function), `op` (a framework's operator), `step` (the range of one
        iteration), `frame` (a function of the user's code), `library` (of somebody else's), `root` (main and above).
    source: who wrote an annotation: nvtx, annotate, framework.
    """

    name: str
    kind: str
    file: str = "/home/user/project/main.py"
    line: int = 1
    source: str = "annotate"


@dataclass(frozen=True)
class Kernel:
    """One kernel. Those with the same `meeting` end together, `ns` after the last of `members` has started."""

    name: str
    ns: int
    meeting: str | None = None
    members: int = 1
    collective: bool = False
    visible: bool = True


@dataclass(frozen=True)
class Copy:
    """One copy; memory kinds as in table memcpy."""

    kind: str
    bytes: int
    ns: int
    source: str = "pinned"
    destination: str = "device"
    visible: bool = True


@dataclass(frozen=True)
class Fill:
    """One fill of device memory."""

    bytes: int
    ns: int
    visible: bool = True


Work: TypeAlias = "Kernel | Copy | Fill"


@dataclass(frozen=True)
class Code:
    """The thread computes or sleeps."""

    ns: int


@dataclass(frozen=True)
class Within:
    """Steps inside a scope."""

    scope: Scope
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Launch:
    """A call that enqueues a kernel, or the nodes of a graph.

    load_ns: what the call takes longer because it loads a module first.
    recorder_ns: what it takes longer because of the recorder.
    early: the work starts before the call returns.
    seen: the recorder has the call.
    """

    stream: Stream
    works: tuple[Work, ...]
    ns: int
    function: str = "cudaLaunchKernel"
    load_ns: int = 0
    recorder_ns: int = 0
    graph: int | None = None
    early: bool = False
    seen: bool = True


@dataclass(frozen=True)
class Transfer:
    """A call that copies or fills.

    stage_ns: host work inside the call before the copy is submitted.
    blocking: the call returns when the copy has ended, and after `after_ns` more of host work inside it.
    """

    stream: Stream
    work: Copy | Fill
    ns: int
    function: str = "cudaMemcpyAsync"
    stage_ns: int = 0
    blocking: bool = False
    after_ns: int = 0
    seen: bool = True


@dataclass(frozen=True)
class Synchronise:
    """A call that waits for a device (of this process), a stream or an event."""

    target: int | Stream | str
    function: str = "cudaDeviceSynchronize"
    ns: int = 2_000


@dataclass(frozen=True)
class Poll:
    """Asks again and again whether an event has happened."""

    event: str
    function: str = "cudaEventQuery"
    ns: int = 1_000
    pause_ns: int = 20_000


@dataclass(frozen=True)
class Record:
    """Records an event into a stream."""

    event: str
    stream: Stream
    function: str = "cudaEventRecord"
    ns: int = 1_500


@dataclass(frozen=True)
class WaitFor:
    """Makes a stream wait for an event; the host goes on."""

    event: str
    stream: Stream
    function: str = "cudaStreamWaitEvent"
    ns: int = 1_500


@dataclass(frozen=True)
class Call:
    """Any other call: one that blocks (allocation, free, module load, registration), or one that does not.

    waits: the device whose work it waits for first, as cudaFree does.
    """

    function: str
    ns: int
    blocking: bool = True
    waits: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class RecorderWork:
    """The recorder takes the thread for a while, and says so."""

    ns: int
    kind: str = "buffer flush"


@dataclass(frozen=True)
class Hang:
    """A call that never returns: the thread's last step."""

    function: str


@dataclass(frozen=True)
class StepMark:
    """`ws.step()`: an iteration has ended."""


@dataclass(frozen=True)
class IterationBegins:
    """Nothing happens here; the truth counts these."""


@dataclass(frozen=True)
class RecordingBegins:
    """What began before this is not in the trace."""


@dataclass(frozen=True)
class Signal:
    """Lets other threads go on that await the name."""

    name: str


@dataclass(frozen=True)
class Await:
    """Host code that waits for another thread's signal."""

    name: str


Step: TypeAlias = (
    "Code | Within | Launch | Transfer | Synchronise | Poll | Record | WaitFor | Call | RecorderWork | Hang"
    " | StepMark | IterationBegins | RecordingBegins | Signal | Await"
)


@dataclass(frozen=True)
class Thread:
    """A host thread and everything it does."""

    name: str
    steps: tuple[Step, ...]
    number: int = 4001
    process: int = 0
    begin_ns: int = 0


@dataclass(frozen=True)
class Program:
    """Threads of processes, the machine and the recorder.

    iterating: whether its iterations can be counted.
    features: words for what is in it, for overviews.
    """

    seed: int
    family: str
    threads: tuple[Thread, ...]
    machine: Machine = field(default_factory=Machine)
    recorder: Recorder = field(default_factory=Recorder)
    iterating: bool = True
    features: tuple[str, ...] = ()
    begin_ns: int = 1_000_000_000

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of the processes in the trace."""
        return tuple(sorted({thread.process for thread in self.threads}))
