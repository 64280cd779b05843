// The graphs that the program can launch, kept as they were instantiated.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "capsule/work.h"

namespace warpsight {

struct GraphNode {
  CUgraphNode node = nullptr;
  Work work;  // empty for an empty node
  std::vector<size_t> after;
};

class Graphs {
 public:
  // `wanted`: whether the kernel was requested.
  explicit Graphs(std::function<bool(CUfunction)> wanted) : kernel_wanted_(std::move(wanted)) {}

  // Callback ids of the calls that make and change executable graphs.
  static const std::vector<uint32_t>& calls();
  // Such a call has returned successfully.
  void on_exit(uint32_t cbid, const void* params, const char* function);
  // Whether it launches a requested kernel.
  bool wanted(CUgraphExec graph) const;
  // The operations of a launch, in topological order; "" or the reason why they cannot be determined.
  std::string nodes(CUgraphExec graph, std::vector<GraphNode>* nodes) const;

 private:
  struct Kept {
    CUgraph clone = nullptr;  // null: the driver would not clone it
    std::string changed_by;   // a call whose change the clone lacks
    bool wanted = false;
  };
  bool launches_wanted(CUgraph graph) const;
  void keep(CUgraphExec exec, CUgraph graph);
  void change(CUgraphExec exec, const char* function);

  const std::function<bool(CUfunction)> kernel_wanted_;
  mutable std::mutex mutex_;  // protects `kept_`
  std::map<CUgraphExec, Kept> kept_;
};

}  // namespace warpsight
