// Reads, writes and copies of buffers, whole and rectangular; migration.
#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

uint64_t volume(const size_t* region) {
  return region ? static_cast<uint64_t>(region[0]) * region[1] * region[2] : 0;
}

Request copy_request(ClFunction function, cl_command_queue queue, uint64_t bytes, CopyKind kind,
                     MemoryKind source, MemoryKind destination, cl_uint wait_count, const cl_event* waits,
                     bool blocking = false) {
  Request request{function, queue, wait_count, waits, blocking};
  request.work = Work::copy;
  request.bytes = bytes;
  request.copy = kind;
  request.source = source;
  request.destination = destination;
  // A blocking write returns when the host's memory may be reused, which need not be the end of the command.
  request.ends_before_return = blocking && kind == kDtoH;
  return request;
}

cl_int CL_API_CALL layer_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                             size_t offset, size_t size, void* pointer, cl_uint count,
                                             const cl_event* waits, cl_event* event) {
  if (!recording()) {
    return g_cl.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, pointer, count, waits, event);
  }
  auto request = copy_request(WS_CL(clEnqueueReadBuffer), queue, size, kDtoH, kDeviceMemory, kPageable, count,
                              waits, blocking != CL_FALSE);
  return record_enqueue(request, event, [&](cl_event* place) {
    return g_cl.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, pointer, count, waits, place);
  });
}

cl_int CL_API_CALL layer_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                              size_t offset, size_t size, const void* pointer, cl_uint count,
                                              const cl_event* waits, cl_event* event) {
  if (!recording()) {
    return g_cl.clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, pointer, count, waits, event);
  }
  auto request = copy_request(WS_CL(clEnqueueWriteBuffer), queue, size, kHtoD, kPageable, kDeviceMemory,
                              count, waits, blocking != CL_FALSE);
  return record_enqueue(request, event, [&](cl_event* place) {
    return g_cl.clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, pointer, count, waits, place);
  });
}

cl_int CL_API_CALL layer_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem destination,
                                             size_t source_offset, size_t destination_offset, size_t size,
                                             cl_uint count, const cl_event* waits, cl_event* event) {
  if (!recording()) {
    return g_cl.clEnqueueCopyBuffer(queue, source, destination, source_offset, destination_offset, size,
                                    count, waits, event);
  }
  auto request = copy_request(WS_CL(clEnqueueCopyBuffer), queue, size, kDtoD, kDeviceMemory, kDeviceMemory,
                              count, waits);
  return record_enqueue(request, event, [&](cl_event* place) {
    return g_cl.clEnqueueCopyBuffer(queue, source, destination, source_offset, destination_offset, size,
                                    count, waits, place);
  });
}

cl_int CL_API_CALL layer_clEnqueueReadBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                 const size_t* buffer_origin, const size_t* host_origin,
                                                 const size_t* region, size_t buffer_row, size_t buffer_slice,
                                                 size_t host_row, size_t host_slice, void* pointer,
                                                 cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueReadBufferRect(queue, buffer, blocking, buffer_origin, host_origin, region,
                                        buffer_row, buffer_slice, host_row, host_slice, pointer, count, waits,
                                        place);
  };
  if (!recording()) return call(event);
  auto request = copy_request(WS_CL(clEnqueueReadBufferRect), queue, volume(region), kDtoH, kDeviceMemory,
                              kPageable, count, waits, blocking != CL_FALSE);
  return record_enqueue(request, event, call);
}

cl_int CL_API_CALL layer_clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                  const size_t* buffer_origin, const size_t* host_origin,
                                                  const size_t* region, size_t buffer_row,
                                                  size_t buffer_slice, size_t host_row, size_t host_slice,
                                                  const void* pointer, cl_uint count, const cl_event* waits,
                                                  cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueWriteBufferRect(queue, buffer, blocking, buffer_origin, host_origin, region,
                                         buffer_row, buffer_slice, host_row, host_slice, pointer, count,
                                         waits, place);
  };
  if (!recording()) return call(event);
  auto request = copy_request(WS_CL(clEnqueueWriteBufferRect), queue, volume(region), kHtoD, kPageable,
                              kDeviceMemory, count, waits, blocking != CL_FALSE);
  return record_enqueue(request, event, call);
}

cl_int CL_API_CALL layer_clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem source, cl_mem destination,
                                                 const size_t* source_origin,
                                                 const size_t* destination_origin, const size_t* region,
                                                 size_t source_row, size_t source_slice,
                                                 size_t destination_row, size_t destination_slice,
                                                 cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueCopyBufferRect(queue, source, destination, source_origin, destination_origin, region,
                                        source_row, source_slice, destination_row, destination_slice, count,
                                        waits, place);
  };
  if (!recording()) return call(event);
  auto request = copy_request(WS_CL(clEnqueueCopyBufferRect), queue, volume(region), kDtoD, kDeviceMemory,
                              kDeviceMemory, count, waits);
  return record_enqueue(request, event, call);
}

cl_int CL_API_CALL layer_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint objects,
                                                    const cl_mem* memory, cl_mem_migration_flags flags,
                                                    cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueMigrateMemObjects(queue, objects, memory, flags, count, waits, place);
  };
  if (!recording()) return call(event);
  uint64_t bytes = 0;
  bool undefined = flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;  // then nothing is copied
  for (cl_uint i = 0; memory && !undefined && i < objects; ++i) {
    size_t size = 0;
    if (g_cl.clGetMemObjectInfo(memory[i], CL_MEM_SIZE, sizeof(size), &size, nullptr) == CL_SUCCESS)
      bytes += size;
  }
  bool to_host = flags & CL_MIGRATE_MEM_OBJECT_HOST;
  auto request = copy_request(WS_CL(clEnqueueMigrateMemObjects), queue, bytes, to_host ? kDtoH : kHtoD,
                              to_host ? kDeviceMemory : kMemoryUnknown, to_host ? kPageable : kDeviceMemory,
                              count, waits);
  return record_enqueue(request, event, call);
}

}  // namespace

void wrap_buffer_copies(cl_icd_dispatch* table) {
  WS_WRAP(table, clEnqueueReadBuffer);
  WS_WRAP(table, clEnqueueWriteBuffer);
  WS_WRAP(table, clEnqueueCopyBuffer);
  WS_WRAP(table, clEnqueueReadBufferRect);
  WS_WRAP(table, clEnqueueWriteBufferRect);
  WS_WRAP(table, clEnqueueCopyBufferRect);
  WS_WRAP(table, clEnqueueMigrateMemObjects);
}

}  // namespace warpsight
