// Contexts and queues. Every queue gets profiling, and the program does not see that it did.
#include <cstring>
#include <vector>

#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

cl_device_id first_device(cl_context context) {
  cl_device_id list[64] = {};
  size_t bytes = 0;
  if (g_cl.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(list), list, &bytes) != CL_SUCCESS)
    return nullptr;
  return bytes >= sizeof(cl_device_id) ? list[0] : nullptr;
}

void context_made(HostCall& call, cl_context context, cl_int code) {
  if (context) {
    if (cl_device_id device = first_device(context)) note_context(context, device);
  }
  if (!recording()) return;
  announce_objects();
  call.object = reinterpret_cast<uint64_t>(context);
  call.finish(code);
}

cl_context CL_API_CALL layer_clCreateContext(
    const cl_context_properties* properties, cl_uint count, const cl_device_id* devices,
    void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data, cl_int* error) {
  if (g_cl_forked) return g_cl.clCreateContext(properties, count, devices, notify, data, error);
  start_opencl();
  HostCall call(WS_CL(clCreateContext));
  cl_int code = CL_SUCCESS;
  cl_context context = g_cl.clCreateContext(properties, count, devices, notify, data, &code);
  if (error) *error = code;
  context_made(call, context, code);
  return context;
}

cl_context CL_API_CALL layer_clCreateContextFromType(
    const cl_context_properties* properties, cl_device_type type,
    void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data, cl_int* error) {
  if (g_cl_forked) return g_cl.clCreateContextFromType(properties, type, notify, data, error);
  start_opencl();
  HostCall call(WS_CL(clCreateContextFromType));
  cl_int code = CL_SUCCESS;
  cl_context context = g_cl.clCreateContextFromType(properties, type, notify, data, &code);
  if (error) *error = code;
  context_made(call, context, code);
  return context;
}

bool adds_profiling() { return !g_cl_forked && settings().opencl_profiling; }

cl_command_queue CL_API_CALL layer_clCreateCommandQueue(cl_context context, cl_device_id device,
                                                        cl_command_queue_properties properties,
                                                        cl_int* error) {
  if (g_cl_forked) return g_cl.clCreateCommandQueue(context, device, properties, error);
  HostCall call(WS_CL(clCreateCommandQueue));
  bool add = adds_profiling() && !(properties & CL_QUEUE_PROFILING_ENABLE);
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = g_cl.clCreateCommandQueue(
      context, device, add ? properties | CL_QUEUE_PROFILING_ENABLE : properties, &code);
  if (!queue && add) {  // the program's request decides, not our addition
    add = false;
    queue = g_cl.clCreateCommandQueue(context, device, properties, &code);
  }
  if (error) *error = code;
  if (queue) note_queue(queue, context, device, properties, add, nullptr);
  if (recording()) {
    call.object = reinterpret_cast<uint64_t>(queue);
    call.finish(code);
  }
  return queue;
}

// The program's property list with profiling added; empty if nothing needs to be added.
std::vector<cl_queue_properties> with_profiling(const cl_queue_properties* given,
                                                cl_command_queue_properties asked) {
  constexpr cl_command_queue_properties leave = CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_ON_DEVICE;
  if (!adds_profiling() || (asked & leave)) return {};
  std::vector<cl_queue_properties> list;
  bool found = false;
  for (size_t i = 0; given && given[i]; i += 2) {
    found |= given[i] == CL_QUEUE_PROPERTIES;
    list.push_back(given[i]);
    list.push_back(given[i] == CL_QUEUE_PROPERTIES ? given[i + 1] | CL_QUEUE_PROFILING_ENABLE : given[i + 1]);
  }
  if (!found) list.insert(list.end(), {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE});
  list.push_back(0);
  return list;
}

