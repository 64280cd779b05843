"""The rows of rings and segments: every record kind with its fields; kinds that others refer to come first."""

from __future__ import annotations

from warpsight.capture.segments.definition_kinds import DEFINITIONS
from warpsight.capture.segments.packed import Struct, kinds

#: Every record kind. Times are CLOCK_MONOTONIC ns; `name` and other strings are ids of kind `string` (0 = none);
#: `stack` is an id of kind `stack` (0 = none); correlation ids are completed with the block's `session`.
RECORDS: tuple[Struct, ...] = (
    *DEFINITIONS,
    *kinds("""
20 Api blocks=32
  u8 start        entry of the call
  u8 duration     ns; all ones when the call had not returned
  u4 correlation  low half; joins kernels, copies …
  u4 stack        where it was called
  u4 name         string: kernel of a launch, 0 none
  i4 result       the API's return code
  u2 function     function id: CUPTI callback id, OpenCL function number, or the number of an ApiFunction row
  u1 domain       API_*
  u1 flags        1 launch, 2 captured into a graph instead of run, 4 nested call not shown by itself, 8 no kernel row will follow
  u4 shape        shape id of a launch if the call has it, else 0
  u8 object       stream/queue handle, event or pointer argument that matters for the call; 0 none
  u8 bytes        size argument, 0 none

21 Kernel blocks=256
  u8 start        0 with end 0: timestamps were lost
  u8 end          ns
  u8 graph_node   node id, 0 not in a graph
  u4 correlation  low half
  u4 name         string: mangled name
  u4 shape        shape id
  u4 context      context id
  u4 stream       stream id
  u4 graph        graph id, 0 none
  u2 device       device index
  u2 flags        1 graph-level row: a whole graph launch, not expanded into nodes
  u4 module       module id, 0 unknown
  u8 queued       0 unknown
  u8 submitted    0 unknown

22 Memcpy blocks=64
  u8 start        ns
  u8 end          ns
  u8 bytes        copied
  u8 graph_node   node id, 0 none
  u4 correlation  low half
  u4 context      context id
  u4 stream       stream id
  u4 graph        graph id
  u2 device       device index
  u2 source_device      device index, 65535 none
  u2 destination_device device index, 65535 none
  u1 kind         CUpti_ActivityMemcpyKind
  u1 source_kind  CUpti_ActivityMemoryKind
  u1 destination_kind same
  u1 flags        1 asynchronous
  u2 reserved0    zero
  u4 copies       batch count, 1 usually

23 Memset blocks=32
  u8 start        ns
  u8 end          ns
  u8 bytes        set
  u8 graph_node   node id, 0 none
  u4 correlation  low half
  u4 context      context id
  u4 stream       stream id
  u4 graph        graph id
  u4 value        pattern
  u2 device       device index
  u1 memory_kind  CUpti_ActivityMemoryKind
  u1 flags        1 asynchronous

24 Sync blocks=32
  u8 start        ns
  u8 end          ns
  u4 correlation  low half
  u4 context      context id
  u4 stream       stream id, all ones none
  u4 event        CUDA event id, 0 none
  u4 type         1 event sync, 2 stream wait event, 3 stream sync, 4 context sync; of OpenCL: 5 finish, 6 wait, 7 blocking call
  i4 result       return value
  u8 event_sync   CUPTI's id that ties a wait to the record it waits for

25 Event blocks=32
  u8 time         GPU or host ns when known, else 0
  u8 event_sync   CUPTI's id
  u4 event        event id
  u4 correlation  low half
  u4 context      context id
  u4 stream       stream id

26 Memory blocks=32
  u8 time         ns
  u8 address      of the allocation
  u8 bytes        size; 0 for a free whose size is unknown
  u8 pool         pool address, 0 none
  u8 pool_size    bytes reserved by the pool, 0 unknown
  u8 pool_used    bytes in use in the pool, 0 unknown
  u4 correlation  low half
  u4 context      context id
  u4 stream       stream id
  u4 stack        where; 0 when only the call's own row knows
  u4 allocator    string: family (CUDA, OpenCL, …), caching allocator, user's name …
  u4 tag          string
  u2 device       device index
  u1 operation    1 allocate, 2 free, 3 pool create, 4 pool trim, 5 pool destroy
  u1 kind         CUpti_ActivityMemoryKind, 255 reported by the user or framework
  u1 category     0 unknown 1 activation 2 gradient 3 parameter 4 temporary 5 cached
  u1[3] reserved0   zero

27 Overhead blocks=16
  u8 start        ns
  u8 end          ns
  u4 kind         CUpti_ActivityOverheadKind; 65536 and up: our own work
  u4 object       thread or stream id
  u4 correlation  low half, 0 none
  u4 reserved0    zero

28 Marker blocks=16
  u8 time         ns
  u8 id           of a start/end range; depth of a push/pop range
  u8 payload      raw 64 bits
  u4 name         string
  u4 domain       string, 0 the default domain
  u4 category     string or number as string, 0 none
  u4 color        ARGB, 0 none
  u1 phase        1 push, 2 pop, 3 start, 4 end, 5 instant
  u1 payload_type 0 none, else nvtxPayloadType
  u2 source       1 NVTX, 2 warpsight annotate, 3 framework, 4 ROCTx, 5 profiler API, 6 OpenACC, 7 OpenMP
  u4 stack        where, 0 none
  u4 attributes   string: JSON object, 0 none
  u4 reserved0    zero

29 Counter blocks=16
  u8 time         ns
  f8 value        in unit
  u4 name         string
  u4 unit         string
  i4 device       device index, -1 the host or the program
  u4 source       1 NVML, 2 GPM, 3 user, 4 recorder, 5 PM sampling

30 UserEvent blocks=16
  u8 start        ns
  u8 duration     ns
  u4 name         string
  u4 kind         string
  u4 stack        where, 0 none
  u4 attributes   string: JSON object, 0 none

31 Sample blocks=16
  u8 time         ns
  u4 thread       OS thread id that was sampled
  u4 stack        its Python stack, 0 none
  u1 state        ASCII of /proc stat: R S D T Z
  u1 gil          1 it held the GIL
  u2 reserved0    zero
  u4 pid          process id

32 Loss
  u8 time         ns when noticed
  u8 start        first ns concerned, 0 unknown
  u8 end          last ns concerned
  u8 count        rows, buffers or bytes lost; 1 when it is a fact rather than a count
  u4 cause        string: a short sentence
  u4 source       string: who lost it
  u4 kind         record kind concerned, 0 any
  u4 severity     1 note (nothing lost), 2 data lost, 3 recording ended early
  u4 counter      the shared counter this continues: 1 `lost` of a ring, 2 `lost_no_ring`, 3 `unwritten` of a ring; 0 none
  u4 ring         writer of that ring
  u8 since        value of the counter that earlier rows cover: a row with the same one replaces this

33 Clock
  u8 monotonic    CLOCK_MONOTONIC ns
  u8 realtime     CLOCK_REALTIME ns at the same moment
  u8 device_time  device clock in ns at the same moment, 0 none
  u4 device       device index, all ones none
  u4 uncertainty  ns

34 Flow blocks=16
  u8 from_correlation  full 64 bits, session included
  u8 to_correlation    full 64 bits
  u4 kind         1 wait list (OpenCL), 2 forward-backward, 3 user
  u4 reserved0    zero

35 Build
  u8 start        ns
  u8 duration     ns
  u4 program      string: name or hash
  u4 options      string
  i4 result       return code
  u4 device       device index
  u4 stack        where
  u4 reserved0    zero

36 CopyCall blocks=16
  u8 start        as in Api, which it is for copies and fills: they have addresses too
  u8 duration     same
  u4 correlation  same
  u4 stack        same
  u4 name         same
  i4 result       same
  u2 function     same
  u1 domain       same
  u1 flags        same
  u4 shape        0
  u8 object       same
  u8 bytes        same
  u8 source       address read, 0 none or unknown
  u8 destination  address written, 0 unknown

37 PcSample blocks=64
  u8 start        start of the window, as in PcWindow
  u8 end          end of the window
  u8 checksum     of the module's image, as in Module
  u8 pc           offset in the function
  u4 name         string: mangled name of the function
  u4 reason       string: stall reason
  u4 samples      all for this reason
  u4 not_issued   those of them in cycles in which the scheduler issued nothing
  u4 context      context id
  u4 correlation  low half of the launch's, 0 none

38 PcWindow
  u8 start        ns
  u8 end          ns
  u8 samples      taken in all
  u8 dropped      by the hardware
  u8 unattributed in code without instructions in CUPTI: the driver's kernels
  u8 cost         processor time of our own thread to collect them, ns
  u4 context      context id
  u4 period       cycles between two samples of a multiprocessor, 0 unknown
  u4 flags        1 the hardware's buffer ran full
  u4 reserved0    zero

39 Collective blocks=16
  u8 start        when it had been launched, ns
  u8 communicator NCCL's hash of it
  u8 sequence     number in its communicator, of a message between its two ranks; all ones unknown
  u8 count        elements
  u8 id           from 1, unique in the process; parts name it
  u4 correlation  low half of its kernel's launch, 0 unknown
  u4 operation    string: AllReduce, Send …
  u4 call         string: the call that it is part of, 0 unknown
  u4 dtype        string: element type that `count` is in
  u4 call_dtype   string: element type of the call, 0 unknown
  u4 algorithm    string
  u4 protocol     string
  u4 name         string: the program's name for the communicator
  i4 ranks        of the communicator, -1 unknown
  i4 rank         in the communicator
  i4 peer         rank of a message, -1 none
  i4 root         -1 none
  u4 channels     0 unknown
  u4 reserved0    zero

40 CollectivePart blocks=32
  u8 start        ns
  u8 duration     ns
  u8 operation    id of the Collective row, 0 unknown
  u8 communicator NCCL's hash of it, 0 unknown
  u8 bytes        transferred, 0 unknown
  u8 wait_device  of a network step: waiting for the GPU, ns
  u8 wait_peer    for the other rank's buffers, ns
  u8 wait_network for the network, ns
  u4 kind         1 channel of the kernel, 2 proxy operation, 3 network step
  u4 channel      number
  i4 peer         rank, -1 none
  i4 step         number of a step; of a proxy operation how many it has
  u4 flags        1 send, 2 receive
  u4 reserved0    zero

41 InstructionCount blocks=64
  u8 start        start of the window in which it was counted
  u8 end          end of the window
  u8 checksum     of the module's image, as in Module
  u8 pc           offset in the function
  u8 value        the count
  u4 name         string: mangled name of the function
  u4 metric       string: CUPTI's name
  u4 context      context id
  u4 reserved0    zero

42 RangeMetric blocks=16
  u8 start        when the launch or the range began on the host, ns
  u8 end          when it ended there
  f8 value        of the metric
  u4 range        from 1 in this process: rows of one range have the same
  u4 name         string: mangled name of the kernel, or name of the range
  u4 metric       string: the chip's name
  u4 correlation  low half of the launch's, 0 none
  u4 context      context id
  u2 passes       how often the work ran for it
  u1 kind         1 kernel, 2 range
  u1 reserved0    zero

43 ExternalId blocks=64
  u8 external_id  as the program pushed it
  u4 correlation  low half
  u4 kind         CUpti_ExternalCorrelationKind
"""),
)
