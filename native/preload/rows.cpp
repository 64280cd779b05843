#include "preload/rows.h"

#include <string.h>

namespace warpsight {
namespace {

constexpr uint8_t kLaunch = 1, kCaptured = 2, kNoKernelRow = 8;
constexpr uint32_t kCachedNames = 128;

struct CachedName {
  CUfunction function;
  uint32_t id;
};
thread_local CachedName t_names[kCachedNames];

const char* name_of(CUfunction function) {
  using FunctionName = CUresult (*)(const char**, CUfunction);
  using KernelName = CUresult (*)(const char**, CUkernel);
  static const auto function_name = reinterpret_cast<FunctionName>(driver_function("cuFuncGetName"));
  static const auto kernel_name = reinterpret_cast<KernelName>(driver_function("cuKernelGetName"));
  const char* name = nullptr;
  if (function_name != nullptr && function_name(&name, function) == CUDA_SUCCESS) return name;
  // A launch takes kernels of libraries too, by the same argument.
  if (kernel_name != nullptr && kernel_name(&name, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS)
    return name;
  return nullptr;
}

uint32_t name_id(const Library& library, CUfunction function) {
  CachedName& cached = t_names[(reinterpret_cast<uintptr_t>(function) >> 4) % kCachedNames];
  if (cached.function == function && cached.id != 0) return cached.id;
  const char* name = name_of(function);
  const uint32_t id = name != nullptr ? library.intern(name, strlen(name)) : 0;
  cached = {function, id};
  return id;
}

bool is_captured(CUstream stream) {
  using Capturing = CUresult (*)(CUstream, CUstreamCaptureStatus*);
  static const auto capturing = reinterpret_cast<Capturing>(driver_function("cuStreamIsCapturing"));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream != nullptr && capturing != nullptr && capturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

Call::Call(uint32_t cbid)
    : library_(recording_library()), cbid_(cbid), start_(library_ != nullptr ? library_->now() : 0) {}

void Call::write(Api* row, CUresult result) const {
  row->start = start_;
  row->duration = library_->now() - start_;
  row->function = static_cast<uint16_t>(cbid_);
  row->domain = kApiCudaDriver;
  row->result = result;
  row->stack = library_->capture_stack();
  library_->write_row(Api::kKind, row, sizeof(*row));
}

void Call::launched(CUfunction function, const Dimensions& dimensions, CUstream stream,
                    CUresult result) const {
  if (library_ == nullptr) return;
  Api row = {};
  Shape shape = {};
  shape.grid_x = static_cast<int32_t>(dimensions.grid[0]);
  shape.grid_y = static_cast<int32_t>(dimensions.grid[1]);
  shape.grid_z = static_cast<int32_t>(dimensions.grid[2]);
  shape.block_x = static_cast<int32_t>(dimensions.block[0]);
  shape.block_y = static_cast<int32_t>(dimensions.block[1]);
  shape.block_z = static_cast<int32_t>(dimensions.block[2]);
  shape.cluster_x = dimensions.cluster[0];
  shape.cluster_y = dimensions.cluster[1];
  shape.cluster_z = dimensions.cluster[2];
  shape.shared_dynamic = dimensions.shared;
  row.flags = static_cast<uint8_t>(kLaunch | kNoKernelRow | (is_captured(stream) ? kCaptured : 0));
  row.name = name_id(*library_, function);
  row.shape = library_->intern_shape(&shape);
  row.object = reinterpret_cast<uintptr_t>(stream);
  write(&row, result);
}

void Call::graph_launched(CUstream stream, CUresult result) const {
  if (library_ == nullptr) return;
  Api row = {};
  row.flags = kLaunch | kNoKernelRow;
  row.object = reinterpret_cast<uintptr_t>(stream);
  write(&row, result);
}

void Call::waited(const void* object, uint64_t bytes, CUresult result) const {
  if (library_ == nullptr) return;
  Api row = {};
  row.object = reinterpret_cast<uintptr_t>(object);
  row.bytes = bytes;
  write(&row, result);
}

}  // namespace warpsight
