// A scripted stand-in for NVIDIA's libsanitizer-public.so, and the program that is traced: it loads the
// injected library as the CUDA driver does, and its "kernels" are threads that write records to the ring as
// the patches do.
//
// Steps of the program: load:CUBIN, launch:KERNEL:THREADS:RECORDS (each thread writes so many, or comes so
// often to each point of a delay plan, or adds so often to the maps of probes), cuda:LIBRARY (loads it),
// image:FILE:BYTES (cuModuleLoadData of a file; what is loaded in its place has so many bytes), written
// (waits until the launch's records are in the event file), sync (waits for all launches), quit (without exit
// handlers). STANDIN, a comma list: refuse_subscribe, refuse_patches, refuse_memory, refuse_copies.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "sanitizer/event_format.h"
#include "sanitizer/probe_format.h"

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

struct CallData {
  int site;
  const char* name;
  const void *parameters, *result;
  void *context, *stream;
};

using Callback = void (*)(void*, int, uint32_t, const void*);
constexpr int kDriver = 1, kResource = 3, kSynchronize = 4, kLaunch = 5, kSuccess = 0, kInvalid = 1,
              kMemory = 7, kOperation = 6;
constexpr uint32_t kModuleLoadData = 19, kModuleLoaded = 9, kLaunchBegin = 1, kContextSynchronized = 2;

Callback g_callback = nullptr;
const WsLaunch* g_userdata = nullptr;  // of the launch that begins
int g_patched = 0;

std::vector<std::function<void()>> g_later;  // what the NULL stream has still to do

void do_later() {
  for (const auto& one : g_later) one();
  g_later.clear();
}

int copy_later(void* to, const void* from, size_t size) {
  const std::string text(static_cast<const char*>(from), size);
  g_later.push_back([=] { memcpy(to, text.data(), size); });
  return kSuccess;
}

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

// A probe that adds to a map of one word per warp and to one of the launch, for which a warp with an odd
// number finds no place.
void probe(const WsLaunch& launch, uint32_t warp) {
  unsigned long long* const own = launch.probe->maps[0] + 1 + warp;
  ++*own;
  __atomic_fetch_add(&launch.probe->maps[1][warp % 2 == 0 ? 1 : 0], 1, __ATOMIC_RELAXED);
}

// A race of a launch that is looked at for races, as the patches tell it: the kernel's first access, by two
// blocks, `count` times so far; and accesses that were left out.
void tell_race(const WsLaunch& launch, uint64_t count) {
  constexpr uint64_t kWords = WS_EVENT_HEADER_WORDS + 4;
  const uint64_t encodings = WS_LIST | WS_LIST << 2 | WS_VALUE_EACH << 4, pc = launch.race->site_pcs[1];
  const uint64_t head = 2 | kWords << 40 | encodings << 48 | 16ull << 56;
  const uint64_t races[] = {head | static_cast<uint64_t>(WS_RACE_KIND) << 32,
                            pc,
                            launch.launch | 0x24ull << 40,
                            1,
                            0x7f0000000010,
                            pc | 37ull << 32,
                            count,
                            3};
  const uint64_t others[] = {
      head | static_cast<uint64_t>(WS_UNWATCHED_KIND) << 32, 0, launch.launch, 1, WS_NO_SHADOW, 0, count, 0};
  for (const uint64_t* words : {races, others}) {
    const uint64_t at = __atomic_fetch_add(launch.head, kWords, __ATOMIC_RELAXED);
    for (uint64_t i = kWords; i-- > 0;)
      __atomic_store_n(&launch.ring[(at + i) & launch.mask], words[i] != 0 ? words[i] : launch.zero,
                       __ATOMIC_RELAXED);
  }
}

}  // namespace

