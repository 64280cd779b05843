// A scripted stand-in for NVIDIA's libsanitizer-public.so, and the program that is traced: it loads the
// injected library as the CUDA driver does, and its "kernels" are threads that write records to the ring as
// the patches do.
//
// Steps of the program: load:CUBIN, launch:KERNEL:THREADS:RECORDS (each thread writes so many, or comes so
// often to each point of a delay plan), quit (without exit handlers). STANDIN, a comma list:
// refuse_subscribe, refuse_patches, refuse_memory.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "sanitizer/event_format.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// As in the Sanitizer's documentation, as far as the tracer reads them.
struct ModuleData {
  void *context, *module;
  size_t bytes;
  const char* cubin;
  void* library;
};

struct LaunchData {
  void *context, *stream, *stream_handle, *module, *function;
  const char* name;
  uint32_t grid[3], block[3], cluster[3];
  uint64_t grid_id;
  void* launch;
  int device;
  void *api_context, *api_stream, *api_stream_handle;
};

using Callback = void (*)(void*, int, uint32_t, const void*);
constexpr int kResource = 3, kLaunch = 5, kSuccess = 0, kInvalid = 1, kMemory = 7, kOperation = 6;
constexpr uint32_t kModuleLoaded = 9, kLaunchBegin = 1;

Callback g_callback = nullptr;
const WsLaunch* g_userdata = nullptr;  // of the launch that begins
int g_patched = 0;

bool asked(const char* what) {
  const char* text = getenv("STANDIN");
  return text != nullptr && strstr(text, what) != nullptr;
}

// One record of four lanes, as ws_record writes it: the words in any order, none of them zero.
void write_record(const WsLaunch& launch, uint32_t thread, uint64_t number) {
  constexpr uint64_t kWords = WS_EVENT_HEADER_WORDS + 1;
  const uint64_t at = __atomic_fetch_add(launch.head, kWords, __ATOMIC_RELAXED);
  while (static_cast<int64_t>(at + kWords - *launch.tail) > static_cast<int64_t>(launch.mask + 1)) usleep(10);
  const uint64_t words[kWords] = {0xfull | 3ull << 32 | kWords << 40 | 1ull << 48 | 4ull << 56, 0,
                                  launch.launch | static_cast<uint64_t>(thread) << 32, 1000 + number,
                                  number * 4};
  for (uint64_t i = kWords; i-- > 0;) {
    const uint64_t word = words[i] != 0 ? words[i] : launch.zero;
    __atomic_store_n(&launch.ring[(at + i) & launch.mask], word, __ATOMIC_RELAXED);
  }
}

// A warp comes to an instruction: if it is to wait, the record of that, as the patches write it (one lane).
void come_to(const WsLaunch& launch, uint32_t warp, uint32_t warps, const WsPoint& point) {
  constexpr uint64_t kWords = WS_EVENT_HEADER_WORDS + 2;
  if ((launch.warps >> (warp & 31) & 1) == 0 || (launch.ranks & 1) == 0) return;
  if (launch.block_count > 0 && launch.blocks[0].low > 0) return;  // the only block is 0
  unsigned long long& counter = launch.occurrences[warp * launch.places + point.place];
  const uint32_t occurrence = counter >> 32 == launch.stamp ? static_cast<uint32_t>(counter) : 0;
  counter = static_cast<uint64_t>(launch.stamp) << 32 | (occurrence + 1);
  const int64_t ns = launch.rule.depth > 0
                         ? ws_priority_delay(launch.rule, occurrence, launch.index, warp, warps)
                         : ws_delay_of(launch.rule, point.number, occurrence, launch.index, 0, warp);
  if (ns < 0) return;
  const uint64_t at = __atomic_fetch_add(launch.head, kWords, __ATOMIC_RELAXED);
  while (static_cast<int64_t>(at + kWords - *launch.tail) > static_cast<int64_t>(launch.mask + 1)) usleep(10);
  const uint64_t kind = WS_DELAY_KIND;
  const uint64_t words[kWords] = {
      1 | kind << 32 | kWords << 40 | 5ull << 48,
      point.pc,
      launch.launch | static_cast<uint64_t>(warp) << 32 | static_cast<uint64_t>(point.kind) << 40,
      1000 + occurrence,
      static_cast<uint64_t>(ns),
      occurrence};
  for (uint64_t i = kWords; i-- > 0;)
    __atomic_store_n(&launch.ring[(at + i) & launch.mask], words[i] != 0 ? words[i] : launch.zero,
                     __ATOMIC_RELAXED);
}

}  // namespace

