"""Tables of work on the device: kernels, copies, sets, synchronization, events."""

from __future__ import annotations

from warpsight.model.schema.columns import tables

_WHERE = """
device       int16? -   device id (table device)
context      int32  -   context id, unique within the process
stream       int64  -   stream or queue id, unique within the context
correlation  int64? id  joins the launch or api row, together with process
process      int32  -   process id in the trace
"""

TABLES = tables(
    """
kernel[start] One kernel execution; null times: it was launched but no GPU record ever arrived.
  start        int64? ns  begin on the device, CLOCK_MONOTONIC of the host
  duration     int64? ns  end - start
  name_id      int32? -   kernel name (table name)
  shape_id     int32? -   launch shape (table shape)
  @where
  stack        int32? -   host stack of the launch, or of the graph node's creation (table stack)
  graph        int32? -   graph id
  graph_node   int64? id  graph node id
  graph_level  bool   -   true: the row is a whole graph launch that was not expanded
  module       int32? -   module id
  queued       int64? ns  when the command entered the software queue
  submitted    int64? ns  when it was submitted to the device

memcpy[start] One copy on the device's copy engines or by kernel.
  start        int64  ns  begin
  duration     int64  ns  end - start
  bytes        int64  B   copied
  kind         string -   HtoD, DtoH, DtoD, PtoP, HtoH, HtoA, AtoH, AtoA, AtoD, DtoA, unknown
  source_kind  string -   memory kind read: pageable, pinned, device, array, managed, device static, managed static, unknown
  destination_kind string - memory kind written
  asynchronous bool   -   issued by an asynchronous call
  source_device      int16? - device id of a peer copy
  destination_device int16? - device id of a peer copy
  @where
  stack        int32? -   host stack (table stack)
  graph        int32? -   graph id
  graph_node   int64? id  graph node id
  source_address      uint64? - address read, if the source has it
  destination_address uint64? - address written, if the source has it

memset[start] One fill.
  start        int64  ns  begin
  duration     int64  ns  end - start
  bytes        int64  B   set
  value        int64  -   pattern
  memory_kind  string -   as in memcpy
  asynchronous bool   -   issued by an asynchronous call
  @where
  stack        int32? -   host stack (table stack)
  graph        int32? -   graph id
  graph_node   int64? id  graph node id
  address      uint64? -  address written, if the source has it

sync[start] The host, or a stream, waited.
  start        int64  ns  start of the wait
  duration     int64  ns  end - start
  kind         string -   event, stream wait event, stream, context, finish, wait for events, blocking call
  event        int64? -   event id
  event_sync   int64? id  ties a wait to the record it waits for (table event)
  result       int32? -   return code
  @where

event[correlation] An event was recorded into a stream.
  time         int64? ns  when, if known
  event        int64  -   event id
  event_sync   int64? id  ties waits to this record
  @where

graph A CUDA graph or executable graph.
  graph        int32  -   graph id, unique within the process
  original     int32? -   the graph it was instantiated or cloned from
  executable   bool   -   an instantiated graph
  stack        int32? -   where it was made
  time         int64  ns  when
  process      int32  -   process id in the trace

graph_node A node of a graph.
  graph_node   int64  id  node id
  original     int64? id  the node it was cloned from
  graph        int32  -   graph id
  kind         string -   kernel, memcpy, memset, host, graph, empty, wait event, record event, …
  stack        int32? -   where it was captured or added
  time         int64  ns  when
  process      int32  -   process id in the trace

graph_edge A dependency between two nodes.
  from_node    int64  id  node id
  to_node      int64  id  node id
  graph        int32  -   graph id
  process      int32  -   process id in the trace
""",
    where=_WHERE,
)

#: Columns that older traces lack, where they read as null.
LATER = {"memcpy": ("source_address", "destination_address"), "memset": ("address",)}

#: Columns that older traces store in 32 bits; they read as 64.
WIDENED = {
    **dict.fromkeys(("kernel", "memcpy", "memset", "sync", "event", "memory", "stream"), ("stream",)),
    "context": ("null_stream",),
}
