#include "sanitizer/tracer.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "cuda/cubin_names.h"
#include "runtime/own_signals.h"
#include "sanitizer/sha256.h"

namespace warpsight {
namespace {

constexpr uint32_t kMostFunctions = 1024;
constexpr int kQuietMs = 20, kLongestMs = 10'000;
constexpr uint32_t kIdleTurns = 500;  // of 200 us
constexpr uint64_t kNoDelay = ~0ull;
constexpr int kOtherCode = 125;  // exit code where a kernel's code is not the plan's

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
}

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
  return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
}

// Odd, so never zero.
uint64_t random_word() {
  uint64_t word = 0;
  if (getrandom(&word, sizeof word, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof word))
    word = now_ns() * 0x9e3779b97f4a7c15ull;
  return word | 1;
}

// A pair of clocks: the device's are CLOCK_REALTIME's.
std::string clocks() {
  timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const uint64_t ns =
      static_cast<uint64_t>(real.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(real.tv_nsec);
  return "\"monotonic\":" + std::to_string(now_ns()) + ",\"realtime\":" + std::to_string(ns);
}

}  // namespace

Tracer::Tracer(EventRequest request, const SanitizerFunctions& functions)
    : request_(std::move(request)),
      functions_(functions),
      compiled_(request_.mode == WS_CHECK && !request_.compiler.empty()
                    ? std::make_unique<CompiledModules>(request_.compiler, request_.architecture)
                    : nullptr),
      zero_(random_word()) {}

bool Tracer::start() {
  const std::string path = request_.file.empty() ? "" : request_.file + "." + std::to_string(getpid());
  if (!file_.create(path, request_.limit)) return false;
  file_.describe("{\"kind\":\"process\",\"pid\":" + std::to_string(getpid()) + "," + clocks() +
                 ",\"request\":" + (request_.description.empty() ? "{}" : request_.description) + "}");
  if (request_.mode == WS_DELAY && !first_plan_.read(request_.plan))
    file_.lose("the delay plan " + request_.plan + " cannot be read: nothing is delayed", 0);
  plan_ = first_plan_;
  threshold_ = plan_.rule.threshold;
  const StartingThread starting;
  thread_ = std::thread([this] { drain_loop(); });
  return true;
}

bool Tracer::begin_trial(uint64_t seed, bool delays) {
  if (request_.mode != WS_DELAY) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  plan_.rule.seed = seed;
  plan_.rule.threshold = delays ? threshold_ : 0;
  for (const auto& known : contexts_)
    if (known.second != nullptr && known.second->delays != nullptr) known.second->delays->restart();
  return true;
}

