"""Tables of single instructions of a kernel: sampled, recorded by instrumentation, imported from CUTracer."""

from __future__ import annotations

from warpsight.model.schema.columns import tables

_EVENT = """
grid_launch  int64  id  launch within the process, from 0
event        int64  id  number of the record within its launch (joins access and register)
"""

TABLES = tables(
    """
instruction Static instructions of instrumented kernels.
  name_id      int32? -   kernel (table name)
  grid_launch  int64  id  first launch that described it
  opcode       int32  -   number of the instruction in its kernel, from 0
  sass         word   -   text of the instruction
  binary       string? -  encoded instruction, hexadecimal
  registers    string? -  JSON list of the registers it names
  uniform_registers string? - JSON list of the uniform registers it names
  process      int32  -   process id in the trace

warp_event One instruction executed by one warp.
  @event
  kind         string -   opcode_only, reg_trace, mem_trace, mem_addr_trace, mem_value_trace, tma_trace
  time         int64  ns  when the host received the record, as the source gives it
  cta_x        int32  -   block
  cta_y        int32  -   block
  cta_z        int32  -   block
  warp         int64  -   warp of the grid: block number times warps per block plus warp of the block
  opcode       int32  -   instruction (table instruction)
  pc           int64  B   offset in the function
  active_mask  uint32? -  lanes that executed it
  name_id      int32? -   kernel (table name)
  attributes   text?   -  JSON object of the record's other fields
  process      int32  -   process id in the trace

access One lane's part of a memory access.
  @event
  lane         int8   -   0 to 31
  address      uint64 -   as recorded; 0 where the lane took no part
  space        int32? -   memory space, the source's number
  is_load      bool?  -   a load, else a store
  bytes        int16? B   of the lane
  value0       uint32? -  first 32 bits
  value1       uint32? -  next 32 bits
  value2       uint32? -  next 32 bits
  value3       uint32? -  next 32 bits
  process      int32  -   process id in the trace

register Value of a register of one lane, or of a uniform register, at an instruction.
  @event
  register     int16  -   number
  uniform      bool   -   a uniform register: one value for the warp
  lane         int8?  -   0 to 31, null for uniform registers
  value        uint32 -   as recorded
  process      int32  -   process id in the trace

probe_value What a map of a probe holds after a launch.
  grid_launch  int64  id  launch within the process, from 0
  name_id      int32? -   kernel (table name)
  map          text   -   the map's name in the file of probes
  kind         string -   array, histogram, top, ring
  block        int64? -   of a map for each CTA, warp or thread
  warp         int64? -   of a map for each warp: of the block
  thread       int64? -   of a map for each thread: of the block
  key          int64  -   key, row of a ring, or least value of a bin
  column       text   -   column of a ring, high (end of a bin), else value
  value        int64? -   integer
  number       float64? - float
  process      int32  -   process id in the trace

pc_sample[start] Samples of warps at one instruction for one reason, taken in one window (table pc_window).
  start        int64  ns  start of the window
  duration     int64  ns  of the window
  name_id      int32? -   function with the instruction: a kernel, or one that was not inlined (table name)
  checksum     uint64? -  of the module's image (table module)
  pc           int64  B   offset in the function
  reason       word   -   what the warp waited for: long_scoreboard, barrier, …; selected: it issued
  samples      int64  -   all samples for this reason
  not_issued   int64  -   those of them in cycles in which the scheduler issued nothing
  correlation  int64? id  launch, when kernels ran one at a time for it
  context      int32  -   context id, unique within the process
  device       int16? -   device id (table device)
  process      int32  -   process id in the trace

pc_window[start] A stretch of time in which warps were sampled in one context.
  start        int64  ns  begin
  duration     int64  ns  end - start
  samples      int64  -   taken in all, in the table or not
  dropped      int64  -   lost by the hardware
  unattributed int64  -   in code without instructions in CUPTI: the driver's kernels
  incomplete   bool   -   the hardware's buffer ran full
  period       int64? cycles between two samples of a multiprocessor
  cost         int64? ns  processor time of the recorder's thread to collect them
  context      int32  -   context id, unique within the process
  device       int16? -   device id (table device)
  process      int32  -   process id in the trace

instruction_count[start] Exact counts of one instruction in one window, over all launches in it (CUPTI's SASS metrics).
  start        int64  ns  start of the window
  duration     int64  ns  of the window
  name_id      int32? -   function with the instruction: a kernel, or one that was not inlined (table name)
  checksum     uint64? -  of the module's image (table module)
  pc           int64  B   offset in the function
  metric       word   -   what was counted: smsp__sass_inst_executed, …; other metrics of the instruction are 0
  value        int64  -   the count
  context      int32  -   context id, unique within the process
  device       int16? -   device id (table device)
  process      int32  -   process id in the trace

range_metric[start] A hardware metric of one kernel launch or one range of the program.
  start        int64  ns  when the launch or the range began on the host
  duration     int64  ns  until it ended there
  range        int64  id  number in its process: the metrics of one launch or range have the same
  kind         string -   kernel or range
  name         text   -   mangled name of the kernel, or name of the range
  metric       word   -   the chip's name, with its suffix
  value        float64 -  in the metric's own unit
  passes       int16  -   how often the work ran for its metrics
  correlation  int64? id  launch (table launch)
  context      int32  -   context id, unique within the process
  device       int16? -   device id (table device)
  process      int32  -   process id in the trace
""",
    event=_EVENT,
)
