"""Tables of work on the host: launches, other API calls, ranges, memory, samples, user events, counters."""

from __future__ import annotations

from warpsight.model.schema.columns import tables

_CALL = """
start        int64  ns  entry of the call
duration     int64? ns  null: the call had not returned
function     word   -   function called, as the API spells it
thread       int32  -   OS thread id
correlation  int64? id  joins kernel, memcpy, … together with process
process      int32  -   process id in the trace
stack        int32? -   host stack (table stack)
result       int32? -   return code
"""

TABLES = tables(
    """
launch[start] A call that launched kernels or graphs.
  @call
  name_id      int32? -   kernel name as the call gives it (table name)
  shape_id     int32? -   launch shape as the call gives it (table shape)
  captured     bool   -   the launch went into a graph being captured instead of the device

api[start] Any other recorded API call.
  @call
  object       uint64? -  stream, event or pointer argument that matters
  bytes        int64? B   size argument

marker[start] A range or instant the program announced (NVTX, annotate, framework).
  start        int64  ns  begin
  duration     int64? ns  null: instant, or never closed
  kind         string -   push/pop, start/end, instant
  open         bool   -   never closed
  name_id      int32? -   text (table name)
  domain       text?   -  NVTX domain
  category     text?   -  category name or number
  color        uint32? -  ARGB
  payload      float64? - numeric payload
  depth        int32? -   nesting depth of push/pop ranges, from 0
  source       word   -   nvtx, annotate, framework, roctx, profiler (cudaProfilerStart and Stop), openacc, openmp
  stack        int32? -   host stack (table stack)
  attributes   text?   -  JSON object
  thread       int32  -   OS thread id
  process      int32  -   process id in the trace

op[start] A framework operator (torch, imported CPU ops).
  start        int64  ns  begin
  duration     int64? ns  end - start
  name_id      int32? -   operator name (table name)
  sequence     int64? -   autograd sequence number
  correlation  int64? id  the operator's own id if the source has it; joins flow
  shapes       text?   -  JSON list of input shapes
  stack        int32? -   host stack (table stack)
  attributes   text?   -  JSON object
  thread       int32  -   OS thread id
  process      int32  -   process id in the trace

memory[time] An allocation, free or pool operation.
  time         int64  ns  when
  operation    word   -   allocate, free, pool create, pool trim, pool destroy
  address      uint64 -   address
  bytes        int64? B   size
  kind         word   -   memory kind as in memcpy, or reported
  device       int16? -   device id
  context      int32? -   context id
  stream       int64? -   stream or queue id
  correlation  int64? id  joins api
  pool         uint64? -  pool address
  pool_size    int64? B   reserved by the pool
  pool_used    int64? B   in use in the pool
  allocator    text?   -  family that frees what it allocated: CUDA, OpenCL, HIP, caching allocator, the user's name
  tag          text?   -  user's tag
  category     text?   -  parameter, gradient, activation, temporary, cached
  stack        int32? -   host stack (table stack)
  thread       int32? -   OS thread id
  process      int32  -   process id in the trace

counter[time] A sampled or reported number.
  time         int64  ns  when
  name         text   -   counter name
  value        float64 -  in unit
  unit         text   -   %, B, B/s, W, MHz, °C, 1 …
  device       int16? -   device id, null for the host or the program
  source       word   -   nvml, gpm, user, recorder, pm sampling
  process      int32? -   process that reported it

sample[time] What a host thread was doing at one moment.
  time         int64  ns  when
  thread       int32  -   OS thread id
  stack        int32? -   Python stack (table stack)
  state        string -   R running, S sleeping, D disk, T stopped, Z dead
  gil          bool   -   held the GIL
  process      int32  -   process id in the trace

user_event[start] An event the program emitted itself (ws.emit, ws.mark).
  start        int64  ns  begin
  duration     int64  ns  0 for a mark
  name         text   -   name
  kind         text   -   the user's kind
  stack        int32? -   host stack (table stack)
  attributes   text?   -  JSON object
  thread       int32  -   OS thread id
  process      int32  -   process id in the trace

overhead[start] What CUPTI or the recorder counts as overhead: the recorder's own work, and what the driver does beside it.
  start        int64  ns  begin
  duration     int64  ns  end - start
  kind         word   -   buffer flush, instrumentation, … (the recorder's); driver compiler, command buffer full, … (not its)
  thread       int32? -   OS thread id
  process      int32  -   process id in the trace

build[start] A program or module was built at run time (OpenCL).
  start        int64  ns  begin
  duration     int64  ns  end - start
  program      text   -   name or hash
  options      text?   -  build options
  result       int32? -   return code
  device       int16? -   device id
  stack        int32? -   host stack (table stack)
  process      int32  -   process id in the trace

flow An explicit dependency between two correlated operations.
  from_correlation int64 id correlation that must finish first
  to_correlation   int64 id correlation that waits
  kind         string -   wait list, forward-backward, user
  process      int32  -   process id in the trace

external_id An id that the program gave a call, by cuptiActivityPushExternalCorrelationId.
  correlation  int64? id  joins launch, api, kernel, memcpy, … together with process
  kind         string -   of whose ids: unknown, openacc, custom 0, custom 1, custom 2
  external_id  uint64 -   the id
  process      int32  -   process id in the trace
""",
    call=_CALL,
)
