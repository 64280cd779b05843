"""The record kinds that other rows refer to: strings, frames, stacks, shapes, devices, graphs."""

from __future__ import annotations

from warpsight.capture.segments.packed import Struct, kinds

DEFINITIONS: tuple[Struct, ...] = kinds(
    """
1 String blocks=64 variable
  u4 id      from 1, unique in the arena
  u4 length  bytes that follow (UTF-8), padded with zeros to a multiple of 8

2 Frame blocks=64
  u4 id        from 1, unique in the arena
  u4 function  string: qualified name
  u4 file      string: path, or module of a native frame
  u4 line      line of the call; 0 unknown
  u8 address   offset in the module of a native frame, else 0
  u2 kind      FRAME_*
  u2 reserved0 zero
  u4 build_id  string: build id of a native frame's module, else 0

3 Stack blocks=128
  u4 id      from 1, unique in the arena
  u4 parent  stack id of the caller, 0 at the root
  u4 frame   frame id of this, the inner, frame
  u1 method  STACK_*: how it was taken
  u1 flags   1 = cut: outer frames beyond the depth limit are missing
  u2 reserved0 zero

4 Shape blocks=16
  u4 id              from 1, unique in the arena
  i4 grid_x          blocks (OpenCL: work-groups; global size / local size)
  i4 grid_y          same
  i4 grid_z          same
  i4 block_x         threads of a block
  i4 block_y         same
  i4 block_z         same
  u4 cluster_x       blocks of a cluster, 0 when there are no clusters
  u4 cluster_y       same
  u4 cluster_z       same
  u4 registers       per thread
  u4 shared_static   bytes per block
  u4 shared_dynamic  bytes per block
  u4 local_per_thread bytes
  u4 launch_type     0 regular, 1 cooperative single device, 2 multi-device, 3 device-launched
  u4 shared_config   CUPTI's executed shared-memory carve-out, bytes

5 Process
  u4 pid         process id as the process sees it
  u4 parent      parent's process id
  u8 time        when recording began in it
  u4 command     string: command line, NUL-separated
  u4 executable  string
  u4 host        string: host name
  u4 environment string: allow-listed NAME=value lines
  i4 rank        RANK / OMPI_COMM_WORLD_RANK / SLURM_PROCID, -1 unknown
  i4 local_rank  LOCAL_RANK and the like, -1 unknown
  i4 world_size  -1 unknown
  u4 settings    string: JSON of the recorder's effective settings and library versions

6 Thread
  u4 thread    OS thread id
  u4 name      string
  u8 time      first seen

7 Device
  u4 device         index in this process
  u4 name           string
  u4 uuid           string "GPU-…" or another vendor's unique id
  u4 vendor         string
  u4 pci            string domain:bus:device.function
  u4 platform       BACKEND_*
  u8 memory_bytes   total
  u8 memory_bandwidth bytes/s, 0 unknown
  u4 multiprocessors  SMs / compute units
  u4 compute_major  0 unknown
  u4 compute_minor  0 unknown
  u4 warp_size      threads
  u4 registers_per_multiprocessor 32-bit registers
  u4 shared_per_multiprocessor bytes
  u4 threads_per_multiprocessor maximum resident
  u4 blocks_per_multiprocessor  maximum resident
  u4 clock_khz      maximum core clock
  u4 memory_clock_khz maximum
  u4 driver         string
  u4 runtime        string

8 Context
  u4 context   recorder's context id
  u4 device    device index
  u8 time      first seen
  u4 null_stream stream id of the default stream
  u4 api       BACKEND_*

9 Stream
  u4 context   context id
  u4 stream    stream (or queue) id
  u4 priority  as reported
  u4 flags     vendor's flags
  u4 name      string, 0 none
  u4 device    device index
  u8 time      first seen

10 Module
  u4 id        from 1, unique in the arena
  u4 name      string: path or other name
  u8 checksum  CRC of the image, 0 unknown
  u8 size      bytes of the image
  u4 context   context id
  u4 device    device index
  u8 time      when it was loaded

11 Graph
  u4 graph       graph id
  u4 original    graph it was cloned or instantiated from, 0 none
  u4 flags       1 executable, 2 destroyed
  u4 stack       where it was made
  u8 time        when

12 GraphNode blocks=64
  u8 node      node id as kernel rows carry it
  u8 original  node it was cloned from, 0 none
  u4 graph     graph id
  u4 type      CUgraphNodeType
  u4 stack     where it was captured or added; 0 when before the recording
  u4 flags     1 destroyed
  u8 time      when

13 GraphEdge blocks=16
  u8 from_node  node id
  u8 to_node    node id
  u8 time       when
  u4 graph      graph id
  u4 type       0 full, 1 programmatic

14 ApiFunction
  u4 domain    API_*, of an API whose function numbers the recorder gives as functions appear
  u4 number    as in Api rows
  u4 name      string
  u4 reserved0 zero

15 NodeAddress
  u8 node         node id as copy and fill rows carry it
  u8 source       address it reads, 0 none or unknown
  u8 destination  address it writes, 0 unknown
  u8 time         since when
""",
    definition=True,
)
