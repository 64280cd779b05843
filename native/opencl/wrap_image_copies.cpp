// Reads, writes and copies of images.
#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

uint64_t image_bytes(cl_mem image, const size_t* region) {
  size_t element = 0;
  if (!region ||
      g_cl.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element, nullptr) != CL_SUCCESS) {
    return 0;
  }
  return static_cast<uint64_t>(region[0]) * region[1] * region[2] * element;
}

Request image_request(ClFunction function, cl_command_queue queue, cl_mem image, const size_t* region,
                      CopyKind kind, cl_uint wait_count, const cl_event* waits, cl_bool blocking = CL_FALSE) {
  Request request{function, queue, wait_count, waits, blocking != CL_FALSE};
  request.work = Work::copy;
  request.bytes = image_bytes(image, region);
  request.copy = kind;
  request.source = kind == kHtoA ? kPageable : kind == kDtoA ? kDeviceMemory : kArray;
  request.destination = kind == kAtoH ? kPageable : kind == kAtoD ? kDeviceMemory : kArray;
  request.ends_before_return = request.blocking && kind == kAtoH;
  return request;
}

cl_int CL_API_CALL layer_clEnqueueReadImage(cl_command_queue queue, cl_mem image, cl_bool blocking,
                                            const size_t* origin, const size_t* region, size_t row,
                                            size_t slice, void* pointer, cl_uint count, const cl_event* waits,
                                            cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueReadImage(queue, image, blocking, origin, region, row, slice, pointer, count, waits,
                                   place);
  };
  if (!recording()) return call(event);
  return record_enqueue(
      image_request(WS_CL(clEnqueueReadImage), queue, image, region, kAtoH, count, waits, blocking), event,
      call);
}

cl_int CL_API_CALL layer_clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool blocking,
                                             const size_t* origin, const size_t* region, size_t row,
                                             size_t slice, const void* pointer, cl_uint count,
                                             const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueWriteImage(queue, image, blocking, origin, region, row, slice, pointer, count, waits,
                                    place);
  };
  if (!recording()) return call(event);
  return record_enqueue(
      image_request(WS_CL(clEnqueueWriteImage), queue, image, region, kHtoA, count, waits, blocking), event,
      call);
}

cl_int CL_API_CALL layer_clEnqueueCopyImage(cl_command_queue queue, cl_mem source, cl_mem destination,
                                            const size_t* source_origin, const size_t* destination_origin,
                                            const size_t* region, cl_uint count, const cl_event* waits,
                                            cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueCopyImage(queue, source, destination, source_origin, destination_origin, region,
                                   count, waits, place);
  };
  if (!recording()) return call(event);
  return record_enqueue(image_request(WS_CL(clEnqueueCopyImage), queue, source, region, kAtoA, count, waits),
                        event, call);
}

cl_int CL_API_CALL layer_clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem image, cl_mem buffer,
                                                    const size_t* origin, const size_t* region, size_t offset,
                                                    cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueCopyImageToBuffer(queue, image, buffer, origin, region, offset, count, waits, place);
  };
  if (!recording()) return call(event);
  return record_enqueue(
      image_request(WS_CL(clEnqueueCopyImageToBuffer), queue, image, region, kAtoD, count, waits), event,
      call);
}

cl_int CL_API_CALL layer_clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem buffer, cl_mem image,
                                                    size_t offset, const size_t* origin, const size_t* region,
                                                    cl_uint count, const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueCopyBufferToImage(queue, buffer, image, offset, origin, region, count, waits, place);
  };
  if (!recording()) return call(event);
  return record_enqueue(
      image_request(WS_CL(clEnqueueCopyBufferToImage), queue, image, region, kDtoA, count, waits), event,
      call);
}

}  // namespace

void wrap_image_copies(cl_icd_dispatch* table) {
  WS_WRAP(table, clEnqueueReadImage);
  WS_WRAP(table, clEnqueueWriteImage);
  WS_WRAP(table, clEnqueueCopyImage);
  WS_WRAP(table, clEnqueueCopyImageToBuffer);
  WS_WRAP(table, clEnqueueCopyBufferToImage);
}

}  // namespace warpsight
