#include "cuda/addresses.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "cuda/api_rules.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

// How to get a function's addresses from its arguments.
enum class Form : uint8_t {
  values,           // the addresses themselves
  runtime_3d,       // cudaMemcpy3DParms
  runtime_3d_peer,  // cudaMemcpy3DPeerParms
  driver_2d,        // CUDA_MEMCPY2D
  driver_3d,        // CUDA_MEMCPY3D
  driver_3d_peer,   // CUDA_MEMCPY3D_PEER
  runtime_set,      // cudaMemsetParams
  driver_set,       // CUDA_MEMSET_NODE_PARAMS
  runtime_node,     // cudaGraphNodeParams
  driver_node,      // CUgraphNodeParams
};
constexpr uint8_t kUnknown = 0xff;

struct AddressRule {
  uint16_t cbid;
  uint8_t domain;
  Form form;
  uint8_t destination;  // offset of the address, or of the pointer to the struct
  uint8_t source;       // offset of the address
};

#define OFFSET(name, field) static_cast<uint8_t>(offsetof(name##_params, field))
#define RUNTIME(name) CUPTI_RUNTIME_TRACE_CBID_##name, CUPTI_CB_DOMAIN_RUNTIME_API
#define DRIVER(name) CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_CB_DOMAIN_DRIVER_API
#define BOTH(domain, name, to, from) {domain(name), Form::values, OFFSET(name, to), OFFSET(name, from)},
#define TO(domain, name, to) {domain(name), Form::values, OFFSET(name, to), kUnknown},
#define FROM(domain, name, from) {domain(name), Form::values, kUnknown, OFFSET(name, from)},
#define STRUCT(domain, name, form, field) {domain(name), Form::form, OFFSET(name, field), kUnknown},