bool Tracer::change_plan(const std::string& path) {
  DelayPlan next;
  if (request_.mode != WS_DELAY || !next.read(path)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  plan_ = std::move(next);
  threshold_ = plan_.rule.threshold;
  for (const auto& known : contexts_)
    if (known.second != nullptr && known.second->delays != nullptr) known.second->delays->change();
  for (auto& [handle, module] : modules_) {
    uint32_t place = 0;
    for (auto& [name, delayed] : module.delayed) {
      delayed.place = place;
      delayed.placed = false;
      place += static_cast<uint32_t>(plan_.points_of(delayed.code).size());
    }
  }
  return true;
}

void Tracer::trouble(const std::string& what, SanitizerResult result) {
  const char* text = nullptr;
  functions_.result_string(result, &text);
  const std::string cause =
      what + ": " + (text != nullptr ? text : "error") + " (" + std::to_string(result) + ")";
  if (troubles_.insert(cause).second) file_.lose(cause, 1);
}

bool Tracer::patch(CUmodule handle) {
  if (request_.instructions.empty()) return true;  // a plan with points of the host alone
  bool any = false;
  for (const auto& [id, name] : request_.instructions) {
    const auto result =
        functions_.patch_instructions(static_cast<Sanitizer_InstructionId>(id), handle, name.c_str());
    any |= result == SANITIZER_SUCCESS;
    if (result != SANITIZER_SUCCESS)
      trouble("instructions of class " + std::to_string(id) + " cannot be patched", result);
  }
  const SanitizerResult result = any ? functions_.patch_module(handle) : SANITIZER_ERROR_NOT_SUPPORTED;
  if (result != SANITIZER_SUCCESS) trouble("a module cannot be patched", result);
  return result == SANITIZER_SUCCESS;
}

// Whether the module has code with points. If the plan knows a function with different code, the program
// ends: its offsets would be meaningless there.
bool Tracer::take_points(const Sanitizer_ResourceModuleData& data, Module* module) {
  struct Search {
    const DelayPlan* plan;
    Module* module;
    uint32_t points = 0;
    std::string other;
  } search = {&first_plan_, module, 0, ""};
  const auto take = [](void* context, std::string_view name, std::string_view code) {
    auto* const own = static_cast<Search*>(context);
    const auto known = own->plan->known.find(std::string(name));
    if (known == own->plan->known.end()) return;
    const Code found(name, sha256(code));
    if (known->second.count(found.second) == 0) own->other = found.first;
    const auto points = own->plan->functions.find(found);
    if (points == own->plan->functions.end()) return;
    own->module->delayed[found.first] = {found, own->points, false};
    own->points += static_cast<uint32_t>(points->second.size());
  };
  kernels_of_cubin(data.pCubin, data.cubinSize, take, &search);
  if (!search.other.empty()) {
    const std::string why = "the code of " + search.other + " is not the code that the delay plan is for";
    fprintf(stderr, "warpsight: %s; the program is ended\n", why.c_str());
    file_.lose(why, 1);
    file_.end();
    _exit(kOtherCode);
  }
  return !module->delayed.empty();
}

void Tracer::module_loaded(const Sanitizer_ResourceModuleData& data) {
  Module module;
  const auto add = [](void* names, std::string_view name, std::string_view) {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  };
  if (!kernels_of_cubin(data.pCubin, data.cubinSize, add, &module.functions)) return;
  if (request_.mode == WS_CHECK) {
    const auto keep = [](void* codes, std::string_view name, std::string_view code) {
      static_cast<std::map<std::string, std::string>*>(codes)->emplace(name, code);
    };
    kernels_of_cubin(data.pCubin, data.cubinSize, keep, &module.codes);
    module.architecture = architecture_of_cubin(data.pCubin, data.cubinSize);
  }
  const auto add_kernel = [](void* names, std::string_view name, std::string_view) {
    static_cast<std::set<std::string>*>(names)->emplace(name);
  };
  sections_of_cubin(data.pCubin, data.cubinSize, ".nv.constant0.", add_kernel, &module.kernels);
  if (take_checks(data, &module)) return;
  bool wanted = request_.mode == WS_DELAY && take_points(data, &module);
  if (request_.mode != WS_DELAY)
    for (const auto& name : module.functions) wanted = wanted || kernel_requested(request_, name);
  if (!wanted) return;  // stays unpatched
  for (const auto& [name, code] : module.codes) {
    if (!copies_by_tensor_map(code)) continue;
    file_.lose("modules with kernels that copy by tensor maps were not looked at", 1);
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (context_of(data.context) == nullptr || !patch(data.module)) return;
  module.number = modules_seen_++;
  if (request_.mode != WS_DELAY) file_.add_cubin(module.number, data.pCubin, data.cubinSize);
  modules_[data.module] = std::move(module);
}

void Tracer::module_unloads(const Sanitizer_ResourceModuleData& data) {
  std::lock_guard<std::mutex> lock(mutex_);
  modules_.erase(data.module);
  for (const auto& known : contexts_) {
    if (known.second == nullptr) continue;
    if (known.second->delays != nullptr) known.second->delays->forget(data.module);
    if (known.second->races != nullptr) known.second->races->forget(data.module);
  }
}

// Sends the device the addresses of the points in a kernel and in other functions.
void Tracer::place_points(CUmodule handle, Context* context, Module* module, const std::string& kernel) {
  for (auto& [name, delayed] : module->delayed) {
    uint64_t pc = 0, size = 0;
    if (delayed.placed || (name != kernel && module->kernels.count(name) != 0)) continue;
    if (functions_.function_pc(handle, name.c_str(), &pc, &size) != SANITIZER_SUCCESS || size == 0) continue;
    context->delays->place(handle, pc, delayed.place, plan_.points_of(delayed.code));
    delayed.placed = true;
  }
}

// Writes the addresses of a kernel and of the module's other functions. Other kernels may not be loaded yet,
// and asking for their addresses would load them, which deadlocks in the driver during a launch.
uint64_t Tracer::place_functions(CUmodule handle, Module* module, const std::string& kernel) {
  uint64_t begin = 0, bytes = 0;
  if (functions_.function_pc(handle, kernel.c_str(), &begin, &bytes) != SANITIZER_SUCCESS) begin = 0;
  if (!module->placed.insert(kernel).second) return begin;
  uint32_t told = 0;
  for (const auto& name : module->functions) {
    uint64_t pc = 0, size = 0;
    if (name != kernel && (told >= kMostFunctions || module->placed.count(name) != 0)) continue;
    if (name != kernel && module->kernels.count(name) != 0) continue;
    if (functions_.function_pc(handle, name.c_str(), &pc, &size) != SANITIZER_SUCCESS || size == 0) continue;
    ++told;
    if (name != kernel) module->placed.insert(name);
    file_.describe("{\"kind\":\"function\",\"module\":" + std::to_string(module->number) +
                   ",\"name\":" + quoted(name) + ",\"pc\":" + std::to_string(pc) +
                   ",\"bytes\":" + std::to_string(size) + "}");
  }
  return begin;
}

void Tracer::describe_launch(const Sanitizer_LaunchData& data, const Module& module, const std::string& name,
                             uint64_t pc, uint64_t index, uint64_t graph) {
  const uint64_t waits = host_delay(module, name, index);
  file_.describe_launch(
      "{\"kind\":\"launch\",\"launch\":" + std::to_string(recorded_) + ",\"index\":" + std::to_string(index) +
      ",\"module\":" + std::to_string(module.number) + ",\"name\":" + quoted(name) + ",\"pc\":" +
      std::to_string(pc) + ",\"grid\":" + triple(data.gridDim_x, data.gridDim_y, data.gridDim_z) +
      ",\"block\":" + triple(data.blockDim_x, data.blockDim_y, data.blockDim_z) +
      ",\"cluster\":" + triple(data.clusterDim_x, data.clusterDim_y, data.clusterDim_z) +
      ",\"stream\":" + std::to_string(reinterpret_cast<uintptr_t>(data.stream)) +
      ",\"context\":" + std::to_string(reinterpret_cast<uintptr_t>(data.context)) +
      ",\"device\":" + std::to_string(data.device) + ",\"thread\":" + std::to_string(syscall(SYS_gettid)) +
      "," + clocks() + (module.compiled != nullptr ? ",\"compiled\":true" : "") +
      (waits != kNoDelay ? ",\"host_delay_ns\":" + std::to_string(waits) : "") +
      ",\"graph\":" + std::to_string(graph) + "}");
}

// The actions of the launch's patches.
SanitizerResult Tracer::fill(const Sanitizer_LaunchData& data, uint64_t pc, uint64_t index, uint64_t graph,
                             Sanitizer_StreamHandle stream, Context* context, WsLaunch* launch) {
  launch->mode = request_.mode;
  launch->notes = context->notes;
  launch->ring = reinterpret_cast<unsigned long long*>(context->words);
  launch->mask = request_.ring_bytes / sizeof(uint64_t) - 1;
  launch->head = reinterpret_cast<unsigned long long*>(context->counters) + kHead;
  launch->tail = reinterpret_cast<const volatile unsigned long long*>(context->tail);
  launch->tail_seen = launch->head + kTailSeen;
  launch->zero = zero_;
  launch->first = request_.first;
  launch->address_low = request_.addresses.low;
  launch->address_high = request_.addresses.high;
  for (const auto& range : request_.offsets) {
    launch->pc[2 * launch->pc_ranges] = pc + range.low;
    launch->pc[2 * launch->pc_ranges + 1] = pc + range.high;
    if (++launch->pc_ranges == WS_PC_RANGES) break;
  }
  launch->launch = recorded_;
  launch->every = request_.every;
  launch->warps = request_.warps;
  launch->block_low = static_cast<uint32_t>(std::min<uint64_t>(request_.blocks.low, ~0u));
  launch->block_high = static_cast<uint32_t>(std::min<uint64_t>(request_.blocks.high, ~0u));
  launch->values = request_.values ? 1 : 0;
  if (request_.mode != WS_DELAY) return SANITIZER_SUCCESS;
  launch->index = static_cast<uint32_t>(index);
  launch->stamp = recorded_ + 1;
  launch->cluster[0] = std::max(data.clusterDim_x, 1u);
  launch->cluster[1] = std::max(data.clusterDim_y, 1u);
  launch->cluster[2] = std::max(data.clusterDim_z, 1u);
  const uint64_t threads = 1ull * data.blockDim_x * data.blockDim_y * data.blockDim_z;
  const uint64_t blocks = 1ull * data.gridDim_x * data.gridDim_y * data.gridDim_z;
  return static_cast<SanitizerResult>(context->delays->describe(
      graph != 0 ? data.apiStream : data.stream, stream, blocks * ((threads + 31) / 32), launch));
}

// The maps of a launch's probes. The kernels of one launch of a graph share what their patches are given, so
// there each refers to those before it, and an instruction finds its own by its address.
SanitizerResult Tracer::attach_probes(const Sanitizer_LaunchData& data, const std::string& name, uint64_t pc,
                                      uint64_t graph, Sanitizer_StreamHandle stream, Context* context,
                                      WsLaunch* launch) {
  WsProbe probe = {};
  probe.pc = pc;
  probe.enabled = probes_of(request_, name);
  if (graph != 0) {
    uint64_t begin = 0, bytes = 0;
    if (graph != recorded_graph_) graph_kernels_.clear();
    if (!graph_kernels_.insert(pc).second) {
      ++in_graphs_;
      return SANITIZER_SUCCESS;
    }
    const SanitizerResult result = functions_.function_pc(data.module, name.c_str(), &begin, &bytes);
    if (result != SANITIZER_SUCCESS) return result;
    probe.bytes = std::max<uint64_t>(bytes, 1);
    if (graph == recorded_graph_) probe.next = static_cast<const WsLaunch*>(recorded_slot_);
  }
  const SanitizerResult result = context->probes->describe(
      data, recorded_, graph != 0 ? data.apiStream : data.stream, stream, probe, &launch->probe);
  no_room_ += result == SANITIZER_SUCCESS && launch->probe == nullptr;
  return result;
}

// Gives the launch its description on the device; false when it is not to be recorded or delayed.
bool Tracer::record(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t index,
                    uint64_t graph) {
  if (index < request_.launches.low || index >= request_.launches.high) return false;
  const uint64_t blocks = 1ull * data.gridDim_x * data.gridDim_y * data.gridDim_z;
  if (blocks > ~0u) {
    file_.lose("a launch of " + name + " has more than 2^32 blocks", 1);
    return false;
  }
  if (request_.mode == WS_CHECK && graph != 0 &&
      module->compiled == nullptr) {  // they share what their patches are given
    file_.lose("kernels of CUDA graphs were not looked at", 1);
    return false;
  }
  Context* context = context_of(data.context);
  if (context == nullptr) return false;
  const uint64_t pc = place_functions(data.module, module, name);
  if (request_.mode == WS_DELAY) place_points(data.module, context, module, name);
  // A graph's kernels have the same grids in each of its launches, which take turns.
  const uint32_t slot = (request_.mode == WS_CHECK ? data.gridId : context->next++) % kLaunches;
  const Sanitizer_StreamHandle stream = graph != 0 ? data.hApiStream : data.hStream;
  WsLaunch launch = {};
  SanitizerResult result = fill(data, pc, index, graph, stream, context, &launch);
  if (request_.mode == WS_CHECK && result == SANITIZER_SUCCESS) {
    read_code(data.module, context, *module, name);
    result = context->races->describe(data.module, name, data, stream, &launch.race);
  }
  launch.counter = launch.head + kFirstCounter + slot;
  if (request_.mode == WS_PROBE && result == SANITIZER_SUCCESS) {
    result = attach_probes(data, name, pc, graph, stream, context, &launch);
    if (result == SANITIZER_SUCCESS && launch.probe == nullptr) return false;
  }
  if (result == SANITIZER_SUCCESS && (request_.every > 1 || request_.first != ~0ull))
    result = functions_.memset(launch.counter, 0, sizeof(uint64_t), stream);
  if (result == SANITIZER_SUCCESS)
    result = functions_.copy_to_device(context->launches + slot, &launch, sizeof launch, stream);
  if (result == SANITIZER_SUCCESS)
    result = module->compiled != nullptr ? set_place(*context, module, data, stream, context->launches + slot)
                                         : functions_.set_launch_data(data.hLaunch, data.function,
                                                                      data.hStream, context->launches + slot);
  if (result != SANITIZER_SUCCESS) {
    trouble("a launch cannot be recorded", result);
    return false;
  }
  describe_launch(data, *module, name, pc, index, graph);
  recorded_slot_ = context->launches + slot;
  ++recorded_;
  return true;
}

// Whether the plan may delay a launch: it has points itself, or its module has some in functions other than
// kernels.
bool Tracer::delay_wanted(const Sanitizer_LaunchData& data, Module* module, const std::string& name,
                          uint64_t graph, uint64_t* index) {
  const auto own = module->delayed.find(name);
  bool called = false;
  for (const auto& known : module->delayed) called |= module->kernels.count(known.first) == 0;
  if (own == module->delayed.end() && !called) return false;
  Context* context = context_of(data.context);
  if (context == nullptr) return false;
  *index = context->delays->next_launch(own != module->delayed.end() ? own->second.code : Code(name, ""));
  return context->delays->stream_waits(graph != 0 ? data.apiStream : data.stream);
}

// How long the host waits before it launches; kNoDelay if it has no such point.
uint64_t Tracer::host_delay(const Module& module, const std::string& name, uint64_t index) const {
  const auto own = module.delayed.find(name);
  if (own == module.delayed.end()) return kNoDelay;
  for (const DelayPoint& point : plan_.points_of(own->second.code)) {
    if (point.kind != kHostLaunch) continue;
    const int64_t ns = ws_delay_of(plan_.rule, point.number, 0, static_cast<uint32_t>(index), 0, 0);
    return ns < 0 ? kNoDelay : static_cast<uint64_t>(ns);
  }
  return kNoDelay;
}

// Whether a launch is recorded or delayed; its number among those of requested kernels, or of its kernel.
bool Tracer::wanted(const Sanitizer_LaunchData& data, Module* module, const std::string& name, uint64_t graph,
                    uint64_t* index) {
  if (request_.mode == WS_DELAY) return delay_wanted(data, module, name, graph, index);
  const auto known = module->requested.try_emplace(name, false);
  if (known.second) known.first->second = kernel_requested(request_, name);
  if (known.first->second) *index = matching_++;
  return known.first->second;
}

void Tracer::launch_begins(const Sanitizer_LaunchData& data, uint64_t graph) {
  uint64_t waits = kNoDelay;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto module = modules_.find(data.module);
    if (module == modules_.end()) return;
    const std::string name = data.functionName != nullptr ? data.functionName : "";
    uint64_t index = 0;
    const bool recorded = wanted(data, &module->second, name, graph, &index) &&
                          record(data, &module->second, name, index, graph);
    if (module->second.compiled != nullptr) {  // a graph's nodes have the same grid in each of its launches
      if (!recorded && graph != 0) {
        Context* const context = context_of(data.context);
        if (context != nullptr) set_place(*context, &module->second, data, data.hApiStream, nullptr);
      }
      return;
    }
    // The kernels of one graph launch share their patches' arguments: those of the last one apply.
    if (!recorded)
      functions_.set_launch_data(data.hLaunch, data.function, data.hStream,
                                 graph != 0 && graph == recorded_graph_ ? recorded_slot_ : nullptr);
    if (recorded) recorded_graph_ = graph;
    if (recorded) waits = host_delay(module->second, name, index);
  }
  if (waits != kNoDelay) std::this_thread::sleep_for(std::chrono::nanoseconds(waits));
}

void Tracer::collect(CUcontext context, CUstream stream, bool all) {
  if (request_.mode != WS_PROBE) return;
  std::vector<std::shared_ptr<Probes>> found;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [handle, known] : contexts_)
      if (known != nullptr && (context == nullptr || handle == context)) found.push_back(known->probes);
  }
  for (const auto& probes : found)
    if (probes != nullptr) probes->collect(stream, all, &file_);
}

