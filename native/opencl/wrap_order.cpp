// Calls that order commands: waits, finishes, markers, barriers, the program's own events.
#include "command.h"
#include "wrappers.h"

namespace warpsight {
namespace {

cl_int CL_API_CALL layer_clFinish(cl_command_queue queue) {
  if (!recording()) return g_cl.clFinish(queue);
  HostCall call(WS_CL(clFinish), reinterpret_cast<uint64_t>(queue));
  cl_int result = g_cl.clFinish(queue);
  call.finish(result);
  write_sync(5, call.correlation, find_queue(queue), call.entry, call.returned, result);
  return result;
}

cl_int CL_API_CALL layer_clFlush(cl_command_queue queue) {
  if (!recording()) return g_cl.clFlush(queue);
  HostCall call(WS_CL(clFlush), reinterpret_cast<uint64_t>(queue));
  cl_int result = g_cl.clFlush(queue);
  call.finish(result);
  return result;
}

cl_int CL_API_CALL layer_clWaitForEvents(cl_uint count, const cl_event* events) {
  if (!recording()) return g_cl.clWaitForEvents(count, events);
  HostCall call(WS_CL(clWaitForEvents), count == 1 && events ? reinterpret_cast<uint64_t>(events[0]) : 0);
  cl_int result = g_cl.clWaitForEvents(count, events);
  call.finish(result);
  write_flows(count, events, call.correlation);
  write_sync(6, call.correlation, nullptr, call.entry, call.returned, result);
  return result;
}

cl_int CL_API_CALL layer_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                                                     const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) { return g_cl.clEnqueueMarkerWithWaitList(queue, count, waits, place); };
  if (!recording()) return call(event);
  return record_enqueue(Request{WS_CL(clEnqueueMarkerWithWaitList), queue, count, waits}, event, call);
}

cl_int CL_API_CALL layer_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count,
                                                      const cl_event* waits, cl_event* event) {
  auto call = [&](cl_event* place) { return g_cl.clEnqueueBarrierWithWaitList(queue, count, waits, place); };
  if (!recording()) return call(event);
  return record_enqueue(Request{WS_CL(clEnqueueBarrierWithWaitList), queue, count, waits}, event, call);
}

cl_int CL_API_CALL layer_clEnqueueMarker(cl_command_queue queue, cl_event* event) {
  auto call = [&](cl_event* place) { return g_cl.clEnqueueMarker(queue, place); };
  if (!recording()) return call(event);
  return record_enqueue(Request{WS_CL(clEnqueueMarker), queue}, event, call);
}

cl_int CL_API_CALL layer_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint count,
                                                const cl_event* waits) {
  auto call = [&](cl_event*) { return g_cl.clEnqueueWaitForEvents(queue, count, waits); };
  if (!recording()) return call(nullptr);
  return record_enqueue(Request{WS_CL(clEnqueueWaitForEvents), queue, count, waits}, nullptr, call);
}

cl_int CL_API_CALL layer_clEnqueueBarrier(cl_command_queue queue) {
  auto call = [&](cl_event*) { return g_cl.clEnqueueBarrier(queue); };
  if (!recording()) return call(nullptr);
  return record_enqueue(Request{WS_CL(clEnqueueBarrier), queue}, nullptr, call);
}

cl_event CL_API_CALL layer_clCreateUserEvent(cl_context context, cl_int* error) {
  if (!recording()) return g_cl.clCreateUserEvent(context, error);
  HostCall call(WS_CL(clCreateUserEvent));
  cl_int code = CL_SUCCESS;
  cl_event event = g_cl.clCreateUserEvent(context, &code);
  if (error) *error = code;
  call.object = reinterpret_cast<uint64_t>(event);
  call.finish(code);
  mark_event(event, call.correlation);
  return event;
}

cl_int CL_API_CALL layer_clSetUserEventStatus(cl_event event, cl_int status) {
  if (!recording()) return g_cl.clSetUserEventStatus(event, status);
  HostCall call(WS_CL(clSetUserEventStatus), reinterpret_cast<uint64_t>(event));
  write_flows(1, &event, call.correlation);
  // From here on the event represents this call, which releases its waiters.
  mark_event(event, call.correlation);
  cl_int result = g_cl.clSetUserEventStatus(event, status);
  call.finish(result);
  return result;
}

// Timestamps of a queue on which only we requested profiling stay hidden, as they would be without us.
cl_int CL_API_CALL layer_clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size,
                                                 void* value, size_t* size_out) {
  cl_command_queue queue = nullptr;
  if (!g_cl_forked &&
      g_cl.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, nullptr) == CL_SUCCESS &&
      queue) {
    if (hides_timestamps(queue)) return CL_PROFILING_INFO_NOT_AVAILABLE;
  }
  return g_cl.clGetEventProfilingInfo(event, what, size, value, size_out);
}

}  // namespace

void wrap_order(cl_icd_dispatch* table) {
  WS_WRAP(table, clFinish);
  WS_WRAP(table, clFlush);
  WS_WRAP(table, clWaitForEvents);
  WS_WRAP(table, clEnqueueMarkerWithWaitList);
  WS_WRAP(table, clEnqueueBarrierWithWaitList);
  WS_WRAP(table, clEnqueueMarker);
  WS_WRAP(table, clEnqueueWaitForEvents);
  WS_WRAP(table, clEnqueueBarrier);
  WS_WRAP(table, clCreateUserEvent);
  WS_WRAP(table, clSetUserEventStatus);
  WS_WRAP(table, clGetEventProfilingInfo);
}

}  // namespace warpsight
