// Fills of buffers and images.
#include <algorithm>
#include <cstring>

#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

Request fill_request(ClFunction function, cl_command_queue queue, uint64_t bytes, MemoryKind memory,
                     const void* pattern, size_t pattern_bytes, cl_uint count, const cl_event* waits) {
  Request request{function, queue, count, waits};
  request.work = Work::fill;
  request.bytes = bytes;
  request.source = memory;
  if (pattern) memcpy(&request.value, pattern, std::min(pattern_bytes, sizeof(request.value)));
  return request;
}

cl_int CL_API_CALL layer_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern,
                                             size_t pattern_size, size_t offset, size_t size, cl_uint count,
                                             const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, count, waits, place);
  };
  if (!recording()) return call(event);
  return record_enqueue(fill_request(WS_CL(clEnqueueFillBuffer), queue, size, kDeviceMemory, pattern,
                                     pattern_size, count, waits),
                        event, call);
}

cl_int CL_API_CALL layer_clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void* color,
                                            const size_t* origin, const size_t* region, cl_uint count,
                                            const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueFillImage(queue, image, color, origin, region, count, waits, place);
  };
  if (!recording()) return call(event);
  size_t element = 0;
  g_cl.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element, nullptr);
  uint64_t bytes = region ? static_cast<uint64_t>(region[0]) * region[1] * region[2] * element : 0;
  return record_enqueue(fill_request(WS_CL(clEnqueueFillImage), queue, bytes, kArray, color, 4, count, waits),
                        event, call);
}

cl_int CL_API_CALL layer_clEnqueueSVMMemFill(cl_command_queue queue, void* pointer, const void* pattern,
                                             size_t pattern_size, size_t size, cl_uint count,
                                             const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueSVMMemFill(queue, pointer, pattern, pattern_size, size, count, waits, place);
  };
  if (!recording()) return call(event);
  return record_enqueue(
      fill_request(WS_CL(clEnqueueSVMMemFill), queue, size, kManaged, pattern, pattern_size, count, waits),
      event, call);
}

}  // namespace

void wrap_fills(cl_icd_dispatch* table) {
  WS_WRAP(table, clEnqueueFillBuffer);
  WS_WRAP(table, clEnqueueFillImage);
  WS_WRAP(table, clEnqueueSVMMemFill);
}

}  // namespace warpsight