cl_command_queue CL_API_CALL layer_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                                      const cl_queue_properties* given,
                                                                      cl_int* error) {
  if (g_cl_forked) return g_cl.clCreateCommandQueueWithProperties(context, device, given, error);
  HostCall call(WS_CL(clCreateCommandQueueWithProperties));
  cl_command_queue_properties asked = 0;
  auto* listed = new std::vector<cl_queue_properties>;
  for (size_t i = 0; given && given[i]; i += 2) {
    if (given[i] == CL_QUEUE_PROPERTIES) asked = given[i + 1];
    listed->insert(listed->end(), {given[i], given[i + 1]});
  }
  if (given) listed->push_back(0);
  auto changed = with_profiling(given, asked);
  bool add = !changed.empty();
  cl_int code = CL_SUCCESS;
  cl_command_queue queue =
      g_cl.clCreateCommandQueueWithProperties(context, device, add ? changed.data() : given, &code);
  if (!queue && add) {
    add = false;
    queue = g_cl.clCreateCommandQueueWithProperties(context, device, given, &code);
  }
  if (error) *error = code;
  if (queue) {
    note_queue(queue, context, device, asked, add, listed);
  } else {
    delete listed;
  }
  if (recording()) {
    call.object = reinterpret_cast<uint64_t>(queue);
    call.finish(code);
  }
  return queue;
}

cl_int CL_API_CALL layer_clRetainCommandQueue(cl_command_queue queue) {
  cl_int result = g_cl.clRetainCommandQueue(queue);
  if (result == CL_SUCCESS && !g_cl_forked) retain_queue(queue);
  return result;
}

cl_int CL_API_CALL layer_clReleaseCommandQueue(cl_command_queue queue) {
  if (!g_cl_forked) {
    release_queue(queue);
    reap_queues();
  }
  return g_cl.clReleaseCommandQueue(queue);
}

// Answers an info query with a value of ours, under the API's rules for sizes.
cl_int answer(const void* data, size_t bytes, size_t room, void* value, size_t* size_out) {
  if (value && room < bytes) return CL_INVALID_VALUE;
  if (value && bytes) memcpy(value, data, bytes);
  if (size_out) *size_out = bytes;
  return CL_SUCCESS;
}

cl_int CL_API_CALL layer_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what,
                                               size_t room, void* value, size_t* size_out) {
  cl_int result = g_cl.clGetCommandQueueInfo(queue, what, room, value, size_out);
  if (g_cl_forked || (what != CL_QUEUE_PROPERTIES && what != CL_QUEUE_PROPERTIES_ARRAY)) return result;
  ClQueue* known = known_queue(queue);
  if (!known || !known->hidden) return result;
  if (what == CL_QUEUE_PROPERTIES) {
    if (result == CL_SUCCESS && value)
      *static_cast<cl_command_queue_properties*>(value) &= ~CL_QUEUE_PROFILING_ENABLE;
    return result;
  }
  // A list of ours may be longer than the program's and fail for its room; only a driver without the query
  // refuses.
  if (!known->listed || (result != CL_SUCCESS && result != CL_INVALID_VALUE)) return result;
  size_t bytes = 0;
  if (g_cl.clGetCommandQueueInfo(queue, what, 0, nullptr, &bytes) != CL_SUCCESS) return result;
  return answer(known->listed->data(), known->listed->size() * sizeof(cl_queue_properties), room, value,
                size_out);
}

cl_int CL_API_CALL layer_clSetCommandQueueProperty(cl_command_queue queue,
                                                   cl_command_queue_properties properties, cl_bool enable,
                                                   cl_command_queue_properties* old) {
  ClQueue* known = g_cl_forked ? nullptr : known_queue(queue);
  bool kept = known && known->hidden && (properties & CL_QUEUE_PROFILING_ENABLE);
  cl_command_queue_properties passed = kept ? properties & ~CL_QUEUE_PROFILING_ENABLE : properties;
  cl_int result = g_cl.clSetCommandQueueProperty(queue, passed, enable, old);
  if (!known || result != CL_SUCCESS) return result;
  if (old && known->hidden) *old &= ~CL_QUEUE_PROFILING_ENABLE;
  known->properties = enable ? known->properties | properties : known->properties & ~properties;
  if (kept && enable) show_timestamps(known);
  return result;
}

}  // namespace

void wrap_queues(cl_icd_dispatch* table) {
  WS_WRAP(table, clCreateContext);
  WS_WRAP(table, clCreateContextFromType);
  WS_WRAP(table, clCreateCommandQueue);
  WS_WRAP(table, clCreateCommandQueueWithProperties);
  WS_WRAP(table, clRetainCommandQueue);
  WS_WRAP(table, clReleaseCommandQueue);
  WS_WRAP(table, clGetCommandQueueInfo);
  WS_WRAP(table, clSetCommandQueueProperty);
}

}  // namespace warpsight
