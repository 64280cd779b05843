// The functions of librocprofiler-sdk that the recorder calls, looked up in the library that called us.
#pragma once

#include "rocm/abi.h"

namespace warpsight::rocm {

// Without one of these nothing can be recorded.
#define WARPSIGHT_ROCM_REQUIRED(X)                                                \
  X(create_context, "rocprofiler_create_context", Status (*)(ContextId*))         \
  X(start_context, "rocprofiler_start_context", Status (*)(ContextId))            \
  X(stop_context, "rocprofiler_stop_context", Status (*)(ContextId))              \
  X(create_buffer, "rocprofiler_create_buffer",                                   \
    Status (*)(ContextId, size_t, size_t, int, BufferFunction, void*, BufferId*)) \
  X(flush_buffer, "rocprofiler_flush_buffer", Status (*)(BufferId))               \
  X(trace_buffered, "rocprofiler_configure_buffer_tracing_service",               \
    Status (*)(ContextId, int, const int*, size_t, BufferId))                     \
  X(trace_calls, "rocprofiler_configure_callback_tracing_service",                \
    Status (*)(ContextId, int, const int*, size_t, AnyCallback, void*))           \
  X(operation_name, "rocprofiler_query_callback_tracing_kind_operation_name",     \
    Status (*)(int, int, const char**, uint64_t*))                                \
  X(each_operation, "rocprofiler_iterate_callback_tracing_kind_operations",       \
    Status (*)(int, OperationFunction, void*))                                    \
  X(timestamp, "rocprofiler_get_timestamp", Status (*)(uint64_t*))

// Without one of these, a loss row says what is missing.
#define WARPSIGHT_ROCM_OPTIONAL(X)                                                                      \
  X(query_agents, "rocprofiler_query_available_agents", Status (*)(int, AgentsFunction, size_t, void*)) \
  X(request_service, "rocprofiler_configure_external_correlation_id_request_service",                   \
    Status (*)(ContextId, const int*, size_t, RequestFunction, void*))                                  \
  X(callback_kind_name, "rocprofiler_query_callback_tracing_kind_name",                                 \
    Status (*)(int, const char**, uint64_t*))                                                           \
  X(buffer_kind_name, "rocprofiler_query_buffer_tracing_kind_name",                                     \
    Status (*)(int, const char**, uint64_t*))                                                           \
  X(create_thread, "rocprofiler_create_callback_thread", Status (*)(ThreadId*))                         \
  X(assign_thread, "rocprofiler_assign_callback_thread", Status (*)(BufferId, ThreadId))                \
  X(status_name, "rocprofiler_get_status_name", const char* (*)(Status))

template <class Function>
struct Same {
  using type = Function;
};

struct Functions {
#define WARPSIGHT_POINTER(member, symbol, ...) Same<__VA_ARGS__>::type member = nullptr;
  WARPSIGHT_ROCM_REQUIRED(WARPSIGHT_POINTER)
  WARPSIGHT_ROCM_OPTIONAL(WARPSIGHT_POINTER)
#undef WARPSIGHT_POINTER
  uint32_t version = 0;
};

// Filled by load_functions(), constant afterwards.
const Functions& sdk();

// Fills the table for a library of this version; false, with a loss row, when it cannot be used.
bool load_functions(uint32_t version);

// "name (code)" of a status, for loss rows; valid until the thread's next call.
const char* status_text(Status status);

// The version as text.
const char* version_text();

}  // namespace warpsight::rocm
