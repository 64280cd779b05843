#include "nvbit/tracer.h"

#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "ring/crc32.h"
#include "runtime/own_signals.h"
#include "runtime/request_lines.h"

namespace warpsight {
namespace {

constexpr int kQuietMs = 20, kLongestMs = 10'000;

uint64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
}

std::string clocks() {
  return "\"monotonic\":" + std::to_string(now_ns(CLOCK_MONOTONIC)) +
         ",\"realtime\":" + std::to_string(now_ns(CLOCK_REALTIME));
}

std::string triple(const uint32_t (&of)[3]) {
  return "[" + std::to_string(of[0]) + "," + std::to_string(of[1]) + "," + std::to_string(of[2]) + "]";
}

// Odd, so never zero.
uint64_t random_word() {
  uint64_t word = 0;
  if (getrandom(&word, sizeof word, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof word))
    word = now_ns(CLOCK_MONOTONIC) * 0x9e3779b97f4a7c15ull;
  return word | 1;
}

thread_local bool t_launching = false;  // this thread holds NvbitTracer::launching_

}  // namespace

NvbitTracer::NvbitTracer(EventRequest request)
    : request_(std::move(request)), instrumenter_(request_), zero_(random_word()) {}

bool NvbitTracer::start() {
  const std::string path = request_.file.empty() ? "" : request_.file + "." + std::to_string(getpid());
  if (!file_.create(path, request_.limit)) return false;
  file_.describe("{\"kind\":\"process\",\"pid\":" + std::to_string(getpid()) + "," + clocks() +
                 ",\"request\":" + (request_.description.empty() ? "{}" : request_.description) + "}");
  if (!instrumenter_.bad_pattern().empty())
    file_.lose("the pattern " + instrumenter_.bad_pattern() + " is no extended regular expression", 0);
  if (request_.mode == WS_DELAY && !plan_.read(request_.plan))
    file_.lose("the delay plan " + request_.plan + " cannot be read: nothing is delayed", 0);
  threshold_ = plan_.rule.threshold;
  if (!request_.nvdisasm.empty()) nvbit_set_nvdisasm(request_.nvdisasm.c_str());
  const StartingThread starting;
  thread_ = std::thread([this] { drain_loop(); });
  return true;
}

void NvbitTracer::trouble(const std::string& what, uint64_t count) {
  if (troubles_.insert(what).second) file_.lose(what, count);
}

// The number of the module that a function is of. NVBit hands its code over as a file.
uint32_t NvbitTracer::module_of(CUcontext context, CUfunction function) {
  const std::string beside = request_.file.empty() ? request_.plan : request_.file;
  const std::string path = beside + ".cubin." + std::to_string(getpid());
  std::string image;
  nvbit_dump_cubin(context, function, path.c_str());  // false in any case, at least in 1.7
  std::ifstream file(path, std::ios::binary);
  image.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  unlink(path.c_str());
  const auto key = std::make_pair(static_cast<uint64_t>(image.size()), crc32(0, image.data(), image.size()));
  const auto known = modules_.try_emplace(key, static_cast<uint32_t>(modules_.size()));
  if (known.second && request_.mode == WS_DELAY) take_codes(known.first->second, image);
  if (known.second && request_.mode != WS_DELAY && !image.empty())
    file_.add_cubin(known.first->second, image.data(), image.size());
  if (image.empty()) trouble("NVBit has no code of a kernel's module: its source lines are not known", 0);
  return known.first->second;
}

