#include "cuda/graph_level.h"

#include <cstdlib>
#include <cstring>

#include <atomic>
#include <string>

#include "cuda/functions.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint64_t kLeastBetweenSwitchesNs = 1000000000;
constexpr uint32_t kExpandedFirst = 20, kExpandedEvery = 50;
constexpr size_t kGraphs =
    1024;  // executable graphs followed; others are recorded as the level happens to be

struct Launches {
  std::atomic<const void*> graph{nullptr};
  std::atomic<uint32_t> count{0};
};
Launches g_launches[kGraphs];                            // open addressing by handle
std::atomic<bool> g_switching{false};                    // set while recording with switching
std::atomic<bool> g_whole{false};                        // GRAPH_TRACE is on
std::atomic<bool> g_busy{false};                         // a thread is switching; others go on as they are
std::atomic<uint64_t> g_last_switch{0};                  // CLOCK_MONOTONIC ns
std::atomic<uint64_t> g_expanded{0}, g_not_expanded{0};  // launches at each level

// How often this graph has been launched, counting this time; 0 when the table is full.
uint32_t count_launch(const void* graph) {
  const auto hash = reinterpret_cast<uint64_t>(graph) * 0x9e3779b97f4a7c15ull >> 54;
  for (size_t probe = 0; probe < kGraphs; ++probe) {
    Launches& entry = g_launches[(hash + probe) % kGraphs];
    const void* found = entry.graph.load(std::memory_order_relaxed);
    if (found == nullptr && entry.graph.compare_exchange_strong(found, graph)) found = graph;
    if (found == graph) return entry.count.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  return 0;
}

void switch_to(bool whole) {
  if (g_busy.exchange(true)) return;
  const uint64_t now = now_ns();
  if (g_whole.load() != whole && now - g_last_switch.load() >= kLeastBetweenSwitchesNs) {
    const auto result = whole ? cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
                              : cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    if (result == CUPTI_SUCCESS) g_whole.store(whole);
    g_last_switch.store(now);
  }
  g_busy.store(false);
}

}  // namespace

bool begin_graph_level() {
  const char* automatic = getenv("WARPSIGHT_GRAPH_AUTO");
  const bool may_switch = automatic != nullptr && strcmp(automatic, "switch") == 0;
  g_switching.store(settings().graph == GraphMode::automatic && may_switch);
  g_whole.store(settings().graph == GraphMode::graph);
  g_expanded.store(0);
  g_not_expanded.store(0);
  return g_whole.load();
}

void graph_launch_starts(const void* params) {
  if (g_switching.load(std::memory_order_relaxed) && params != nullptr) {
    const void* graph = nullptr;
    memcpy(&graph, params, sizeof graph);  // the first argument of every form
    const uint32_t count = count_launch(graph);
    const bool expand = count <= kExpandedFirst || count % kExpandedEvery == 0;
    if (expand == g_whole.load(std::memory_order_relaxed)) switch_to(!expand);
  }
  (g_whole.load(std::memory_order_relaxed) ? g_not_expanded : g_expanded)
      .fetch_add(1, std::memory_order_relaxed);
}

void end_graph_level() {
  g_switching.store(false);
  if (g_whole.exchange(false)) cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  const uint64_t whole = g_not_expanded.exchange(0), expanded = g_expanded.exchange(0);
  if (whole == 0) return;
  report_loss("cuda",
              "graph launches recorded as a whole, without their kernels (" + std::to_string(expanded) +
                  " were expanded; kernel rows say which)",
              whole, Severity::note);
}

}  // namespace warpsight
