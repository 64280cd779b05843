// Mapping buffers and images into the host's memory and back. A map is a copy to the host, an unmap one to
// the device; `bytes` is what the mapping makes visible, 0 if the program said that the contents do not
// matter.
#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

struct Mapping {
  uint64_t bytes;
  bool written;
  bool image;
};
HandleMap<Mapping>& mappings() {
  static auto& map = *new HandleMap<Mapping>;
  return map;
}

bool reads(cl_map_flags flags) { return !(flags & CL_MAP_WRITE_INVALIDATE_REGION); }
bool writes(cl_map_flags flags) { return flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION); }

Request map_request(ClFunction function, cl_command_queue queue, uint64_t bytes, bool image, bool to_host,
                    cl_bool blocking, cl_uint count, const cl_event* waits) {
  Request request{function, queue, count, waits, blocking != CL_FALSE};
  MemoryKind memory = image ? kArray : kDeviceMemory;
  request.work = Work::copy;
  request.bytes = bytes;
  request.copy = image ? (to_host ? kAtoH : kHtoA) : (to_host ? kDtoH : kHtoD);
  request.source = to_host ? memory : kPinned;
  request.destination = to_host ? kPinned : memory;
  request.ends_before_return = request.blocking;
  return request;
}

void* CL_API_CALL layer_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                           cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                                           const cl_event* waits, cl_event* event, cl_int* error) {
  if (!recording()) {
    return g_cl.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, waits, event, error);
  }
  void* pointer = nullptr;
  auto request = map_request(WS_CL(clEnqueueMapBuffer), queue, reads(flags) ? size : 0, false, true, blocking,
                             count, waits);
  cl_int result = record_enqueue(request, event, [&](cl_event* place) {
    cl_int code = CL_SUCCESS;
    pointer =
        g_cl.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, waits, place, &code);
    return code;
  });
  if (pointer) mappings().put(pointer, {size, writes(flags), false});
  if (error) *error = result;
  return pointer;
}

uint64_t mapped_image_bytes(cl_mem image, const size_t* region) {
  size_t element = 0;
  g_cl.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element, nullptr);
  return region ? static_cast<uint64_t>(region[0]) * region[1] * region[2] * element : 0;
}

void* CL_API_CALL layer_clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_bool blocking,
                                          cl_map_flags flags, const size_t* origin, const size_t* region,
                                          size_t* row, size_t* slice, cl_uint count, const cl_event* waits,
                                          cl_event* event, cl_int* error) {
  if (!recording()) {
    return g_cl.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice, count, waits,
                                  event, error);
  }
  void* pointer = nullptr;
  uint64_t bytes = mapped_image_bytes(image, region);
  auto request = map_request(WS_CL(clEnqueueMapImage), queue, reads(flags) ? bytes : 0, true, true, blocking,
                             count, waits);
  cl_int result = record_enqueue(request, event, [&](cl_event* place) {
    cl_int code = CL_SUCCESS;
    pointer = g_cl.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice, count, waits,
                                     place, &code);
    return code;
  });
  if (pointer) mappings().put(pointer, {bytes, writes(flags), true});
  if (error) *error = result;
  return pointer;
}

cl_int CL_API_CALL layer_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory, void* pointer,
                                                 cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueUnmapMemObject(queue, memory, pointer, count, waits, place);
  };
  if (!recording()) return call(event);
  Mapping mapping{};
  mappings().get(pointer, &mapping);
  auto request = map_request(WS_CL(clEnqueueUnmapMemObject), queue, mapping.written ? mapping.bytes : 0,
                             mapping.image, false, CL_FALSE, count, waits);
  return record_enqueue(request, event, call);
}

}  // namespace

void wrap_maps(cl_icd_dispatch* table) {
  WS_WRAP(table, clEnqueueMapBuffer);
  WS_WRAP(table, clEnqueueMapImage);
  WS_WRAP(table, clEnqueueUnmapMemObject);
}

}  // namespace warpsight