// Injects recording (or delays) into a function and describes it; false if it has no code, or no points of
// the plan.
bool NvbitTracer::take_function(CUcontext context, CUfunction function, Context* own, uint32_t module) {
  const auto known = functions_.try_emplace({context, function}, false);
  if (!known.second) return known.first->second;
  const std::vector<Instr*>& instructions = nvbit_get_instrs(context, function);
  if (instructions.empty()) return false;
  const uint64_t pc = nvbit_get_func_addr(context, function);
  const std::string mangled = nvbit_get_func_name(context, function, true), name = quoted(mangled);
  const bool delays = request_.mode == WS_DELAY;
  known.first->second = delays ? take_points(instructions, mangled, pc, own, module) : true;
  file_.describe("{\"kind\":\"function\",\"module\":" + std::to_string(module) + ",\"name\":" + name +
                 ",\"pc\":" + std::to_string(pc) +
                 ",\"bytes\":" + std::to_string(instructions.back()->getOffset() + 16) + "}");
  if (delays) return known.first->second;
  file_.describe("{\"kind\":\"operands\",\"module\":" + std::to_string(module) + ",\"name\":" + name +
                 ",\"pc\":" + std::to_string(pc) +
                 ",\"instructions\":" + instrumenter_.describe(instructions) + "}");
  instrumenter_.instrument(instructions, pc, own->tool);
  return true;
}

const NvbitTracer::Kernel& NvbitTracer::kernel_of(CUcontext context, CUfunction function) {
  const auto known = kernels_.try_emplace({context, function});
  Kernel& kernel = known.first->second;
  if (!known.second) return kernel;
  kernel.number = static_cast<uint32_t>(kernels_.size());
  kernel.name = nvbit_get_func_name(context, function, true);
  const auto own = contexts_.find(context);
  if (own == contexts_.end() || own->second == nullptr) return kernel;
  const bool delays = request_.mode == WS_DELAY;
  if (!delays && !name_matches(request_.kernels, kernel.name.c_str())) return kernel;
  const std::vector<CUfunction> related = nvbit_get_related_functions(context, function);
  const auto planned = [&](CUfunction one) {
    return plan_.known.count(nvbit_get_func_name(context, one, true)) != 0;
  };
  if (delays && !planned(function) && std::none_of(related.begin(), related.end(), planned)) return kernel;
  kernel.module = module_of(context, function);
  kernel.pc = nvbit_get_func_addr(context, function);
  const std::vector<Instr*>& instructions = nvbit_get_instrs(context, function);
  if (!instructions.empty()) Instrumenter::begin(instructions, own->second->tool);
  for (CUfunction called : related)
    kernel.wanted |= take_function(context, called, own->second.get(), kernel.module);
  kernel.wanted |= take_function(context, function, own->second.get(), kernel.module);
  if (delays) find_host_point(&kernel);
  return kernel;
}

void NvbitTracer::describe_launch(const Kernel& kernel, CUcontext context, const LaunchCall& call,
                                  uint64_t index, uint64_t graph, int64_t waits) {
  func_config_t own = {};
  nvbit_get_func_config(context, call.function, &own);
  file_.describe_launch(
      "{\"kind\":\"launch\",\"launch\":" + std::to_string(launches_) + ",\"index\":" + std::to_string(index) +
      ",\"module\":" + std::to_string(kernel.module) + ",\"name\":" + quoted(kernel.name) +
      ",\"pc\":" + std::to_string(kernel.pc) + ",\"grid\":" + triple(call.grid) +
      ",\"block\":" + triple(call.block) + ",\"cluster\":" + triple(call.cluster) +
      ",\"stream\":" + std::to_string(reinterpret_cast<uintptr_t>(call.stream)) +
      ",\"context\":" + std::to_string(reinterpret_cast<uintptr_t>(context)) + ",\"device\":" +
      std::to_string(contexts_.at(context)->device) + ",\"thread\":" + std::to_string(syscall(SYS_gettid)) +
      "," + clocks() + ",\"registers\":" + std::to_string(own.num_registers) + ",\"shared_static\":" +
      std::to_string(own.shmem_static_nbytes) + ",\"shared_dynamic\":" + std::to_string(call.shared_bytes) +
      (waits >= 0 ? ",\"host_delay_ns\":" + std::to_string(waits) : "") +
      ",\"graph\":" + std::to_string(graph) + "}");
}

