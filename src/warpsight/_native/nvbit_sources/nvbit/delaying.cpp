// The delays of a plan at any instruction: see sanitizer/delays.h, which does the same for the Sanitizer.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "cuda/cubin_names.h"
#include "nvbit/tracer.h"
#include "sanitizer/sha256.h"

namespace warpsight {
namespace {

constexpr int kOtherCode = 125;  // exit code where a kernel's code is not the plan's

}  // namespace

bool NvbitTracer::begin_trial(uint64_t seed, bool delays) {
  if (request_.mode != WS_DELAY) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  plan_.rule.seed = seed;
  plan_.rule.threshold = delays ? threshold_ : 0;
  for (const auto& known : contexts_)
    if (known.second != nullptr) known.second->delays->restart();
  return true;
}

// The checksums of a module's functions. A function that the plan knows with other code ends the program:
// what its offsets mean there is not known.
void NvbitTracer::take_codes(uint32_t module, const std::string& image) {
  std::map<std::string, std::string>& codes = codes_[module];
  const auto take = [](void* found, std::string_view name, std::string_view code) {
    (*static_cast<std::map<std::string, std::string>*>(found))[std::string(name)] = sha256(code);
  };
  kernels_of_cubin(image.data(), image.size(), take, &codes);
  for (const auto& [name, checksum] : codes) {
    const auto known = plan_.known.find(name);
    if (known == plan_.known.end() || known->second.count(checksum) != 0) continue;
    const std::string why = "the code of " + name + " is not the code that the delay plan is for";
    fprintf(stderr, "warpsight: %s; the program is ended\n", why.c_str());
    file_.lose(why, 1);
    file_.end();
    _exit(kOtherCode);
  }
}

Code NvbitTracer::code_of(const std::string& name, uint32_t module) {
  const auto& codes = codes_[module];
  const auto own = codes.find(name);
  return {name, own != codes.end() ? own->second : ""};
}

bool NvbitTracer::take_points(const std::vector<Instr*>& instructions, const std::string& name, uint64_t pc,
                              Context* own, uint32_t module) {
  const auto points = plan_.functions.find(code_of(name, module));
  if (points == plan_.functions.end()) return false;
  // Modules are told apart by their numbers; none of NVBit's is ever forgotten.
  auto* const key = reinterpret_cast<CUmodule>(static_cast<uintptr_t>(module) + 1);
  own->delays->place(key, pc, own->places, points->second);
  own->places += static_cast<uint32_t>(points->second.size());
  Instrumenter::delay(instructions, pc, own->tool, points->second);
  return true;
}

void NvbitTracer::find_host_point(Kernel* kernel) {
  kernel->code = code_of(kernel->name, kernel->module);
  const auto points = plan_.functions.find(kernel->code);
  if (points == plan_.functions.end()) return;
  for (const DelayPoint& point : points->second)
    if (point.kind == kHostLaunch) kernel->host = &point;
}

// Describes a launch of a kernel with points; its description on the device, 0 when it is not delayed.
uint64_t NvbitTracer::next_delayed(const Kernel& kernel, CUcontext context, const LaunchCall& call,
                                   uint64_t graph, int64_t* waits) {
  Context& own = *contexts_.at(context);
  const uint32_t index = own.delays->next_launch(kernel.code);
  if (!own.delays->stream_waits(call.stream)) return 0;
  if (kernel.host != nullptr) *waits = ws_delay_of(plan_.rule, kernel.host->number, 0, index, 0, 0);
  WsLaunch launch = {};
  launch.mode = WS_DELAY;
  launch.ring = own.said.ring;
  launch.mask = own.said.mask;
  launch.head = own.said.head;
  launch.tail = own.said.tail;
  launch.tail_seen = own.said.tail_seen;
  launch.zero = own.said.zero;
  launch.launch = launches_;
  launch.index = index;
  launch.stamp = launches_ + 1;
  for (int i = 0; i < 3; ++i) launch.cluster[i] = std::max(call.cluster[i], 1u);
  const uint64_t threads = 1ull * call.block[0] * call.block[1] * call.block[2];
  const uint64_t blocks = 1ull * call.grid[0] * call.grid[1] * call.grid[2];
  int result = own.delays->describe(call.stream, call.stream, blocks * ((threads + 31) / 32), &launch);
  WsLaunch* const slot = own.launches + own.next++ % kDelayedLaunches;
  if (result == 0) result = own.memory.copy(slot, &launch, sizeof launch, call.stream);
  if (result != 0) {
    trouble("a launch cannot be delayed (CUDA error " + std::to_string(result) + ")", 1);
    return 0;
  }
  describe_launch(kernel, context, call, index, graph, *waits);
  ++launches_;
  return reinterpret_cast<uint64_t>(slot);
}

}  // namespace warpsight
