// Kernels and their launches.
#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "command.h"
#include "programs.h"
#include "wrappers.h"

namespace warpsight {
namespace {

HandleMap<ClKernel*>& kernels() {
  static auto& map = *new HandleMap<ClKernel*>;
  return map;
}

constexpr size_t kMostPatterns = 64;  // bits of g_matched
std::atomic<uint64_t> g_matched{
    0};  // bit i: pattern i has matched a kernel, or its failure has been reported

// WARPSIGHT_KERNELS: OpenCL names are not mangled, so a pattern simply matches the name.
bool wanted_name(const char* name) {
  const auto& patterns = settings().kernels;
  bool wanted = patterns.empty();
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (fnmatch(patterns[i].c_str(), name, 0) != 0) continue;
    wanted = true;
    if (i < kMostPatterns) g_matched.fetch_or(1ull << i, std::memory_order_relaxed);
  }
  return wanted;
}

// Sizes that the compiler decided, asked once per kernel and device.
void measure(cl_kernel handle, ClKernel* kernel, cl_device_id device) {
  kernel->measured = device;
  cl_ulong bytes = 0;
  auto ask = [&](cl_kernel_work_group_info what, size_t size, void* value) {
    return g_cl.clGetKernelWorkGroupInfo(handle, device, what, size, value, nullptr) == CL_SUCCESS;
  };
  // Includes what the program has set for __local arguments so far.
  if (ask(CL_KERNEL_LOCAL_MEM_SIZE, sizeof(bytes), &bytes)) {
    kernel->local_static =
        static_cast<uint32_t>(bytes > kernel->local_dynamic ? bytes - kernel->local_dynamic : 0);
  }
  if (ask(CL_KERNEL_PRIVATE_MEM_SIZE, sizeof(bytes), &bytes))
    kernel->private_bytes = static_cast<uint32_t>(bytes);
  size_t required[3] = {};
  if (ask(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof(required), required)) {
    for (int i = 0; i < 3; ++i) kernel->required[i] = static_cast<uint32_t>(required[i]);
  }
}

// Work-groups and their size. Without a local size the driver chooses one and does not reveal it: the block
// is then 0 and the grid counts work-items.
uint32_t shape_of(const ClKernel* kernel, cl_uint dimensions, const size_t* global, const size_t* local) {
  int32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  for (cl_uint i = 0; i < 3 && i < dimensions; ++i) {
    size_t size = local ? local[i] : kernel ? kernel->required[i] : 0;
    size_t items = global ? global[i] : 0;
    size_t groups = size ? (items + size - 1) / size : items;
    grid[i] = static_cast<int32_t>(std::min<size_t>(groups, INT32_MAX));
    block[i] = static_cast<int32_t>(std::min<size_t>(size, INT32_MAX));
  }
  if (!block[0]) block[1] = block[2] = 0;
  Shape shape{};
  shape.grid_x = grid[0];
  shape.grid_y = grid[1];
  shape.grid_z = grid[2];
  shape.block_x = block[0];
  shape.block_y = block[1];
  shape.block_z = block[2];
  if (kernel) {
    shape.shared_static = kernel->local_static;
    shape.shared_dynamic = kernel->local_dynamic;
    shape.local_per_thread = kernel->private_bytes;
  }
  return intern_shape(shape);
}

Request launch_request(ClFunction function, cl_command_queue queue, cl_kernel handle, cl_uint dimensions,
                       const size_t* global, const size_t* local, cl_uint count, const cl_event* waits) {
  Request request{function, queue, count, waits};
  request.work = Work::kernel;
  ClKernel* kernel = find_kernel(handle);
  ClQueue* known = find_queue(queue);
  if (kernel && known && kernel->measured != known->device->handle)
    measure(handle, kernel, known->device->handle);
  request.shape = shape_of(kernel, dimensions, global, local);
  request.kernel = kernel;
  request.name = kernel ? kernel->name : "(unknown kernel)";
  request.module = kernel ? kernel->module : 0;
  return request;
}

cl_int CL_API_CALL layer_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                const size_t* offset, const size_t* global,
                                                const size_t* local, cl_uint count, const cl_event* waits,
                                                cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, count, waits, place);
  };
  if (!recording()) return call(event);
  if (ClKernel* known = find_kernel(kernel); known && !known->wanted) return call(event);
  return record_enqueue(
      launch_request(WS_CL(clEnqueueNDRangeKernel), queue, kernel, dimensions, global, local, count, waits),
      event, call);
}

cl_int CL_API_CALL layer_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint count,
                                       const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) { return g_cl.clEnqueueTask(queue, kernel, count, waits, place); };
  if (!recording()) return call(event);
  if (ClKernel* known = find_kernel(kernel); known && !known->wanted) return call(event);
  const size_t one[3] = {1, 1, 1};
  return record_enqueue(launch_request(WS_CL(clEnqueueTask), queue, kernel, 1, one, one, count, waits), event,
                        call);
}

cl_int CL_API_CALL layer_clEnqueueNativeKernel(cl_command_queue queue, void(CL_CALLBACK* function)(void*),
                                               void* arguments, size_t size, cl_uint objects,
                                               const cl_mem* memory, const void** locations, cl_uint count,
                                               const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) {
    return g_cl.clEnqueueNativeKernel(queue, function, arguments, size, objects, memory, locations, count,
                                      waits, place);
  };
  if (!recording() || !wanted_name("(native kernel)")) return call(event);
  Request request{WS_CL(clEnqueueNativeKernel), queue, count, waits};
  request.work = Work::kernel;
  request.name = "(native kernel)";
  return record_enqueue(request, event, call);
}