void Tracer::ordered(const char* what, CUevent event, CUstream stream) {
  if (request_.mode != WS_RECORD) return;
  file_.describe_launch("{\"kind\":\"order\",\"what\":\"" + std::string(what) +
                        "\",\"event\":" + std::to_string(reinterpret_cast<uintptr_t>(event)) +
                        ",\"stream\":" + std::to_string(reinterpret_cast<uintptr_t>(stream)) + "}");
}

size_t Tracer::drain_all() {
  std::lock_guard<std::mutex> lock(drain_mutex_);
  size_t records = 0;
  for (EventRing* ring : rings_) records += ring->drain(&file_);
  return records;
}

// If nothing arrives for a while, partial blocks are written: a hung program is killed without running its
// exit handlers.
void Tracer::drain_loop() {
  uint32_t idle = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    if (drain_all() > 0) {
      idle = 0;
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (++idle == kIdleTurns) flush_all();
  }
}

// At the program's end. A kernel that runs for ever ends with the process, not before: we do not wait for it.
void Tracer::collect_last() {
  struct Done {
    std::mutex mutex;  // protects `done`
    std::condition_variable changed;
    bool done = false;
  };
  const auto state = std::make_shared<Done>();
  std::thread([this, state] {
    collect(nullptr, nullptr, true);
    std::lock_guard<std::mutex> lock(state->mutex);
    state->done = true;
    state->changed.notify_one();
  }).detach();
  std::unique_lock<std::mutex> lock(state->mutex);
  if (!state->changed.wait_for(lock, std::chrono::milliseconds(kLongestMs), [&] { return state->done; }))
    file_.lose("maps of launches that still ran when the program ended", 1);
}

void Tracer::flush_all() {
  std::lock_guard<std::mutex> lock(drain_mutex_);
  for (EventRing* ring : rings_) ring->flush(&file_);
}

void Tracer::stop() {
  if (request_.mode == WS_PROBE) collect_last();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (no_room_ > 0)
      file_.lose(
          "launches whose maps would take more memory than allowed: probe fewer launches or blocks, or "
          "allow more (--map-mib)",
          no_room_);
    if (in_graphs_ > 0)
      file_.lose("launches of a kernel that its graph launches several times: they count as one launch",
                 in_graphs_);
  }
  stopping_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
  const uint64_t begin = now_ns();
  uint64_t quiet = begin;
  while (now_ns() - quiet < kQuietMs * 1'000'000ull && now_ns() - begin < kLongestMs * 1'000'000ull) {
    if (drain_all() > 0) quiet = now_ns();
  }
  std::lock_guard<std::mutex> lock(drain_mutex_);
  for (EventRing* ring : rings_) {
    ring->flush(&file_);
    if (ring->stuck())
      file_.lose("a kernel ended in the middle of a record; those that followed it are missing", 1);
  }
  file_.end();
}

}  // namespace warpsight
