// Program builds: their duration, options and results.
#include <cstdio>
#include <memory>

#include "command.h"
#include "programs.h"
#include "wrappers.h"

namespace warpsight {
namespace {

HandleMap<uint32_t>& modules() {
  static auto& map = *new HandleMap<uint32_t>;
  return map;
}

using Notify = void(CL_CALLBACK*)(cl_program, void*);

// A build in progress, if the program wants a notification when it ends.
struct PendingBuild {
  Notify notify;
  void* data;
  ClFunction function;
  uint64_t start;
  uint32_t correlation;
  uint32_t stack;
  uint32_t options;
  cl_device_id device;
};

std::string text_of(cl_program program, cl_program_info what) {
  size_t length = 0;
  if (g_cl.clGetProgramInfo(program, what, 0, nullptr, &length) != CL_SUCCESS || length < 2) return "";
  std::string text(length, '\0');
  if (g_cl.clGetProgramInfo(program, what, length, &text[0], nullptr) != CL_SUCCESS) return "";
  text.resize(length - 1);
  return text;
}

// Kernel names and a hash of the source, such as "vadd;scale [3f2a9c01]": distinguishes builds and can be
// read.
std::string describe(cl_program program, uint64_t* hash) {
  std::string source = text_of(program, CL_PROGRAM_SOURCE);
  std::string kernels = text_of(program, CL_PROGRAM_KERNEL_NAMES);
  if (kernels.size() > 200) kernels = kernels.substr(0, 197) + "...";
  *hash = source.empty() ? 0 : hash_bytes(source);
  char tail[32] = "[no source]";
  if (*hash) snprintf(tail, sizeof(tail), "[%08x]", static_cast<uint32_t>(*hash ^ (*hash >> 32)));
  return kernels.empty() ? tail : kernels + " " + tail;
}

cl_device_id first_device(cl_program program) {
  cl_device_id list[64] = {};
  size_t bytes = 0;
  if (g_cl.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(list), list, &bytes) != CL_SUCCESS)
    return nullptr;
  return bytes >= sizeof(cl_device_id) ? list[0] : nullptr;
}

void note_module(cl_program program, const std::string& name, uint64_t hash, cl_device_id device) {
  static std::atomic<uint32_t> next{kFirstClModule};
  Module row{};
  row.id = next.fetch_add(1, std::memory_order_relaxed);
  row.name = intern(name);
  row.checksum = hash;
  size_t bytes[64] = {};
  if (g_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), bytes, nullptr) == CL_SUCCESS) {
    row.size = bytes[0];
  }
  cl_context context = nullptr;
  g_cl.clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof(context), &context, nullptr);
  if (ClContext* known = find_context(context)) row.context = known->id;
  row.device = find_device(device)->index;
  row.time = now_ns();
  write(row);
  modules().put(program, row.id);
}

void write_build(const PendingBuild& build, cl_program program, cl_int result, uint64_t end) {
  if (!recording()) return;
  Build row{};
  row.start = build.start;
  row.duration = end - build.start;
  uint64_t hash = 0;
  std::string name = program ? describe(program, &hash) : "(no program)";
  cl_device_id device = build.device ? build.device : program ? first_device(program) : nullptr;
  row.program = intern(name);
  row.options = build.options;
  row.result = result;
  row.device = device ? find_device(device)->index : UINT32_MAX;
  row.stack = build.stack;
  if (g_cl_kinds.build) write(row);
  // A compilation alone has no kernels to launch.
  if (program && device && result == CL_SUCCESS && build.function != WS_CL(clCompileProgram)) {
    note_module(program, name, hash, device);
  }
}

cl_int build_result(cl_program program) {
  cl_device_id device = first_device(program);
  cl_build_status status = CL_BUILD_SUCCESS;
  if (device) {
    g_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof(status), &status, nullptr);
  }
  return status == CL_BUILD_ERROR ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

void CL_CALLBACK on_built(cl_program program, void* data) {
  std::unique_ptr<PendingBuild> build(static_cast<PendingBuild*>(data));
  if (!g_cl_forked) write_build(*build, program, build_result(program), now_ns());
  build->notify(program, build->data);
}

// Runs a build through `pass`, which takes the callback to hand down. If the program passed a callback, the
// build ends when it is called, otherwise when the call returns.
template <class Pass>
auto record_build(ClFunction function, const char* options, const cl_device_id* devices, Notify notify,
                  void* data, Pass pass) {
  HostCall call(function);
  auto* build = new PendingBuild{notify,
                                 data,
                                 function,
                                 call.entry,
                                 call.correlation,
                                 call.stack(),
                                 intern(options ? options : ""),
                                 devices ? devices[0] : nullptr};
  PendingBuild copy = *build;  // the callback may free it before the call returns
  auto outcome = pass(notify ? on_built : nullptr, notify ? static_cast<void*>(build) : nullptr);
  call.returned = now_ns();
  call.object = reinterpret_cast<uint64_t>(outcome.program);
  call.finish(outcome.result);
  if (!notify) {
    write_build(copy, outcome.program, outcome.result, call.returned);
    delete build;
  }
  return outcome;
}

struct Outcome {
  cl_program program;
  cl_int result;
};

cl_int CL_API_CALL layer_clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                                        const char* options, Notify notify, void* data) {
  if (!recording()) return g_cl.clBuildProgram(program, count, devices, options, notify, data);
  return record_build(WS_CL(clBuildProgram), options, count ? devices : nullptr, notify, data,
                      [&](Notify told, void* state) {
                        return Outcome{program,
                                       g_cl.clBuildProgram(program, count, devices, options, told, state)};
                      })
      .result;
}

cl_int CL_API_CALL layer_clCompileProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                                          const char* options, cl_uint headers, const cl_program* list,
                                          const char** names, Notify notify, void* data) {
  if (!recording()) {
    return g_cl.clCompileProgram(program, count, devices, options, headers, list, names, notify, data);
  }
  return record_build(WS_CL(clCompileProgram), options, count ? devices : nullptr, notify, data,
                      [&](Notify told, void* state) {
                        return Outcome{program, g_cl.clCompileProgram(program, count, devices, options,
                                                                      headers, list, names, told, state)};
                      })
      .result;
}

cl_program CL_API_CALL layer_clLinkProgram(cl_context context, cl_uint count, const cl_device_id* devices,
                                           const char* options, cl_uint programs, const cl_program* list,
                                           Notify notify, void* data, cl_int* error) {
  if (!recording()) {
    return g_cl.clLinkProgram(context, count, devices, options, programs, list, notify, data, error);
  }
  auto outcome = record_build(
      WS_CL(clLinkProgram), options, count ? devices : nullptr, notify, data, [&](Notify told, void* state) {
        cl_int code = CL_SUCCESS;
        cl_program linked =
            g_cl.clLinkProgram(context, count, devices, options, programs, list, told, state, &code);
        return Outcome{linked, code};
      });
  if (error) *error = outcome.result;
  return outcome.program;
}

}  // namespace

uint32_t module_of(cl_program program) {
  uint32_t module = 0;
  modules().get(program, &module);
  return module;
}

void wrap_programs(cl_icd_dispatch* table) {
  WS_WRAP(table, clBuildProgram);
  WS_WRAP(table, clCompileProgram);
  WS_WRAP(table, clLinkProgram);
}

}  // namespace warpsight