EXPORT int sanitizerSubscribe(void** subscriber, Callback callback, void*) {
  if (asked("refuse_subscribe")) return kOperation;
  g_callback = callback;
  *subscriber = &g_callback;
  return kSuccess;
}
EXPORT int sanitizerEnableDomain(uint32_t, void*, int) { return kSuccess; }
EXPORT int sanitizerEnableCallback(uint32_t, void*, int, uint32_t) { return kSuccess; }
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
  constexpr size_t kShadow = 64 << 20;  // more than this at once is a shadow
  *memory = asked("refuse_shadow") && size >= kShadow ? nullptr : calloc(1, size);
  if (*memory != nullptr) memset(*memory, 0xa5, std::min<size_t>(size, 1 << 20));  // of another program
  return *memory != nullptr ? kSuccess : kMemory;
}
EXPORT int sanitizerAllocHost(void*, void** memory, size_t size) {
  *memory = asked("refuse_memory") ? nullptr : calloc(1, size);
  return *memory != nullptr ? kSuccess : kMemory;
}
// In the NULL stream it happens later than this call, and later than what other streams do, until the program
// waits for that stream by a copy to the host.
EXPORT int sanitizerMemset(void* memory, int value, size_t size, void* stream) {
  if (stream == nullptr)
    g_later.push_back([=] { memset(memory, value, size); });
  else
    memset(memory, value, size);
  return kSuccess;
}
EXPORT int sanitizerMemcpyHostToDeviceAsync(void* to, void* from, size_t size, void* stream) {
  if (stream == nullptr) return copy_later(to, from, size);
  memcpy(to, from, size);
  return kSuccess;
}
EXPORT int sanitizerMemcpyDeviceToHost(void* to, void* from, size_t size, void* stream) {
  if (stream == nullptr)
    do_later();
  else if (asked("refuse_copies"))
    return kInvalid;
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

// The driver is given a module, and goes on with what the parameters then name.
void load_image(const char* path, size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  struct {
    void** module;
    const void* image;
  } parameters = {nullptr, image.c_str()};
  const CallData call = {0, "cuModuleLoadData", &parameters, nullptr, nullptr, nullptr};
  if (g_callback != nullptr) g_callback(nullptr, kDriver, kModuleLoadData, &call);
  const bool kept = parameters.image == image.c_str();
  printf("%s\n", kept ? "kept" : "replaced");
  if (kept) return;
  const ModuleData data = {&g_patched, &g_userdata, bytes, static_cast<const char*>(parameters.image),
                           nullptr};
  if (g_callback != nullptr) g_callback(nullptr, kResource, kModuleLoaded, &data);
}

// The description that a kernel with compiled checks finds by the number of its grid.
const WsLaunch* found_by(uint64_t grid) {
  const auto* places = static_cast<const WsPlace* const*>(dlsym(RTLD_DEFAULT, "standin_places"));
  if (places == nullptr || *places == nullptr) return nullptr;
  const WsPlace& place = (*places)[grid % WS_PLACES];
  return place.grid == grid ? place.launch : nullptr;
}

// Bytes of the event file.
off_t written() {
  const std::string text = getenv("WARPSIGHT_EVENTS");
  const size_t begin = text.find("file=") + 5;
  const std::string path =
      text.substr(begin, text.find('\n', begin) - begin) + "." + std::to_string(getpid());
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 ? found.st_size : 0;
}

off_t g_described = 0;  // bytes of the file when the last launch was described and had no records yet

void launch(const std::string& kernel, int threads, uint64_t records) {
  static uint64_t grids = 0;
  g_userdata = nullptr;
  LaunchData data = {};
  data.context = &g_patched;
  data.module = &g_userdata;
  data.stream = data.stream_handle = data.api_stream = data.api_stream_handle = &g_later;
  data.name = kernel.c_str();
  for (auto* size : {data.grid, data.block, data.cluster}) size[0] = size[1] = size[2] = 1;
  data.block[0] = 32 * static_cast<uint32_t>(threads);
  data.grid_id = ++grids;
  if (g_callback != nullptr) g_callback(nullptr, kLaunch, kLaunchBegin, &data);
  if (g_userdata == nullptr) g_userdata = found_by(data.grid_id);
  if (g_userdata == nullptr) return;
  g_described = written();
  std::vector<std::thread> warps;
  for (int warp = 0; warp < threads; ++warp) {
    warps.emplace_back([warp, threads, records] {
      const WsLaunch& launch = *g_userdata;
      for (uint64_t i = 0; i < records; ++i) {
        if (launch.mode == WS_PROBE) probe(launch, static_cast<uint32_t>(warp));
        if (launch.mode == WS_CHECK && warp == 0) tell_race(launch, i + 1);
        if (launch.mode == WS_RECORD || launch.mode == WS_NOTE)
          write_record(launch, static_cast<uint32_t>(warp), i);
        for (uint32_t at = 0; launch.mode == WS_DELAY && at < launch.point_count; ++at)
          come_to(launch, static_cast<uint32_t>(warp), static_cast<uint32_t>(threads), launch.points[at]);
      }
    });
  }
  for (auto& warp : warps) warp.join();
}

void synchronize() {
  const void* const data[] = {&g_patched, nullptr, nullptr};  // context, stream and its handle
  if (g_callback != nullptr) g_callback(nullptr, kSynchronize, kContextSynchronized, data);
}

}  // namespace

static void change_plan(void* injected, const char* path) {
  const auto change = reinterpret_cast<int (*)(const char*)>(dlsym(injected, "warpsight_race_plan"));
  printf("plan %d\n", change(path));
}

EXPORT int standin_main(int argc, char** argv) {
  void* injected = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (injected == nullptr) return fprintf(stderr, "%s\n", dlerror()), 2;
  reinterpret_cast<int (*)()>(dlsym(injected, "InitializeInjection"))();
  for (int i = 1; i < argc; ++i) {
    std::vector<std::string> words(1);
    for (const char* at = argv[i]; *at != 0; ++at)
      *at == ':' ? (void)words.emplace_back() : words.back().push_back(*at);
    if (words[0] == "cuda" && dlopen(words[1].c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return 3;
    if (words[0] == "image") load_image(words[1].c_str(), strtoull(words[2].c_str(), nullptr, 10));
    if (words[0] == "load") load(words[1].c_str());
    if (words[0] == "launch")
      launch(words[1], atoi(words[2].c_str()), strtoull(words[3].c_str(), nullptr, 10));
    if (words[0] == "plan") change_plan(injected, words[1].c_str());
    if (words[0] == "sync") synchronize();
    while (words[0] == "written" && written() == g_described) usleep(1000);
    if (words[0] == "quit") _exit(5);
  }
  printf("patched %d\n", g_patched);
  return 0;
}