constexpr AddressRule kRules[] = {
    // clang-format off
    BOTH(RUNTIME, cudaMemcpy_v3020, dst, src)
    BOTH(RUNTIME, cudaMemcpy2D_v3020, dst, src)
    FROM(RUNTIME, cudaMemcpyToArray_v3020, src)
    FROM(RUNTIME, cudaMemcpy2DToArray_v3020, src)
    TO(RUNTIME, cudaMemcpyFromArray_v3020, dst)
    TO(RUNTIME, cudaMemcpy2DFromArray_v3020, dst)
    FROM(RUNTIME, cudaMemcpyToSymbol_v3020, src)
    TO(RUNTIME, cudaMemcpyFromSymbol_v3020, dst)
    BOTH(RUNTIME, cudaMemcpyAsync_v3020, dst, src)
    FROM(RUNTIME, cudaMemcpyToArrayAsync_v3020, src)
    TO(RUNTIME, cudaMemcpyFromArrayAsync_v3020, dst)
    BOTH(RUNTIME, cudaMemcpy2DAsync_v3020, dst, src)
    FROM(RUNTIME, cudaMemcpy2DToArrayAsync_v3020, src)
    TO(RUNTIME, cudaMemcpy2DFromArrayAsync_v3020, dst)
    FROM(RUNTIME, cudaMemcpyToSymbolAsync_v3020, src)
    TO(RUNTIME, cudaMemcpyFromSymbolAsync_v3020, dst)
    STRUCT(RUNTIME, cudaMemcpy3D_v3020, runtime_3d, p)
    STRUCT(RUNTIME, cudaMemcpy3DAsync_v3020, runtime_3d, p)
    BOTH(RUNTIME, cudaMemcpyPeer_v4000, dst, src)
    BOTH(RUNTIME, cudaMemcpyPeerAsync_v4000, dst, src)
    STRUCT(RUNTIME, cudaMemcpy3DPeer_v4000, runtime_3d_peer, p)
    STRUCT(RUNTIME, cudaMemcpy3DPeerAsync_v4000, runtime_3d_peer, p)
    BOTH(RUNTIME, cudaMemcpy_ptds_v7000, dst, src)
    BOTH(RUNTIME, cudaMemcpy2D_ptds_v7000, dst, src)
    FROM(RUNTIME, cudaMemcpyToArray_ptds_v7000, src)
    FROM(RUNTIME, cudaMemcpy2DToArray_ptds_v7000, src)
    TO(RUNTIME, cudaMemcpyFromArray_ptds_v7000, dst)
    TO(RUNTIME, cudaMemcpy2DFromArray_ptds_v7000, dst)
    FROM(RUNTIME, cudaMemcpyToSymbol_ptds_v7000, src)
    TO(RUNTIME, cudaMemcpyFromSymbol_ptds_v7000, dst)
    BOTH(RUNTIME, cudaMemcpyAsync_ptsz_v7000, dst, src)
    FROM(RUNTIME, cudaMemcpyToArrayAsync_ptsz_v7000, src)
    TO(RUNTIME, cudaMemcpyFromArrayAsync_ptsz_v7000, dst)
    BOTH(RUNTIME, cudaMemcpy2DAsync_ptsz_v7000, dst, src)
    FROM(RUNTIME, cudaMemcpy2DToArrayAsync_ptsz_v7000, src)
    TO(RUNTIME, cudaMemcpy2DFromArrayAsync_ptsz_v7000, dst)
    FROM(RUNTIME, cudaMemcpyToSymbolAsync_ptsz_v7000, src)
    TO(RUNTIME, cudaMemcpyFromSymbolAsync_ptsz_v7000, dst)
    STRUCT(RUNTIME, cudaMemcpy3D_ptds_v7000, runtime_3d, p)
    STRUCT(RUNTIME, cudaMemcpy3DAsync_ptsz_v7000, runtime_3d, p)
    STRUCT(RUNTIME, cudaMemcpy3DPeer_ptds_v7000, runtime_3d_peer, p)
    STRUCT(RUNTIME, cudaMemcpy3DPeerAsync_ptsz_v7000, runtime_3d_peer, p)
    BOTH(DRIVER, cuMemcpyHtoD_v2, dstDevice, srcHost)
    BOTH(DRIVER, cuMemcpyHtoDAsync_v2, dstDevice, srcHost)
    BOTH(DRIVER, cuMemcpyDtoH_v2, dstHost, srcDevice)
    BOTH(DRIVER, cuMemcpyDtoHAsync_v2, dstHost, srcDevice)
    BOTH(DRIVER, cuMemcpyDtoD_v2, dstDevice, srcDevice)
    BOTH(DRIVER, cuMemcpyDtoDAsync_v2, dstDevice, srcDevice)
    TO(DRIVER, cuMemcpyAtoH_v2, dstHost)
    TO(DRIVER, cuMemcpyAtoHAsync_v2, dstHost)
    TO(DRIVER, cuMemcpyAtoD_v2, dstDevice)
    FROM(DRIVER, cuMemcpyDtoA_v2, srcDevice)
    STRUCT(DRIVER, cuMemcpy2D_v2, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy2DUnaligned_v2, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy2DAsync_v2, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy3D_v2, driver_3d, pCopy)
    STRUCT(DRIVER, cuMemcpy3DAsync_v2, driver_3d, pCopy)
    FROM(DRIVER, cuMemcpyHtoA_v2, srcHost)
    FROM(DRIVER, cuMemcpyHtoAAsync_v2, srcHost)
    BOTH(DRIVER, cuMemcpy, dst, src)
    BOTH(DRIVER, cuMemcpyAsync, dst, src)
    BOTH(DRIVER, cuMemcpyPeer, dstDevice, srcDevice)
    BOTH(DRIVER, cuMemcpyPeerAsync, dstDevice, srcDevice)
    STRUCT(DRIVER, cuMemcpy3DPeer, driver_3d_peer, pCopy)
    STRUCT(DRIVER, cuMemcpy3DPeerAsync, driver_3d_peer, pCopy)
    BOTH(DRIVER, cuMemcpyHtoD_v2_ptds, dstDevice, srcHost)
    BOTH(DRIVER, cuMemcpyDtoH_v2_ptds, dstHost, srcDevice)
    BOTH(DRIVER, cuMemcpyDtoD_v2_ptds, dstDevice, srcDevice)
    FROM(DRIVER, cuMemcpyDtoA_v2_ptds, srcDevice)
    TO(DRIVER, cuMemcpyAtoD_v2_ptds, dstDevice)
    FROM(DRIVER, cuMemcpyHtoA_v2_ptds, srcHost)
    TO(DRIVER, cuMemcpyAtoH_v2_ptds, dstHost)
    STRUCT(DRIVER, cuMemcpy2D_v2_ptds, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy2DUnaligned_v2_ptds, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy3D_v2_ptds, driver_3d, pCopy)
    BOTH(DRIVER, cuMemcpy_ptds, dst, src)
    BOTH(DRIVER, cuMemcpyPeer_ptds, dstDevice, srcDevice)
    STRUCT(DRIVER, cuMemcpy3DPeer_ptds, driver_3d_peer, pCopy)
    BOTH(DRIVER, cuMemcpyAsync_ptsz, dst, src)
    FROM(DRIVER, cuMemcpyHtoAAsync_v2_ptsz, srcHost)
    TO(DRIVER, cuMemcpyAtoHAsync_v2_ptsz, dstHost)
    BOTH(DRIVER, cuMemcpyHtoDAsync_v2_ptsz, dstDevice, srcHost)
    BOTH(DRIVER, cuMemcpyDtoHAsync_v2_ptsz, dstHost, srcDevice)
    BOTH(DRIVER, cuMemcpyDtoDAsync_v2_ptsz, dstDevice, srcDevice)
    STRUCT(DRIVER, cuMemcpy2DAsync_v2_ptsz, driver_2d, pCopy)
    STRUCT(DRIVER, cuMemcpy3DAsync_v2_ptsz, driver_3d, pCopy)
    BOTH(DRIVER, cuMemcpyPeerAsync_ptsz, dstDevice, srcDevice)
    STRUCT(DRIVER, cuMemcpy3DPeerAsync_ptsz, driver_3d_peer, pCopy)
    TO(RUNTIME, cudaMemset_v3020, devPtr)
    TO(RUNTIME, cudaMemset2D_v3020, devPtr)
    TO(RUNTIME, cudaMemsetAsync_v3020, devPtr)
    TO(RUNTIME, cudaMemset2DAsync_v3020, devPtr)
    TO(RUNTIME, cudaMemset3D_v3020, pitchedDevPtr)
    TO(RUNTIME, cudaMemset3DAsync_v3020, pitchedDevPtr)
    TO(RUNTIME, cudaMemset_ptds_v7000, devPtr)
    TO(RUNTIME, cudaMemset2D_ptds_v7000, devPtr)
    TO(RUNTIME, cudaMemsetAsync_ptsz_v7000, devPtr)
    TO(RUNTIME, cudaMemset2DAsync_ptsz_v7000, devPtr)
    TO(RUNTIME, cudaMemset3D_ptds_v7000, pitchedDevPtr)
    TO(RUNTIME, cudaMemset3DAsync_ptsz_v7000, pitchedDevPtr)
    TO(DRIVER, cuMemsetD8Async, dstDevice)
    TO(DRIVER, cuMemsetD16Async, dstDevice)
    TO(DRIVER, cuMemsetD32Async, dstDevice)
    TO(DRIVER, cuMemsetD2D8Async, dstDevice)
    TO(DRIVER, cuMemsetD2D16Async, dstDevice)
    TO(DRIVER, cuMemsetD2D32Async, dstDevice)
    TO(DRIVER, cuMemsetD8_v2, dstDevice)
    TO(DRIVER, cuMemsetD16_v2, dstDevice)
    TO(DRIVER, cuMemsetD32_v2, dstDevice)
    TO(DRIVER, cuMemsetD2D8_v2, dstDevice)
    TO(DRIVER, cuMemsetD2D16_v2, dstDevice)
    TO(DRIVER, cuMemsetD2D32_v2, dstDevice)
    TO(DRIVER, cuMemsetD8_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD16_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD32_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD2D8_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD2D16_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD2D32_v2_ptds, dstDevice)
    TO(DRIVER, cuMemsetD8Async_ptsz, dstDevice)
    TO(DRIVER, cuMemsetD16Async_ptsz, dstDevice)
    TO(DRIVER, cuMemsetD32Async_ptsz, dstDevice)
    TO(DRIVER, cuMemsetD2D8Async_ptsz, dstDevice)
    TO(DRIVER, cuMemsetD2D16Async_ptsz, dstDevice)
    TO(DRIVER, cuMemsetD2D32Async_ptsz, dstDevice)
    // Graph nodes
    STRUCT(RUNTIME, cudaGraphAddMemcpyNode_v10000, runtime_3d, pCopyParams)
    STRUCT(RUNTIME, cudaGraphMemcpyNodeSetParams_v10000, runtime_3d, pNodeParams)
    STRUCT(RUNTIME, cudaGraphExecMemcpyNodeSetParams_v10020, runtime_3d, pNodeParams)
    STRUCT(RUNTIME, cudaGraphAddMemsetNode_v10000, runtime_set, pMemsetParams)
    STRUCT(RUNTIME, cudaGraphMemsetNodeSetParams_v10000, runtime_set, pNodeParams)
    STRUCT(RUNTIME, cudaGraphExecMemsetNodeSetParams_v10020, runtime_set, pNodeParams)
    BOTH(RUNTIME, cudaGraphAddMemcpyNode1D_v11010, dst, src)
    BOTH(RUNTIME, cudaGraphMemcpyNodeSetParams1D_v11010, dst, src)
    BOTH(RUNTIME, cudaGraphExecMemcpyNodeSetParams1D_v11010, dst, src)
    FROM(RUNTIME, cudaGraphAddMemcpyNodeToSymbol_v11010, src)
    FROM(RUNTIME, cudaGraphMemcpyNodeSetParamsToSymbol_v11010, src)
    FROM(RUNTIME, cudaGraphExecMemcpyNodeSetParamsToSymbol_v11010, src)
    TO(RUNTIME, cudaGraphAddMemcpyNodeFromSymbol_v11010, dst)
    TO(RUNTIME, cudaGraphMemcpyNodeSetParamsFromSymbol_v11010, dst)
    TO(RUNTIME, cudaGraphExecMemcpyNodeSetParamsFromSymbol_v11010, dst)
    STRUCT(RUNTIME, cudaGraphAddNode_v12030, runtime_node, nodeParams)
    STRUCT(DRIVER, cuGraphAddMemcpyNode, driver_3d, copyParams)
    STRUCT(DRIVER, cuGraphMemcpyNodeSetParams, driver_3d, nodeParams)
    STRUCT(DRIVER, cuGraphExecMemcpyNodeSetParams, driver_3d, copyParams)
    STRUCT(DRIVER, cuGraphAddMemsetNode, driver_set, memsetParams)
    STRUCT(DRIVER, cuGraphMemsetNodeSetParams, driver_set, nodeParams)
    STRUCT(DRIVER, cuGraphExecMemsetNodeSetParams, driver_set, memsetParams)
    STRUCT(DRIVER, cuGraphAddNode, driver_node, nodeParams)
    STRUCT(DRIVER, cuGraphAddNode_v2, driver_node, nodeParams)
    STRUCT(RUNTIME, cudaGraphNodeSetParams_v12020, runtime_node, nodeParams)
    STRUCT(RUNTIME, cudaGraphExecNodeSetParams_v12020, runtime_node, nodeParams)
    STRUCT(DRIVER, cuGraphNodeSetParams, driver_node, nodeParams)
    STRUCT(DRIVER, cuGraphExecNodeSetParams, driver_node, nodeParams)
    // clang-format on
};

