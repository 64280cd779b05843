// NVTX 3's injection interface (nvtxDetail/nvtxTypes.h and nvToolsExt.h of NVIDIA's NVTX, API version 3), in
// the few structs and numbers a handler needs, so that the library builds without NVIDIA's headers. The ABI
// is frozen: every program carries its own copy of it, compiled in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsight::nvtx {

using Function = void (*)();

// Export tables the program offers at initialization.
constexpr uint32_t kCallbacksTable = 1, kVersionTable = 3;
struct CallbacksTable {
  size_t struct_size;
  // *table receives an array of pointers to function pointers, *size its length.
  int (*module_function_table)(int module, Function*** table, unsigned* size);
};
using GetExportTable = const void* (*)(uint32_t id);

enum Module { kCore = 1, kCuda = 2, kOpenCl = 3, kCudaRt = 4, kCore2 = 5, kSync = 6 };

enum Core {
  kMarkEx = 1,
  kMarkA,
  kMarkW,
  kRangeStartEx,
  kRangeStartA,
  kRangeStartW,
  kRangeEnd,
  kRangePushEx,
  kRangePushA,
  kRangePushW,
  kRangePop,
  kNameCategoryA,
  kNameCategoryW,
  kNameOsThreadA,
  kNameOsThreadW
};
enum Core2 {
  kDomainMarkEx = 1,
  kDomainRangeStartEx,
  kDomainRangeEnd,
  kDomainRangePushEx,
  kDomainRangePop,
  kDomainResourceCreate,
  kDomainResourceDestroy,
  kDomainNameCategoryA,
  kDomainNameCategoryW,
  kDomainRegisterStringA,
  kDomainRegisterStringW,
  kDomainCreateA,
  kDomainCreateW,
  kDomainDestroy,
  kInitialize
};
enum CudaNames { kNameCuStreamA = 5, kNameCuStreamW = 6 };        // module kCuda; also device, context, event
enum CudaRtNames { kNameCudaStreamA = 3, kNameCudaStreamW = 4 };  // module kCudaRt

enum MessageType : int32_t { kAscii = 1, kUnicode = 2, kRegistered = 3 };
constexpr int32_t kArgb = 1;
// payloadType of an extended payload: `payload` points to `reserved0` ExtendedPayload structs.
constexpr int32_t kExtendedPayload = static_cast<int32_t>(0xDFBD0009);

struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved0;
  uint64_t payload;
  int32_t message_type;
  int32_t reserved1;
  const void* message;
};
static_assert(sizeof(EventAttributes) == 48, "nvtxEventAttributes_t");

struct ExtendedPayload {
  uint64_t schema;
  size_t size;
  const void* bytes;
};

// The payload extension: module kPayloadModule offers slots for these functions.
constexpr uint16_t kPayloadModule = 2;
enum PayloadFunction {
  kSchemaRegister = 0,
  kEnumRegister,
  kMarkPayload,
  kRangePushPayload,
  kRangePopPayload,
  kRangeStartPayload,
  kRangeEndPayload,
  kDomainIsEnabled
};
struct ExtensionSegment {
  size_t id;
  size_t slots;
  intptr_t* functions;
};
struct ExtensionModule {
  uint16_t version;
  uint16_t size;
  uint16_t module;
  uint16_t compatibility;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export)(uint32_t id);
  const void* information;
};

struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t detail;  // elements of a fixed-size array
  uint64_t offset;
  const void* semantics;
  const void* reserved;
};
struct SchemaAttributes {
  uint64_t field_mask;
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_size;
  size_t alignment;
  uint64_t schema;
  void* extension;
};

struct ResourceAttributes {
  uint16_t version;
  uint16_t size;
  int32_t identifier_type;
  uint64_t identifier;
  int32_t message_type;
  int32_t reserved0;
  const void* message;
};
constexpr int32_t kCudaStreamResource = 0x40003, kCudaRtStreamResource = 0x50001;

}  // namespace warpsight::nvtx