EXPORT int sanitizerSubscribe(void** subscriber, Callback callback, void*) {
  if (asked("refuse_subscribe")) return kOperation;
  g_callback = callback;
  *subscriber = &g_callback;
  return kSuccess;
}
EXPORT int sanitizerEnableDomain(uint32_t, void*, int) { return kSuccess; }
EXPORT int sanitizerGetResultString(int result, const char** text) {
  *text = result == kOperation ? "The current operation cannot be performed" : "refused";
  return kSuccess;
}
EXPORT int sanitizerAddPatchesFromFile(const char*, void*) {
  return asked("refuse_patches") ? kInvalid : kSuccess;
}
EXPORT int sanitizerPatchInstructions(int, void*, const char*) { return kSuccess; }
EXPORT int sanitizerPatchModule(void*) { return ++g_patched, kSuccess; }
EXPORT int sanitizerSetLaunchCallbackData(void*, void*, void*, const void* data) {
  g_userdata = static_cast<const WsLaunch*>(data);
  return kSuccess;
}
EXPORT int sanitizerGetFunctionPcAndSize(void*, const char*, uint64_t* pc, uint64_t* size) {
  *pc = 0x7f0000000000;
  *size = 0x400;
  return kSuccess;
}
EXPORT int sanitizerAlloc(void*, void** memory, size_t size) {
  *memory = calloc(1, size);
  return *memory != nullptr ? kSuccess : kMemory;
}
EXPORT int sanitizerAllocHost(void* context, void** memory, size_t size) {
  return asked("refuse_memory") ? kMemory : sanitizerAlloc(context, memory, size);
}
EXPORT int sanitizerMemset(void* memory, int value, size_t size, void*) {
  memset(memory, value, size);
  return kSuccess;
}
EXPORT int sanitizerMemcpyHostToDeviceAsync(void* to, void* from, size_t size, void*) {
  memcpy(to, from, size);
  return kSuccess;
}

namespace {

void load(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string cubin((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const ModuleData data = {&g_patched, &g_userdata, cubin.size(), cubin.data(), nullptr};
  if (g_callback != nullptr) g_callback(nullptr, kResource, kModuleLoaded, &data);
}

void launch(const std::string& kernel, int threads, uint64_t records) {
  g_userdata = nullptr;
  LaunchData data = {};
  data.context = &g_patched;
  data.module = &g_userdata;
  data.name = kernel.c_str();
  for (auto* size : {data.grid, data.block, data.cluster}) size[0] = size[1] = size[2] = 1;
  data.block[0] = 32 * static_cast<uint32_t>(threads);
  if (g_callback != nullptr) g_callback(nullptr, kLaunch, kLaunchBegin, &data);
  if (g_userdata == nullptr) return;
  std::vector<std::thread> warps;
  for (int warp = 0; warp < threads; ++warp) {
    warps.emplace_back([warp, threads, records] {
      const WsLaunch& launch = *g_userdata;
      for (uint64_t i = 0; i < records; ++i) {
        if (launch.mode != WS_DELAY) write_record(launch, static_cast<uint32_t>(warp), i);
        for (uint32_t at = 0; launch.mode == WS_DELAY && at < launch.point_count; ++at)
          come_to(launch, static_cast<uint32_t>(warp), static_cast<uint32_t>(threads), launch.points[at]);
      }
    });
  }
  for (auto& warp : warps) warp.join();
}

}  // namespace

EXPORT int standin_main(int argc, char** argv) {
  void* injected = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (injected == nullptr) return fprintf(stderr, "%s\n", dlerror()), 2;
  reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  for (int i = 1; i < argc; ++i) {
    std::vector<std::string> words(1);
    for (const char* at = argv[i]; *at != 0; ++at)
      *at == ':' ? (void)words.emplace_back() : words.back().push_back(*at);
    if (words[0] == "load") load(words[1].c_str());
    if (words[0] == "launch")
      launch(words[1], atoi(words[2].c_str()), strtoull(words[3].c_str(), nullptr, 10));
    if (words[0] == "quit") _exit(5);
  }
  printf("patched %d\n", g_patched);
  return 0;
}