#undef BOTH
#undef TO
#undef FROM
#undef STRUCT

constexpr uint8_t kNoRule = 0xff;
static_assert(sizeof kRules / sizeof kRules[0] < kNoRule, "rule numbers are 8 bits");
uint8_t g_index[2]
               [kMostCallbackIds];  // rule number by domain and callback id; constant after index_addresses

const AddressRule* rule_of_call(uint8_t domain, uint32_t cbid) {
  const uint32_t row = domain - CUPTI_CB_DOMAIN_DRIVER_API;
  if (row > 1 || cbid >= kMostCallbackIds || g_index[row][cbid] == kNoRule) return nullptr;
  return &kRules[g_index[row][cbid]];
}

template <class T>
T read(const void* params, size_t offset) {
  T value;
  memcpy(&value, static_cast<const char*>(params) + offset, sizeof value);
  return value;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The first byte of a box in pitched memory.
uint64_t first_byte(uint64_t base, size_t x, size_t y, size_t z, size_t pitch, size_t height) {
  return base == 0 ? 0 : base + x + (y + z * height) * pitch;
}

uint64_t first_byte(const cudaPitchedPtr& memory, cudaArray_t array, const cudaPos& at) {
  if (array != nullptr) return 0;
  return first_byte(number(memory.ptr), at.x, at.y, at.z, memory.pitch, memory.ysize);
}

template <class Copy>
Addresses runtime_box(const Copy& p) {
  return {first_byte(p.srcPtr, p.srcArray, p.srcPos), first_byte(p.dstPtr, p.dstArray, p.dstPos)};
}

uint64_t driver_base(CUmemorytype type, const void* host, CUdeviceptr device) {
  if (type == CU_MEMORYTYPE_HOST) return number(host);
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}

Addresses driver_area(const CUDA_MEMCPY2D& p) {
  return {first_byte(driver_base(p.srcMemoryType, p.srcHost, p.srcDevice), p.srcXInBytes, p.srcY, 0,
                     p.srcPitch, 0),
          first_byte(driver_base(p.dstMemoryType, p.dstHost, p.dstDevice), p.dstXInBytes, p.dstY, 0,
                     p.dstPitch, 0)};
}

template <class Copy>
Addresses driver_box(const Copy& p) {
  return {first_byte(driver_base(p.srcMemoryType, p.srcHost, p.srcDevice), p.srcXInBytes, p.srcY, p.srcZ,
                     p.srcPitch, p.srcHeight),
          first_byte(driver_base(p.dstMemoryType, p.dstHost, p.dstDevice), p.dstXInBytes, p.dstY, p.dstZ,
                     p.dstPitch, p.dstHeight)};
}

Addresses node_addresses(const cudaGraphNodeParams& p) {
  if (p.type == cudaGraphNodeTypeMemcpy) return runtime_box(p.memcpy.copyParams);
  if (p.type == cudaGraphNodeTypeMemset) return {0, number(p.memset.dst)};
  return {};
}

Addresses node_addresses(const CUgraphNodeParams& p) {
  if (p.type == CU_GRAPH_NODE_TYPE_MEMCPY) return driver_box(p.memcpy.copyParams);
  if (p.type == CU_GRAPH_NODE_TYPE_MEMSET) return {0, p.memset.dst};
  return {};
}

Addresses of_struct(Form form, const void* p) {
  switch (form) {
    case Form::runtime_3d:
      return runtime_box(*static_cast<const cudaMemcpy3DParms*>(p));
    case Form::runtime_3d_peer:
      return runtime_box(*static_cast<const cudaMemcpy3DPeerParms*>(p));
    case Form::driver_2d:
      return driver_area(*static_cast<const CUDA_MEMCPY2D*>(p));
    case Form::driver_3d:
      return driver_box(*static_cast<const CUDA_MEMCPY3D*>(p));
    case Form::driver_3d_peer:
      return driver_box(*static_cast<const CUDA_MEMCPY3D_PEER*>(p));
    case Form::runtime_set:
      return {0, number(static_cast<const cudaMemsetParams*>(p)->dst)};
    case Form::driver_set:
      return {0, static_cast<const CUDA_MEMSET_NODE_PARAMS*>(p)->dst};
    case Form::runtime_node:
      return node_addresses(*static_cast<const cudaGraphNodeParams*>(p));
    case Form::driver_node:
      return node_addresses(*static_cast<const CUgraphNodeParams*>(p));
    case Form::values:
      break;
  }
  return {};
}

// Copy and fill nodes by id, and the clones of each.
struct Nodes {
  std::unordered_map<uint64_t, Addresses> addresses;
  std::unordered_map<uint64_t, std::vector<uint64_t>> clones;
};
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects nodes(); nothing is called while it is held
Nodes& nodes() {
  static auto* const value = new Nodes;  // never destroyed: callbacks outlive static destructors
  return *value;
}

void write_node_address(uint64_t node, Addresses addresses) {
  NodeAddress row = {};
  row.node = node;
  row.source = addresses.source;
  row.destination = addresses.destination;
  row.time = now_ns();
  write(row);
}

}  // namespace

