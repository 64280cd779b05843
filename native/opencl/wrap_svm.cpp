// Shared virtual memory: allocations, copies, maps, migration. (Fills are with the other fills.)
#include <map>

#include "command.h"
#include "memory.h"
#include "wrappers.h"

namespace warpsight {
namespace {

SpinLock g_ranges_lock;  // protects the map of allocations: address -> bytes
std::map<uintptr_t, size_t>& ranges() {
  static auto& map = *new std::map<uintptr_t, size_t>;
  return map;
}

bool is_svm(const void* pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  LockGuard guard(g_ranges_lock);
  auto after = ranges().upper_bound(address);
  if (after == ranges().begin()) return false;
  --after;
  return address < after->first + after->second;
}

size_t forget_range(const void* pointer) {
  LockGuard guard(g_ranges_lock);
  auto found = ranges().find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges().end()) return 0;
  size_t bytes = found->second;
  ranges().erase(found);
  return bytes;
}

Request svm_request(ClFunction function, cl_command_queue queue, uint64_t bytes, CopyKind kind,
                    MemoryKind source, MemoryKind destination, cl_bool blocking, cl_uint count,
                    const cl_event* waits) {
  Request request{function, queue, count, waits, blocking != CL_FALSE};
  request.ends_before_return = request.blocking;
  request.work = Work::copy;
  request.bytes = bytes;
  request.copy = kind;
  request.source = source;
  request.destination = destination;
  return request;
}

void* CL_API_CALL layer_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size,
                                   cl_uint alignment) {
  HostCall call(WS_CL(clSVMAlloc), 0, size);
  void* pointer = g_cl.clSVMAlloc(context, flags, size, alignment);
  if (!pointer || g_cl_forked) return pointer;
  {
    LockGuard guard(g_ranges_lock);
    ranges()[reinterpret_cast<uintptr_t>(pointer)] = size;
  }
  if (!recording()) return pointer;
  call.object = reinterpret_cast<uint64_t>(pointer);
  call.finish(CL_SUCCESS);
  write_memory(call, 1, call.object, size, context, kManaged);
  return pointer;
}

void CL_API_CALL layer_clSVMFree(cl_context context, void* pointer) {
  if (g_cl_forked) return g_cl.clSVMFree(context, pointer);
  size_t bytes = forget_range(pointer);
  HostCall call(WS_CL(clSVMFree), reinterpret_cast<uint64_t>(pointer), bytes);
  g_cl.clSVMFree(context, pointer);
  if (!recording() || !pointer) return;
  call.finish(CL_SUCCESS);
  write_memory(call, 2, call.object, bytes, context, kManaged);
}

cl_int CL_API_CALL layer_clEnqueueSVMFree(cl_command_queue queue, cl_uint pointers, void** list,
                                          void(CL_CALLBACK* free_function)(cl_command_queue, cl_uint, void**,
                                                                           void*),
                                          void* data, cl_uint count, const cl_event* waits, cl_event* event) {
  auto pass = [&](cl_event* place) {
    return g_cl.clEnqueueSVMFree(queue, pointers, list, free_function, data, count, waits, place);
  };
  if (!recording()) return pass(event);
  Request request{WS_CL(clEnqueueSVMFree), queue, count, waits};
  cl_int result = record_enqueue(request, event, pass);
  // With a callback the program frees them itself, through clSVMFree.
  for (cl_uint i = 0; result == CL_SUCCESS && !free_function && list && i < pointers; ++i) {
    HostCall call(request.function);
    write_memory(call, 2, reinterpret_cast<uint64_t>(list[i]), forget_range(list[i]), nullptr, kManaged);
  }
  return result;
}

cl_int CL_API_CALL layer_clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void* destination,
                                            const void* source, size_t size, cl_uint count,
                                            const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueSVMMemcpy(queue, blocking, destination, source, size, count, waits, place);
  };
  if (!recording()) return call(event);
  bool from = is_svm(source), to = is_svm(destination);
  CopyKind kind = from ? (to ? kDtoD : kDtoH) : (to ? kHtoD : kHtoH);
  return record_enqueue(svm_request(WS_CL(clEnqueueSVMMemcpy), queue, size, kind, from ? kManaged : kPageable,
                                    to ? kManaged : kPageable, blocking, count, waits),
                        event, call);
}

cl_int CL_API_CALL layer_clEnqueueSVMMap(cl_command_queue queue, cl_bool blocking, cl_map_flags flags,
                                         void* pointer, size_t size, cl_uint count, const cl_event* waits,
                                         cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueSVMMap(queue, blocking, flags, pointer, size, count, waits, place);
  };
  if (!recording()) return call(event);
  uint64_t bytes = flags & CL_MAP_WRITE_INVALIDATE_REGION ? 0 : size;
  return record_enqueue(
      svm_request(WS_CL(clEnqueueSVMMap), queue, bytes, kDtoH, kManaged, kManaged, blocking, count, waits),
      event, call);
}

cl_int CL_API_CALL layer_clEnqueueSVMUnmap(cl_command_queue queue, void* pointer, cl_uint count,
                                           const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) { return g_cl.clEnqueueSVMUnmap(queue, pointer, count, waits, place); };
  if (!recording()) return call(event);
  return record_enqueue(
      svm_request(WS_CL(clEnqueueSVMUnmap), queue, 0, kHtoD, kManaged, kManaged, CL_FALSE, count, waits),
      event, call);
}

cl_int CL_API_CALL layer_clEnqueueSVMMigrateMem(cl_command_queue queue, cl_uint pointers, const void** list,
                                                const size_t* sizes, cl_mem_migration_flags flags,
                                                cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueSVMMigrateMem(queue, pointers, list, sizes, flags, count, waits, place);
  };
  if (!recording()) return call(event);
  uint64_t bytes = 0;
  for (cl_uint i = 0; sizes && i < pointers; ++i) bytes += sizes[i];
  bool to_host = flags & CL_MIGRATE_MEM_OBJECT_HOST;
  return record_enqueue(svm_request(WS_CL(clEnqueueSVMMigrateMem), queue, bytes, to_host ? kDtoH : kHtoD,
                                    kManaged, kManaged, CL_FALSE, count, waits),
                        event, call);
}

}  // namespace

void wrap_svm(cl_icd_dispatch* table) {
  WS_WRAP(table, clSVMAlloc);
  WS_WRAP(table, clSVMFree);
  WS_WRAP(table, clEnqueueSVMFree);
  WS_WRAP(table, clEnqueueSVMMemcpy);
  WS_WRAP(table, clEnqueueSVMMap);
  WS_WRAP(table, clEnqueueSVMUnmap);
  WS_WRAP(table, clEnqueueSVMMigrateMem);
}

}  // namespace warpsight
