#include "cuda/launch_arguments.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <cstddef>
#include <cstring>

namespace warpsight {
namespace {

template <class T>
T read(const void* params, size_t offset) {
  T value;
  memcpy(&value, static_cast<const char*>(params) + offset, sizeof value);
  return value;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

template <class Dim>
void set_dimensions(Shape* shape, const Dim& grid, const Dim& block, size_t shared) {
  shape->grid_x = static_cast<int32_t>(grid.x);
  shape->grid_y = static_cast<int32_t>(grid.y);
  shape->grid_z = static_cast<int32_t>(grid.z);
  shape->block_x = static_cast<int32_t>(block.x);
  shape->block_y = static_cast<int32_t>(block.y);
  shape->block_z = static_cast<int32_t>(block.z);
  shape->shared_dynamic = static_cast<uint32_t>(shared);
}

// The driver's argument structs spell the six numbers out.
template <class Params>
void set_driver_dimensions(Shape* shape, const Params& p) {
  set_dimensions(shape, dim3(p.gridDimX, p.gridDimY, p.gridDimZ), dim3(p.blockDimX, p.blockDimY, p.blockDimZ),
                 p.sharedMemBytes);
}

template <class Attribute>
void set_cluster(Shape* shape, const Attribute* attributes, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (static_cast<int>(attributes[i].id) != static_cast<int>(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION))
      continue;
    shape->cluster_x = attributes[i].val.clusterDim.x;
    shape->cluster_y = attributes[i].val.clusterDim.y;
    shape->cluster_z = attributes[i].val.clusterDim.z;
  }
}

struct RuntimeAttribute {  // cudaLaunchAttribute with the driver's member name
  cudaLaunchAttributeID id;
  char pad[8 - sizeof(cudaLaunchAttributeID)];
  cudaLaunchAttributeValue val;
};
static_assert(sizeof(RuntimeAttribute) == sizeof(cudaLaunchAttribute), "same layout under another name");

bool config_arguments(const cudaLaunchConfig_t* config, Shape* shape, uint64_t* stream) {
  if (config == nullptr) return false;
  set_dimensions(shape, config->gridDim, config->blockDim, config->dynamicSmemBytes);
  set_cluster(shape, reinterpret_cast<const RuntimeAttribute*>(config->attrs), config->numAttrs);
  *stream = number(config->stream);
  return true;
}

bool config_arguments(const CUlaunchConfig* config, Shape* shape, uint64_t* stream) {
  if (config == nullptr) return false;
  set_driver_dimensions(shape, *config);
  struct DriverAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue val;
  };
  static_assert(sizeof(DriverAttribute) == sizeof(CUlaunchAttribute), "same layout under another name");
  set_cluster(shape, reinterpret_cast<const DriverAttribute*>(config->attrs), config->numAttrs);
  *stream = number(config->hStream);
  return true;
}

bool list_arguments(const cuLaunchCooperativeKernelMultiDevice_params& p, Shape* shape, uint64_t* stream) {
  if (p.numDevices == 0 || p.launchParamsList == nullptr) return false;
  set_driver_dimensions(shape, p.launchParamsList[0]);
  shape->launch_type = 2;
  *stream = number(p.launchParamsList[0].hStream);
  return true;
}

}  // namespace

CallArguments call_arguments(const ApiRule& rule, const void* params, bool succeeded) {
  CallArguments arguments = {};
  if (params == nullptr) return arguments;
  if (rule.object != ObjectAt::nowhere) {
    arguments.object = read<uint64_t>(params, rule.object_offset);
    if (rule.object == ObjectAt::pointed) {
      const auto* result = reinterpret_cast<const void*>(arguments.object);
      arguments.object = succeeded && result != nullptr ? read<uint64_t>(result, 0) : 0;
    }
  }
  switch (rule.bytes) {
    case BytesAt::u32:
      arguments.bytes = read<uint32_t>(params, rule.bytes_offset);
      break;
    case BytesAt::u64:
      arguments.bytes = read<uint64_t>(params, rule.bytes_offset);
      break;
    case BytesAt::area:
      arguments.bytes =
          read<uint64_t>(params, rule.bytes_offset) * read<uint64_t>(params, rule.bytes_offset + 8u);
      break;
    case BytesAt::nowhere:
      break;
  }
  return arguments;
}

bool launch_arguments(LaunchForm form, const void* params, Shape* shape, uint64_t* stream) {
  if (params == nullptr) return false;
  switch (form) {
    case LaunchForm::dim3_arguments: {
      const auto& p = *static_cast<const cudaLaunchKernel_v7000_params*>(params);
      set_dimensions(shape, p.gridDim, p.blockDim, p.sharedMem);
      *stream = number(p.stream);
      return true;
    }
    case LaunchForm::runtime_config:
      return config_arguments(static_cast<const cudaLaunchKernelExC_v11060_params*>(params)->config, shape,
                              stream);
    case LaunchForm::driver_arguments: {
      const auto& p = *static_cast<const cuLaunchKernel_params*>(params);
      set_driver_dimensions(shape, p);
      *stream = number(p.hStream);
      return true;
    }
    case LaunchForm::driver_config:
      return config_arguments(static_cast<const cuLaunchKernelEx_params*>(params)->config, shape, stream);
    case LaunchForm::driver_list:
      return list_arguments(*static_cast<const cuLaunchCooperativeKernelMultiDevice_params*>(params), shape,
                            stream);
    case LaunchForm::graph:
      *stream = number(static_cast<const cuGraphLaunch_params*>(params)->hStream);
      return false;
    case LaunchForm::driver_grid:  // block and shared memory were set by calls before it
    case LaunchForm::none:
      return false;
  }
  return false;
}

}  // namespace warpsight
