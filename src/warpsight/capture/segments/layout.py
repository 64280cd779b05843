"""The byte layout of rings and segments: the single definition behind the C++ structs and the NumPy dtypes.

Only the standard library is imported, because CMake runs `native/ring/generate_layout.py` on this module before
anything is installed; :func:`dtype` imports NumPy when it is called. The rows are in
:mod:`~warpsight.capture.segments.record_kinds`.

Everything is little-endian. An *arena* is one file in memory of one process: an arena header, a table of ring descriptors and
an array of blocks. A *ring* belongs to one thread and one record kind and owns `block_count` consecutive blocks. A
*segment* is a file of blocks, copied from rings by the drainer. All rows of a block have one kind and one size, so a
block's payload is an array; the one exception is kind `string`, whose rows are (id, length, bytes) padded to 8.

**Files.** `NAME.warp/raw/<arena id as 16 hex digits>/` holds `definitions-NNNNNN.seg` (what other rows refer to: strings,
frames, stacks, devices, …) and `data-NNNNNN.seg` (events), numbered in one sequence that a second drainer continues. A file
that is being written ends in `.open`; a closed file never changes. The closed definitions files hold everything that the
closed data files refer to. A file is an array of `BLOCK_BYTES` slots; unwritten parts of a slot are holes, and the last slot
may be short.

**Reading a slot.**

1. Wrong `magic`: the slot is empty or damaged; continue with the next.
2. Newer `version`: refuse the file.
3. `crc` is zlib's CRC-32 of the header's first 60 bytes and the first `committed` bytes of rows. If it differs, count the
   block as damaged and go on.
4. The first `committed` bytes are the rows. Skip kinds that you do not know.

**The same block can appear again**, in a later file and with more rows; earlier rows come first and are unchanged. Remember for
each `writer` the last `sequence` and how many bytes of it you used. Ignore lower sequences; of the same sequence take the new
bytes. A gap in `sequence` is a lost block: if flag 2 is set behind it, Loss rows count it, otherwise a file is missing. Writers
from 0x80000000 up are drainers, which write Loss rows and use string ids below 32. If several Loss rows have equal `counter`,
`ring` and `since`, the last one counts.
"""

from __future__ import annotations

from warpsight.capture.segments.packed import TYPES as TYPES
from warpsight.capture.segments.packed import Struct as Struct
from warpsight.capture.segments.packed import StructField as StructField
from warpsight.capture.segments.packed import dtype as dtype
from warpsight.capture.segments.packed import fields
from warpsight.capture.segments.record_kinds import RECORDS as RECORDS

LAYOUT_VERSION = 1
BLOCK_BYTES = 65536
BLOCK_HEADER_BYTES = 64
BLOCK_PAYLOAD_BYTES = BLOCK_BYTES - BLOCK_HEADER_BYTES
BLOCK_MAGIC = 0x31425357  # "WSB1"
ARENA_MAGIC = 0x314E455241535057  # "WPSAREN1"
ARENA_HEADER_BYTES = 4096
RING_CAPACITY = 8192
RING_DESCRIPTOR_BYTES = 128
BLOCK_CAPACITY = 32768
#: Bytes of a whole arena; sparse, so only touched blocks cost memory.
ARENA_BYTES = ARENA_HEADER_BYTES + RING_CAPACITY * RING_DESCRIPTOR_BYTES + BLOCK_CAPACITY * BLOCK_BYTES

BLOCK_HEADER = Struct(
    "BlockHeader",
    fields("""
u4 magic        BLOCK_MAGIC
u2 version      LAYOUT_VERSION
u2 kind         record kind of every row in the block
u4 pid          process that wrote it, as the process itself saw its id
u4 thread       OS thread id of the writer
u8 arena        random id of the arena; distinguishes reused process ids
u8 sequence     number of this block in its ring, from 0 without gaps
u8 lost         rows the ring had to drop before this block was begun
u4 writer       number of the ring in its arena, never reused
u4 session      recorder session (CUPTI session) the rows belong to: the high half of 64-bit correlation ids
u4 row_bytes    bytes of a row, 0 for variable rows
u4 committed    bytes of payload that are valid; grows while the block is open
u4 flags        1 = sealed: nothing will be added; 2 = blocks before it that are missing are counted in Loss rows
u4 crc          zlib crc32 of header[0:60] + payload[0:committed]; 0 in memory, filled in by the drainer
"""),
)