void index_addresses() {
  memset(g_index, kNoRule, sizeof g_index);
  uint8_t number_of_rule = 0;
  for (const auto& rule : kRules) {
    g_index[rule.domain - CUPTI_CB_DOMAIN_DRIVER_API][rule.cbid] = number_of_rule++;
  }
}

bool has_addresses(uint8_t domain, uint32_t cbid) { return rule_of_call(domain, cbid) != nullptr; }

Addresses addresses_of(uint8_t domain, uint32_t cbid, const void* params) {
  const AddressRule* rule = rule_of_call(domain, cbid);
  if (rule == nullptr || params == nullptr) return {};
  if (rule->form != Form::values) {
    const auto* const pointed = read<const void*>(params, rule->destination);
    return pointed != nullptr ? of_struct(rule->form, pointed) : Addresses{};
  }
  return {rule->source == kUnknown ? 0 : read<uint64_t>(params, rule->source),
          rule->destination == kUnknown ? 0 : read<uint64_t>(params, rule->destination)};
}

void set_node_addresses(uint64_t node, Addresses addresses) {
  const bool known = addresses.source != 0 || addresses.destination != 0;
  pthread_mutex_lock(&g_lock);
  const bool had = nodes().addresses.count(node) != 0;
  if (known)
    nodes().addresses[node] = addresses;
  else
    nodes().addresses.erase(node);
  pthread_mutex_unlock(&g_lock);
  if (known || had) write_node_address(node, addresses);
}

