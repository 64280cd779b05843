"""The contents of a capsule's file `capsule.json`.

References between parts are positions in the manifest's lists. Addresses are those of the recorded process. Times are ns.
The types bound single values; :mod:`warpsight.replay.capsule.checks` checks the relations between them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FORMAT = "warpsight capsule"
#: Raised when a reader of the version before could misread a capsule.
VERSION = 1

_MOST = 2**63 - 1
#: One past the highest address that a GPU or a host process can have.
ADDRESS_END = 2**57
#: Bytes of one chunk of contents at most.
CHUNK_LIMIT = 16 << 20
#: Bytes of a module's image at most.
IMAGE_LIMIT = 1 << 30
#: Bytes of a kernel's parameters at most (32,764 from compute capability 7.0 on).
PARAMETER_LIMIT = 32_764

Text = Annotated[str, Meta(max_length=65_536, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=65_536, pattern=r"^[^\x00-\x20\x7f]+\Z")]
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", max_length=64)]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=_MOST)]
Address = Annotated[int, Meta(ge=1, lt=ADDRESS_END)]
#: Bytes of one allocation, copy or image.
Bytes = Annotated[int, Meta(ge=1, le=2**44)]
Small = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
#: SHA-256 of each chunk, uncompressed: `Manifest.chunk_bytes` each, the last one the rest.
Contents = Annotated[list[_Hash], Meta(max_length=2**24)]
Axis = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Dimensions = tuple[Axis, Axis, Axis]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts of a manifest: only the named fields are allowed."""


class RecordedDevice(_Part, frozen=True):
    """The recorded GPU; `driver`: its CUDA version, such as 13000; `limits`: those of cuCtxGetLimit, by number."""

    name: Text
    compute_capability: tuple[Small, Small]
    multiprocessors: Index
    memory_bytes: Count
    driver: Index
    uuid: Text = ""
    limits: dict[Annotated[int, Meta(ge=0, le=64)], Count] = {}


class Relocation(_Part, frozen=True):
    """An 8-byte word that holds the address of `globals[target]` plus `addend`; modules load elsewhere in each process."""

    offset: Count
    target: Index
    addend: Count = 0


class ModuleSource(_Part, frozen=True):
    """The source text a module was compiled from (Triton, NVRTC, PTX)."""

    name: Text
    size: Bytes
    contents: Contents


class LoadedModule(_Part, frozen=True):
    """A loaded module: its image as the driver holds it, ready for cuModuleLoadData."""

    kind: Literal["cubin", "ptx", "fatbin"]
    size: Annotated[int, Meta(ge=1, le=IMAGE_LIMIT)]
    image: Contents
    sources: Annotated[list[ModuleSource], Meta(max_length=1024)] = []


class Global(_Part, frozen=True):
    """A `__device__` or `__constant__` variable of a module, with contents unless `--values` leaves them out."""

    module: Index
    name: Name
    address: Address
    size: Bytes
    constant: bool = False
    before: Contents | None = None
    after: Contents | None = None
    relocations: list[Relocation] = []


class Parameter(_Part, frozen=True):
    """Where a parameter is in the packed parameters of a launch."""

    offset: Index
    size: Annotated[int, Meta(ge=1, le=PARAMETER_LIMIT)]


class Function(_Part, frozen=True):
    """A kernel; `name` is mangled; `attributes`: settable ones of cuFuncSetAttribute, by CUfunction_attribute number."""

    module: Index
    name: Name
    parameters: Annotated[list[Parameter], Meta(max_length=PARAMETER_LIMIT)] = []
    attributes: dict[Annotated[int, Meta(ge=0, le=64)], Small] = {}


class RecordedCall(_Part, frozen=True):
    """A call or operation of the recorded process: kind, time (ns since 1970), place; `sequence` is its number."""

    what: Text
    time: Count = 0
    sequence: Count = 0
    stack: Annotated[list[Text], Meta(max_length=256)] = []


class Allocation(_Part, frozen=True):
    """Memory at its original address.

    Attributes:
        kind: `malloc` (cuMemAlloc), `pool` (cuMemAllocAsync), `vmm` (cuMemMap), `host` (pinned host memory that kernels reach).
        reached: why it is here, such as "parameter at 16 of operation 0" or "allocation 3".
        maker, last_writer: the calls that made and last wrote it, if known.
        before, after: contents; None if left out. A replay starts with zeros for missing contents.
        relocations: words of `before` that hold addresses of module globals.
    """

    address: Address
    size: Bytes
    kind: Literal["malloc", "pool", "vmm", "host"]
    reached: Text = ""
    maker: RecordedCall | None = None
    last_writer: RecordedCall | None = None
    before: Contents | None = None
    after: Contents | None = None
    relocations: list[Relocation] = []


class Stream(_Part, frozen=True):
    """A stream; `default`: the null stream (or a thread's own one)."""

    default: bool = False
    priority: Small = 0
    flags: Index = 0


