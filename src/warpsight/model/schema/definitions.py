"""Tables that other tables refer to: names, shapes, stacks, devices, processes; loss and clock."""

from __future__ import annotations

from warpsight.model.schema.columns import tables

TABLES = tables(
    """
name Distinct names of kernels, ranges and operators.
  id           int32  -   from 1, unique in the trace
  name         text   -   as recorded (mangled)
  demangled    text   -   readable form; equal to name when it is not mangled
  short        text   -   demangled without arguments and template arguments

shape Distinct launch shapes.
  id           int32  -   from 1, unique in the trace
  grid_x       int32  -   blocks
  grid_y       int32  -   blocks
  grid_z       int32  -   blocks
  block_x      int32  -   threads
  block_y      int32  -   threads
  block_z      int32  -   threads
  cluster_x    int32  -   blocks of a cluster, 0 none
  cluster_y    int32  -   blocks
  cluster_z    int32  -   blocks
  registers    int32  -   per thread
  shared_static  int32 B  per block
  shared_dynamic int32 B  per block
  local_per_thread int32 B per thread
  launch_type  string -   regular, cooperative, multi-device cooperative, device-launched
  shared_config int32 B   shared-memory carve-out

stack Host stacks as a tree: a stack is a frame called from a parent stack.
  id           int32  -   from 1, unique in the trace
  parent       int32? -   the caller's stack
  frame        int32  -   innermost frame (table frame)
  depth        int32  -   frames, 1 at the root
  method       string - frame chain, with GIL, unwinder, imported, remote, waiter (the waiting thread's), forward (its forward's)
  cut          bool   -   outer frames beyond the depth limit are missing

frame Distinct frames.
  id           int32  -   from 1, unique in the trace
  kind         string -   python, native, marker, kernel, line
  function     text   -   qualified name
  file         text?   -  path, or module of a native frame
  line         int32? -   line of the call
  address      uint64? -  offset in the module of a native frame
  build_id     string? -  of the module

process Recorded processes.
  process      int32  -   id in the trace, from 0
  pid          int32  -   process id on its host
  parent       int32? -   parent's pid
  host         text   -   host name
  rank         int32? -   rank in the job
  local_rank   int32? -   rank on the host
  world_size   int32? -   ranks in the job
  command      text   -   command line, shell-quoted
  executable   text   -   path
  environment  text?   -  JSON object of allow-listed variables
  settings     text?   -  JSON object of the recorder's settings and library versions
  start        int64  ns  when recording began in it
  end          int64? ns  when it ended, null unknown
  exit         word?   -  how it ended: exit N, signal N, exec, unknown

thread Threads that appear in the trace.
  thread       int32  -   OS thread id
  name         text?   -  name
  process      int32  -   process id in the trace

device Devices, one row per physical device (by UUID).
  device       int16  -   id in the trace: the number its file or driver gave it, the next free one where another device has that
  index        int32  -   number that its file or the first process gave it
  uuid         word   -   unique id
  name         text   -   marketing name
  vendor       word   -   NVIDIA, …
  platform     word   -   cuda, opencl, or the name of another backend
  pci          word?   -  domain:bus:device.function
  memory_bytes int64? B   total
  memory_bandwidth int64? B/s peak
  multiprocessors int32? - SMs or compute units
  compute_capability word?   - major.minor
  warp_size    int32? -   threads
  registers_per_multiprocessor int32? - 32-bit
  shared_per_multiprocessor int32? B per SM
  threads_per_multiprocessor int32? - maximum
  blocks_per_multiprocessor int32? - maximum
  clock_khz    int32? kHz maximum
  memory_clock_khz int32? kHz maximum
  driver       word?   -  driver version
  runtime      word?   -  runtime or recorder-library version
  host         text?   -  host name

context Device contexts.
  context      int32  -   id, unique within the process
  device       int16? -   device id
  null_stream  int64? -   stream id of the default stream
  api          word   -   cuda, opencl, or the name of another backend
  process      int32  -   process id in the trace

stream Streams and queues.
  stream       int64  -   id, unique within the context
  context      int32  -   context id
  device       int16? -   device id
  priority     int32? -   as reported
  flags        int32? -   vendor's flags
  name         text?   -  name
  process      int32  -   process id in the trace

module Loaded device code.
  module       int32  -   id, unique within the process
  name         text?   -  path or other name
  checksum     uint64? -  of the image
  bytes        int64? B   of the image
  context      int32? -   context id
  device       int16? -   device id
  time         int64? ns  when loaded
  process      int32  -   process id in the trace

attribute Raw fields of foreign rows that fit no column.
  table        string -   table of the row
  row          int64  -   ordinal of the row in source order
  key          text   -   field
  value        text   -   JSON value
  process      int32? -   process id in the trace

collective Collective operations with their sizes, if a source has them.
  start        int64? ns  begin
  duration     int64? ns  end - start
  operation    word   -   all-reduce, all-gather, …
  bytes        int64? B   payload
  dtype        word?   -  element type
  ranks        int32? -   size of the group
  group        text?   -  group name
  correlation  int64? id  joins kernel
  process      int32  -   process id in the trace
  sequence     int64? -   number of the operation in its group, if the source has it
  members      string? -  JSON list of the group's ranks
  peer         int32? -   the other rank of a send or receive, in the group's numbers
  rank         int32? -   rank of this process in the group
  root         int32? -   rank that sends or gets all, in the group's numbers
  algorithm    word?   -  ring, tree, nvls, …
  protocol     word?   -  ll, ll128, simple
  channels     int32? -   channels of NCCL's kernel
  call         word?   -  call that a send or receive is part of: all-to-all, gather, scatter
  id           int64? id  names it in collective_part, unique in its process

collective_part[start] What collectives consisted of while they ran, as NCCL reports it (`record --nccl on`).
  start        int64  ns  begin
  duration     int64  ns  end - start
  kind         string -   channel of the kernel, proxy operation or network step
  collective   int64? id  collective.id
  channel      int32  -   number
  peer         int32? -   rank at the other end
  direction    string? -  send or receive
  step         int32? -   number of a network step; how many a proxy operation has
  bytes        int64? B   transferred
  wait_device  int64? ns  part in which a step waited for the GPU
  wait_peer    int64? ns  for the other rank's buffers
  wait_network int64? ns  for the network
  process      int32  -   process id in the trace

loss What is missing from the trace, and notes about how it was taken.
  time         int64? ns  when noticed
  source       word   -   who lost it: ring, drainer, cupti, stacks, converter, …
  cause        text   -   why, as a sentence
  count        int64  -   rows, buffers or bytes
  kind         word?   -  record kind concerned
  severity     string -   note, lost, ended
  start        int64? ns  first moment concerned
  end          int64? ns  last moment concerned
  process      int32? -   process id in the trace

clock Pairs of clock readings.
  monotonic    int64  ns  CLOCK_MONOTONIC
  realtime     int64  ns  CLOCK_REALTIME at the same moment
  device_time  int64? ns  device clock at the same moment
  device       int16? -   device id
  uncertainty  int64? ns  of the pair
  process      int32? -   process id in the trace
""",
)

#: Columns that older traces lack, where they read as null.
LATER = {
    "collective": (
        "sequence",
        "members",
        "peer",
        "rank",
        "root",
        "algorithm",
        "protocol",
        "channels",
        "call",
        "id",
    )
}