void begin_node_addresses(uint64_t node) {
  forget_node_addresses(node);
  write_node_address(node, {});
}

void clone_node_addresses(uint64_t node, uint64_t original) {
  Addresses addresses = {};
  pthread_mutex_lock(&g_lock);
  const auto found = nodes().addresses.find(original);
  if (found != nodes().addresses.end()) {
    addresses = found->second;
    nodes().clones[original].push_back(node);
  }
  pthread_mutex_unlock(&g_lock);
  begin_node_addresses(node);
  set_node_addresses(node, addresses);
}

void forget_all_clone_addresses() {
  std::vector<uint64_t> originals;
  pthread_mutex_lock(&g_lock);
  for (const auto& one : nodes().clones) originals.push_back(one.first);
  pthread_mutex_unlock(&g_lock);
  for (const uint64_t original : originals) forget_clone_addresses(original);
}

void forget_clone_addresses(uint64_t original) {
  std::vector<uint64_t> clones;
  pthread_mutex_lock(&g_lock);
  const auto found = nodes().clones.find(original);
  if (found != nodes().clones.end()) {
    clones.swap(found->second);
    nodes().clones.erase(found);
  }
  pthread_mutex_unlock(&g_lock);
  for (const uint64_t clone : clones) set_node_addresses(clone, {});
}

void forget_node_addresses(uint64_t node) {
  pthread_mutex_lock(&g_lock);
  nodes().addresses.erase(node);
  nodes().clones.erase(node);
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
