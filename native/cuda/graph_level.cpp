#include "cuda/graph_level.h"

#include <atomic>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

std::atomic<bool> g_whole{false};  // GRAPH_TRACE is on
std::atomic<uint64_t> g_launches{0};

}  // namespace

bool begin_graph_level() {
  g_launches.store(0);
  g_whole.store(settings().graph == GraphMode::graph);
  return g_whole.load();
}

void graph_launch_starts() {
  if (g_whole.load(std::memory_order_relaxed)) g_launches.fetch_add(1, std::memory_order_relaxed);
}

void end_graph_level() {
  if (!g_whole.exchange(false)) return;
  cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  const uint64_t launches = g_launches.exchange(0);
  if (launches == 0) return;
  report_loss("cuda", "graph launches recorded as a whole, without their kernels", launches, Severity::note);
}

}  // namespace warpsight