cl_kernel CL_API_CALL layer_clCreateKernel(cl_program program, const char* name, cl_int* error) {
  if (g_cl_forked) return g_cl.clCreateKernel(program, name, error);
  HostCall call(WS_CL(clCreateKernel), reinterpret_cast<uint64_t>(program));
  cl_int code = CL_SUCCESS;
  cl_kernel kernel = g_cl.clCreateKernel(program, name, &code);
  if (error) *error = code;
  if (kernel) note_kernel(kernel, module_of(program));
  if (recording()) call.finish(code);
  return kernel;
}

cl_int CL_API_CALL layer_clCreateKernelsInProgram(cl_program program, cl_uint room, cl_kernel* list,
                                                  cl_uint* count) {
  cl_uint made = 0;
  cl_int result = g_cl.clCreateKernelsInProgram(program, room, list, &made);
  if (count && result == CL_SUCCESS) *count = made;
  if (g_cl_forked || result != CL_SUCCESS || !list) return result;
  for (cl_uint i = 0; i < std::min(room, made); ++i) note_kernel(list[i], module_of(program));
  return result;
}

cl_kernel CL_API_CALL layer_clCloneKernel(cl_kernel source, cl_int* error) {
  cl_kernel kernel = g_cl.clCloneKernel(source, error);
  if (g_cl_forked || !kernel) return kernel;
  ClKernel* original = find_kernel(source);
  note_kernel(kernel, original ? original->module : 0);
  ClKernel* clone = find_kernel(kernel);
  if (original && clone) {
    clone->local_arguments = original->local_arguments;
    clone->local_dynamic = original->local_dynamic;
  }
  return kernel;
}

// Only for the size of __local arguments, which are set by giving a size and no value.
cl_int CL_API_CALL layer_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  cl_int result = g_cl.clSetKernelArg(kernel, index, size, value);
  if (value || size == 0 || result != CL_SUCCESS || g_cl_forked) return result;
  cl_kernel_arg_address_qualifier where =
      CL_KERNEL_ARG_ADDRESS_LOCAL;  // an absent buffer is set the same way
  if (size == sizeof(cl_mem) && g_cl.clGetKernelArgInfo) {
    g_cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(where), &where, nullptr);
  }
  ClKernel* known = find_kernel(kernel);
  if (!known || where != CL_KERNEL_ARG_ADDRESS_LOCAL) return result;
  // The standard forbids two threads on one kernel object at a time, so this needs no lock.
  auto& arguments = known->local_arguments;
  auto same = [index](const auto& argument) { return argument.first == index; };
  auto found = std::find_if(arguments.begin(), arguments.end(), same);
  if (found == arguments.end()) found = arguments.insert(found, {index, 0});
  known->local_dynamic += static_cast<uint32_t>(size) - found->second;
  found->second = static_cast<uint32_t>(size);
  return result;
}

}  // namespace

void report_unmatched_cl_patterns() {
  const auto& patterns = settings().kernels;
  const size_t count = std::min(patterns.size(), kMostPatterns);
  const uint64_t matched = g_matched.exchange(~0ull, std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    if ((matched >> i & 1) == 0)
      report_loss("opencl", "kernel pattern '" + patterns[i] + "' matched no kernel", 1, Severity::note);
  }
}

void note_kernel(cl_kernel handle, uint32_t module) {
  size_t length = 0;
  if (g_cl.clGetKernelInfo(handle, CL_KERNEL_FUNCTION_NAME, 0, nullptr, &length) != CL_SUCCESS) return;
  // Not freed with the kernel: a row may still need the name. Kernels are few, and a reused handle reuses the
  // space.
  char* name = static_cast<char*>(malloc(length + 1));
  if (!name) return;
  name[0] = name[length] = '\0';
  g_cl.clGetKernelInfo(handle, CL_KERNEL_FUNCTION_NAME, length, name, nullptr);
  ClKernel* known = nullptr;
  if (kernels().get(handle, &known)) {  // another kernel at the same address
    bool same = strcmp(known->name, name) == 0;
    if (same) free(name);
    char* kept = same ? known->name : name;
    known->warm_shape.store(0, std::memory_order_relaxed);
    known->measured = nullptr;
    known->local_dynamic = 0;
    known->local_arguments.clear();
    known->name = kept;
  } else {
    known = new ClKernel{};
    known->name = name;
  }
  known->module = module;
  known->wanted = wanted_name(known->name);
  kernels().put(handle, known);
}

ClKernel* find_kernel(cl_kernel kernel) {
  ClKernel* found = nullptr;
  if (kernels().get(kernel, &found)) return found;
  // Made past us, by an extension function.
  note_kernel(kernel, 0);
  kernels().get(kernel, &found);
  return found;
}

void wrap_kernels(cl_icd_dispatch* table) {
  WS_WRAP(table, clEnqueueNDRangeKernel);
  WS_WRAP(table, clEnqueueTask);
  WS_WRAP(table, clEnqueueNativeKernel);
  WS_WRAP(table, clCreateKernel);
  WS_WRAP(table, clCreateKernelsInProgram);
  WS_WRAP(table, clCloneKernel);
  WS_WRAP(table, clSetKernelArg);
}

}  // namespace warpsight