ARENA_HEADER = Struct(
    "ArenaHeader",
    fields("""
u8 magic            ARENA_MAGIC
u4 version          LAYOUT_VERSION
u4 pid              process that owns the arena
u8 arena            random id
u8 start_monotonic  CLOCK_MONOTONIC ns when the arena was made
u8 start_realtime   CLOCK_REALTIME ns at the same moment
u4 ring_count       ring descriptors handed out so far (atomic)
u4 block_count      blocks handed out so far (atomic)
u4 control          bits the launcher sets: see CONTROL_*
u4 control_ack      the control value the process has last acted on
u4 flush_request    launcher adds 1 to ask for a flush of everything outstanding
u4 flush_done       the request the process has finished
u4 state            STATE_* of the recorder in the process
u4 drainer          process id of whoever drains; the process takes over when it is gone
u8 heartbeat        CLOCK_MONOTONIC ns of the drainer's last visit
u8 lost_no_ring     rows dropped because descriptors or blocks ran out (atomic)
u8 lost_no_ring_reported  how many of them Loss rows already report (drainer)
u4 claims           rings claimed so far, recycled ones included (atomic)
u4 next_segment     number of the drainer's next segment file, so that a second drainer goes on counting
u4 forced_flush     the flush_request that is to be forced: incomplete records come too, without times
u4 reserved0        zero
u8[4] own_calls     calls of the program that the recorder was in, by OWN_SITES (atomic)
u8[4] own_ns        time it took in them, estimated from every OWN_SAMPLED-th (atomic)
u8 steps            iterations that the program has ended (atomic)
u8 first_step       the process begins to record when that many have ended, and
u8 last_step        rests again then; 0 never (launcher: the last first)
"""),
)

#: Where the recorder runs on the program's threads: in callbacks of CUDA calls, in ranges (NVTX and ws.annotate), around OpenCL
#: calls. One in OWN_SAMPLED of each is timed.
OWN_SITES = ("cuda", "range", "opencl")
OWN_SAMPLED = 32

RING_DESCRIPTOR = Struct(
    "RingDescriptor",
    fields("""
u4 state          0 free, 1 open, 2 closed by its thread: drain, then free; 3 being claimed
u2 kind           record kind
u2 row_bytes      bytes of a row, 0 for variable rows
u4 first_block    index of the first block in the arena
u4 block_count    blocks of this ring
u4 writer         number never reused
u4 thread         OS thread id; 0 a ring that all threads share (definitions)
u4 session        recorder session stamped on new blocks
u4 ready          blocks from the first on that have memory; the others must not be touched yet (producer)
u8 produced       sequence of the block being filled; blocks before it are sealed (atomic, producer)
u8 lost           rows dropped because the ring was full (producer)
u8 lost_first     CLOCK_MONOTONIC ns of the first dropped row
u8 lost_last      CLOCK_MONOTONIC ns of the last dropped row
u8 drained        blocks before this sequence may be overwritten (atomic; consumer, or a producer that drops its oldest block)
u8 lost_reported  how many of `lost` Loss rows already report (consumer)
u8 unwritten      rows of blocks that the consumer gave up, because they could not be written (consumer)
u8 unwritten_block  number of the last such block, plus 1 (consumer)
u8 unwritten_reported  how many of `unwritten` Loss rows already report (consumer)
u8[3] reserved1     keeps the consumer's line apart
"""),
)

#: String ids from here on belong to a string written for a single row, which the process does not remember.
FIRST_ONCE_STRING = 0x40000000
CONTROL_RECORD = 1  # record events; cleared = dormant
CONTROL_STOP = 2  # stop permanently: detach from CUPTI, flush, close rings
STATE_STARTING, STATE_RECORDING, STATE_DORMANT, STATE_STOPPED, STATE_EXITED = 0, 1, 2, 3, 4

FRAME_PYTHON, FRAME_NATIVE, FRAME_MARKER, FRAME_KERNEL, FRAME_LINE = 1, 2, 3, 4, 5
STACK_FRAME_CHAIN, STACK_WITH_GIL, STACK_UNWINDER, STACK_IMPORTED, STACK_REMOTE = 1, 2, 3, 4, 5
STACK_WAITER = 6
#: The API whose functions a call's row numbers. Other backends have numbers from 5 on, in the tables of their packages.
API_CUDA_RUNTIME, API_CUDA_DRIVER, API_OPENCL, API_USER = 1, 2, 3, 4
#: The backend of a device or context. Other backends have numbers from 3 on.
BACKEND_CUDA, BACKEND_OPENCL = 1, 2

#: Constants that the generated C++ header repeats.
CONSTANTS = {
    name: value for name, value in dict(globals()).items() if name.isupper() and isinstance(value, int)
}

BY_KIND = {record.kind: record for record in RECORDS}
BY_NAME = {record.name: record for record in RECORDS}