class LaunchAttribute(_Part, frozen=True):
    """A CUlaunchAttribute: its id and the 64 bytes of its value."""

    id: Annotated[int, Meta(ge=0, le=64)]
    value: Annotated[bytes, Meta(min_length=64, max_length=64)]


class Launch(_Part, frozen=True, tag="launch"):
    """A kernel launch; `parameters` are packed, as long as the function's; `cluster` is also in `attributes`."""

    stream: Index
    function: Index
    grid: Dimensions
    block: Dimensions
    parameters: Annotated[bytes, Meta(max_length=PARAMETER_LIMIT)] = b""
    shared_bytes: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    cluster: Dimensions | None = None
    attributes: Annotated[list[LaunchAttribute], Meta(max_length=32)] = []
    relocations: list[Relocation] = []
    host_time: Count = 0
    device_time: Count = 0


class Copy(_Part, frozen=True, tag="copy"):
    """A copy of `rows` rows of `bytes` bytes. `host` has the bytes from the host, packed, if `source` is None.

    A `destination` of None means the host. `pinned`: the host's memory was pinned. Addresses belong to allocations or globals of
    the capsule.
    """

    stream: Index
    bytes: Bytes
    destination: Address | None = None
    source: Address | None = None
    host: Contents | None = None
    rows: Axis = 1
    destination_pitch: Count = 0
    source_pitch: Count = 0
    pinned: bool = False
    asynchronous: bool = True
    host_time: Count = 0
    device_time: Count = 0


class Set(_Part, frozen=True, tag="set"):
    """A fill of `rows` rows of `count` elements of 1, 2 or 4 bytes."""

    stream: Index
    destination: Address
    value: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    element: Literal[1, 2, 4]
    count: Bytes
    rows: Axis = 1
    pitch: Count = 0
    host_time: Count = 0
    device_time: Count = 0


class EventRecord(_Part, frozen=True, tag="record"):
    """An event is recorded into a stream; events are numbered by first use."""

    stream: Index
    event: Index
    host_time: Count = 0


class EventWait(_Part, frozen=True, tag="wait"):
    """The stream waits for the event."""

    stream: Index
    event: Index
    host_time: Count = 0


class Synchronize(_Part, frozen=True, tag="synchronize"):
    """The host waits: for a stream, for an event, or (neither) for the context."""

    stream: Index | None = None
    event: Index | None = None
    host_time: Count = 0


class GraphNode(_Part, frozen=True):
    """A node of a graph in topological order: `after` has positions of earlier nodes; without `work` it is an empty node.

    The streams of `work` have no meaning.
    """

    work: Launch | Copy | Set | None = None
    after: Annotated[list[Index], Meta(max_length=65_536)] = []


class GraphLaunch(_Part, frozen=True, tag="graph"):
    """A launch of `graphs[graph]`."""

    stream: Index
    graph: Index
    host_time: Count = 0
    device_time: Count = 0


OPERATIONS = (Launch, Copy, Set, EventRecord, EventWait, Synchronize, GraphLaunch)
Operation = Launch | Copy | Set | EventRecord | EventWait | Synchronize | GraphLaunch


class Graph(_Part, frozen=True):
    """A graph in its state when it was launched."""

    nodes: Annotated[list[GraphNode], Meta(max_length=1 << 20)]


class Manifest(_Part, frozen=True):
    """The whole of `capsule.json`.

    Attributes:
        chunk_bytes: size of the chunks of contents.
        values: which contents are kept: `all`; `none`; or `zeros` or `random` replace them, except for words that hold addresses
            of the capsule's memory. Only `all` has contents `after`.
        events: number of events. incomplete: what the capsule lacks, in words; a replay may differ because of it.
        allocations: by address, without overlap. operations: in the order of their calls.
    """

    format: Literal["warpsight capsule"]
    version: Index
    device: RecordedDevice
    chunk_bytes: Annotated[int, Meta(ge=4096, le=CHUNK_LIMIT)]
    values: Literal["all", "none", "zeros", "random"] = "all"
    warpsight: Text = ""
    command: Annotated[list[Text], Meta(max_length=65_536)] = []
    time: Count = 0
    modules: Annotated[list[LoadedModule], Meta(max_length=1 << 20)] = []
    globals: Annotated[list[Global], Meta(max_length=1 << 20)] = []
    functions: Annotated[list[Function], Meta(max_length=1 << 20)] = []
    allocations: Annotated[list[Allocation], Meta(max_length=1 << 20)] = []
    streams: Annotated[list[Stream], Meta(max_length=65_536)] = []
    events: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    graphs: Annotated[list[Graph], Meta(max_length=65_536)] = []
    operations: Annotated[list[Operation], Meta(max_length=1 << 20)] = []
    incomplete: Annotated[list[Text], Meta(max_length=1024)] = []