// Describes the next launch of a requested kernel; returns the argument for its code, 0 if it is not
// recorded.
uint64_t NvbitTracer::next_launch(const Kernel& kernel, CUcontext context, const LaunchCall& call,
                                  uint64_t graph) {
  const uint64_t index = matching_++;
  if (index < request_.launches.low || index >= request_.launches.high) return 0;
  if (1ull * call.grid[0] * call.grid[1] * call.grid[2] > ~0u) {
    file_.lose("a launch of " + kernel.name + " has more than 2^32 blocks", 1);
    return 0;
  }
  describe_launch(kernel, context, call, index, graph, -1);
  return WS_WANTED | launches_++;
}

uint64_t NvbitTracer::next(const Kernel& kernel, CUcontext context, const LaunchCall& call, uint64_t graph,
                           int64_t* waits) {
  return request_.mode == WS_DELAY ? next_delayed(kernel, context, call, graph, waits)
                                   : next_launch(kernel, context, call, graph);
}

void NvbitTracer::launch_begins(CUcontext context, const LaunchCall& call, bool captured) {
  int64_t waits = -1;
  uint64_t what = 0;
  bool wanted = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const Kernel& kernel = kernel_of(context, call.function);
    wanted = kernel.wanted;
    if (wanted) what = captured ? WS_GRAPH | kernel.number : next(kernel, context, call, 0, &waits);
  }
  if (waits > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(waits));
  // The driver may hold a launch back until another thread launches: then numbers of launches may be
  // mistaken.
  if (!t_launching) t_launching = launching_.try_lock_for(std::chrono::seconds(1));
  if (wanted) nvbit_set_at_launch(context, call.function, what);
  nvbit_enable_instrumented(context, call.function, what != 0);
}

void NvbitTracer::launch_ends() {
  if (t_launching) launching_.unlock();
  t_launching = false;
}

void NvbitTracer::prepare(CUcontext context, CUfunction function) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Kernel& kernel = kernel_of(context, function);
  if (kernel.wanted) nvbit_set_at_launch(context, function, WS_GRAPH | kernel.number);
  nvbit_enable_instrumented(context, function, kernel.wanted);
}

void NvbitTracer::graph_node_begins(CUcontext context, CUfunction function, CUstream stream, uint64_t handle,
                                    uint64_t graph) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Kernel& kernel = kernel_of(context, function);
  if (!kernel.wanted) return;
  func_config_t own = {};
  nvbit_get_func_config(context, function, &own);
  const uint32_t shape[] = {own.gridDimX,  own.gridDimY,  own.gridDimZ,
                            own.blockDimX, own.blockDimY, own.blockDimZ};
  LaunchCall call;
  call.function = function;
  call.stream = stream;
  call.shared_bytes = own.shmem_dynamic_nbytes;
  std::copy(shape, shape + 3, call.grid);
  std::copy(shape + 3, shape + 6, call.block);
  int64_t waits = -1;
  const uint64_t what = next(kernel, context, call, graph, &waits);
  const auto added = contexts_.at(context)->graphs.add(ws_shape_key(kernel.number, shape), what);
  if (added == GraphLaunches::Added::kNoPlace)
    trouble("graphs have kernels of too many shapes: some are not recorded", 1);
  if (added == GraphLaunches::Added::kLate)
    trouble("launches of graphs wait in so large numbers that their events may be taken for others'", 1);
  nvbit_set_at_launch(context, function, WS_GRAPH | kernel.number, stream, handle);
}

size_t NvbitTracer::drain_all() {
  std::lock_guard<std::mutex> lock(drain_mutex_);
  size_t records = 0;
  for (EventRing* ring : rings_) records += ring->drain(&file_);
  return records;
}

void NvbitTracer::drain_loop() {
  while (!stopping_.load(std::memory_order_acquire)) {
    if (drain_all() == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void NvbitTracer::stop() {
  stopping_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
  const uint64_t begin = now_ns(CLOCK_MONOTONIC);
  uint64_t quiet = begin;
  while (now_ns(CLOCK_MONOTONIC) - quiet < kQuietMs * 1'000'000ull &&
         now_ns(CLOCK_MONOTONIC) - begin < kLongestMs * 1'000'000ull) {
    if (drain_all() > 0) quiet = now_ns(CLOCK_MONOTONIC);
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
