// Device side of event traces: the functions that the Sanitizer's patches call before (or after) an
// instruction.
//
// Each takes part as one warp: the lanes that called together write one record (event_format.h) to a ring in
// host memory and wait while the ring is full, so nothing is lost. patches.ptx is what is shipped, made from
// this file by scripts/generate_patches.py; the user's machine assembles it for its own GPU.
//
// The patches themselves have no branches, and leave all decisions to ws_record: a patch with a convergence
// barrier of its own, within a function that the kernel calls, ended in an illegal memory access (sm_90,
// driver 580).
#include "sanitizer/check_patches.cuh"
#include "sanitizer/record_patches.cuh"
#include "sanitizer/visit_patches.cuh"
