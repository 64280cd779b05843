// Buffers, images and pipes: their creation and release. `address` is the cl_mem handle, since OpenCL has no
// other address.
#include "memory.h"
#include "wrappers.h"

namespace warpsight {
namespace {

struct Allocation {
  uint64_t bytes;
  cl_context context;
  MemoryKind kind;
  int32_t references;  // the program's
};
HandleMap<Allocation>& allocations() {
  static auto& map = *new HandleMap<Allocation>;
  return map;
}

MemoryKind kind_of(cl_mem_flags flags) {
  return flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_USE_HOST_PTR) ? kPinned : kDeviceMemory;
}

// Makes a memory object through `create`, which takes the place of the error code.
template <class Create>
cl_mem allocate(ClFunction function, cl_context context, cl_mem_flags flags, bool image, cl_int* error,
                Create create) {
  if (g_cl_forked) return create(error);
  HostCall call(function);
  cl_int code = CL_SUCCESS;
  cl_mem memory = create(&code);
  call.returned = now_ns();
  if (error) *error = code;
  size_t size = 0;
  if (memory) {
    g_cl.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(size), &size, nullptr);
    allocations().put(memory, {size, context, image ? kArray : kind_of(flags), 1});
  }
  if (!recording()) return memory;
  call.object = reinterpret_cast<uint64_t>(memory);
  call.bytes = size;
  call.finish(code);
  if (memory) write_memory(call, 1, call.object, size, context, image ? kArray : kind_of(flags));
  return memory;
}

cl_mem CL_API_CALL layer_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host,
                                        cl_int* error) {
  return allocate(WS_CL(clCreateBuffer), context, flags, false, error,
                  [&](cl_int* code) { return g_cl.clCreateBuffer(context, flags, size, host, code); });
}

cl_mem CL_API_CALL layer_clCreateBufferWithProperties(cl_context context, const cl_mem_properties* properties,
                                                      cl_mem_flags flags, size_t size, void* host,
                                                      cl_int* error) {
  return allocate(WS_CL(clCreateBufferWithProperties), context, flags, false, error, [&](cl_int* code) {
    return g_cl.clCreateBufferWithProperties(context, properties, flags, size, host, code);
  });
}

cl_mem CL_API_CALL layer_clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format* format,
                                       const cl_image_desc* description, void* host, cl_int* error) {
  return allocate(WS_CL(clCreateImage), context, flags, true, error, [&](cl_int* code) {
    return g_cl.clCreateImage(context, flags, format, description, host, code);
  });
}

cl_mem CL_API_CALL layer_clCreateImageWithProperties(cl_context context, const cl_mem_properties* properties,
                                                     cl_mem_flags flags, const cl_image_format* format,
                                                     const cl_image_desc* description, void* host,
                                                     cl_int* error) {
  return allocate(WS_CL(clCreateImageWithProperties), context, flags, true, error, [&](cl_int* code) {
    return g_cl.clCreateImageWithProperties(context, properties, flags, format, description, host, code);
  });
}

cl_mem CL_API_CALL layer_clCreateImage2D(cl_context context, cl_mem_flags flags,
                                         const cl_image_format* format, size_t width, size_t height,
                                         size_t row, void* host, cl_int* error) {
  return allocate(WS_CL(clCreateImage2D), context, flags, true, error, [&](cl_int* code) {
    return g_cl.clCreateImage2D(context, flags, format, width, height, row, host, code);
  });
}

cl_mem CL_API_CALL layer_clCreateImage3D(cl_context context, cl_mem_flags flags,
                                         const cl_image_format* format, size_t width, size_t height,
                                         size_t depth, size_t row, size_t slice, void* host, cl_int* error) {
  return allocate(WS_CL(clCreateImage3D), context, flags, true, error, [&](cl_int* code) {
    return g_cl.clCreateImage3D(context, flags, format, width, height, depth, row, slice, host, code);
  });
}

cl_mem CL_API_CALL layer_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint packet, cl_uint packets,
                                      const cl_pipe_properties* properties, cl_int* error) {
  return allocate(WS_CL(clCreatePipe), context, flags, false, error, [&](cl_int* code) {
    return g_cl.clCreatePipe(context, flags, packet, packets, properties, code);
  });
}

cl_int CL_API_CALL layer_clRetainMemObject(cl_mem memory) {
  cl_int result = g_cl.clRetainMemObject(memory);
  if (result == CL_SUCCESS && !g_cl_forked) {
    allocations().change(memory, [](Allocation& allocation) {
      ++allocation.references;
      return false;
    });
  }
  return result;
}

cl_int CL_API_CALL layer_clReleaseMemObject(cl_mem memory) {
  if (g_cl_forked) return g_cl.clReleaseMemObject(memory);
  Allocation gone{};
  bool last = false;
  allocations().change(memory,
                       [&](Allocation& allocation) {  // before the call: the handle may be reused right after
                         last = --allocation.references <= 0;
                         gone = allocation;
                         return last;
                       });
  HostCall call(WS_CL(clReleaseMemObject), reinterpret_cast<uint64_t>(memory), gone.bytes);
  cl_int result = g_cl.clReleaseMemObject(memory);
  if (!recording()) return result;
  call.finish(result);
  if (last && result == CL_SUCCESS) write_memory(call, 2, call.object, gone.bytes, gone.context, gone.kind);
  return result;
}

}  // namespace

void write_memory(HostCall& call, uint8_t operation, uint64_t address, uint64_t bytes, cl_context context,
                  MemoryKind kind) {
  if (!g_cl_kinds.memory) return;
  Memory row{};
  row.time = call.returned ? call.returned : call.entry;
  row.address = address;
  row.bytes = bytes;
  row.correlation = call.correlation;
  row.stream = UINT32_MAX;
  row.stack = call.stack();
  row.device = UINT16_MAX;
  if (ClContext* known = find_context(context)) {
    row.context = known->id;
    row.device = known->device;
  }
  row.allocator = intern_c("OpenCL");  // the family: any of its functions frees what another allocated
  row.operation = operation;
  row.kind = kind;
  write(row);
}

void wrap_memory(cl_icd_dispatch* table) {
  WS_WRAP(table, clCreateBuffer);
  WS_WRAP(table, clCreateBufferWithProperties);
  WS_WRAP(table, clCreateImage);
  WS_WRAP(table, clCreateImageWithProperties);
  WS_WRAP(table, clCreateImage2D);
  WS_WRAP(table, clCreateImage3D);
  WS_WRAP(table, clCreatePipe);
  WS_WRAP(table, clRetainMemObject);
  WS_WRAP(table, clReleaseMemObject);
}

}  // namespace warpsight
