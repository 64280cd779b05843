#include "cuda/graphs.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <unordered_map>

#include "cuda/callbacks.h"
#include "cuda/functions.h"
#include "cuda/node_types.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

constexpr uint32_t kExecutable = 1, kDestroyed = 2, kNodeDestroyed = 1;

std::atomic<bool> g_seen{false};

struct Made {
  uint32_t stack = 0;
  uint32_t type = kUnknownNode;
};

// Node id -> where and as what the node was created. Ids are reused, so a node's entry is removed together
// with the node.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects nodes(); nothing is called while it is held
std::unordered_map<uint64_t, Made>& nodes() {
  static auto* const map = new std::unordered_map<uint64_t, Made>;
  return *map;
}

Made made_of(uint64_t node) {
  pthread_mutex_lock(&g_lock);
  const auto found = nodes().find(node);
  const Made made = found == nodes().end() ? Made() : found->second;
  pthread_mutex_unlock(&g_lock);
  return made;
}

void remember(uint64_t node, Made made) {
  pthread_mutex_lock(&g_lock);
  nodes()[node] = made;
  pthread_mutex_unlock(&g_lock);
}

void forget(uint64_t node) {
  pthread_mutex_lock(&g_lock);
  nodes().erase(node);
  pthread_mutex_unlock(&g_lock);
}

// CUPTI's value, if it has one: 0 is a kernel or no answer.
uint32_t type_of(const CUpti_GraphData& g, uint32_t otherwise) {
  return g.nodeType != CU_GRAPH_NODE_TYPE_KERNEL ? static_cast<uint32_t>(g.nodeType) : otherwise;
}

uint64_t id_of(CUgraphNode node) {
  uint64_t id = 0;
  if (node != nullptr && cupti().cuptiGetGraphNodeId != nullptr) cupti().cuptiGetGraphNodeId(node, &id);
  return id;
}

uint32_t id_of(CUgraph graph) {
  uint32_t id = 0;
  if (graph != nullptr && cupti().cuptiGetGraphId != nullptr) cupti().cuptiGetGraphId(graph, &id);
  return id;
}

void write_graph(uint32_t id, uint32_t original, uint32_t flags, uint32_t stack) {
  if (id == 0) return;
  Graph row = {};
  row.graph = id;
  row.original = original;
  row.flags = flags;
  row.stack = stack;
  row.time = now_ns();
  write(row);
}

// Whether it copies or fills, for all that is known.
bool copies(const Made& made) {
  return made.type == CU_GRAPH_NODE_TYPE_MEMCPY || made.type == CU_GRAPH_NODE_TYPE_MEMSET ||
         made.type == kUnknownNode;
}

void write_node(const CUpti_GraphData& g, uint64_t node, uint64_t original, Made made, uint32_t flags) {
  GraphNode row = {};
  row.node = node;
  row.original = original;
  row.graph = id_of(g.graph);
  row.type = made.type;
  row.stack = made.stack;
  row.flags = flags;
  row.time = now_ns();
  write(row);
}

void node_created(const CUpti_GraphData& g) {
  const uint64_t node = id_of(g.node);
  note_node(node);
  const Made made = {stack_of_current_call(true), type_of(g, node_type_of_current_call())};
  if (copies(made) && made.type != kUnknownNode) begin_node_addresses(node);
  remember(node, made);
  write_node(g, node, 0, made, 0);
}

// Clones (an instantiated graph's nodes) inherit the stack, so the chain need not be followed later.
void node_cloned(const CUpti_GraphData& g) {
  const uint64_t node = id_of(g.node), original = id_of(g.originalNode);
  const Made first = made_of(original);
  const Made made = {first.stack, type_of(g, first.type)};
  if (copies(made)) clone_node_addresses(node, original);
  remember(node, made);
  write_node(g, node, original, made, 0);
}

// An update gives the node another kernel: the updating call is now the one that requested the work.
void node_updated(const CUpti_GraphData& g) {
  const uint64_t node = id_of(g.node), original = id_of(g.originalNode);
  note_node(node);
  Made made = original != 0 ? made_of(original) : Made();
  if (made.stack == 0) made.stack = stack_of_current_call(false);
  if (made.type == kUnknownNode) made.type = made_of(node).type;
  made.type = type_of(g, made.type);
  if (original != 0 && copies(made)) clone_node_addresses(node, original);
  remember(node, made);
  write_node(g, node, original, made, 0);
}

void node_destroyed(const CUpti_GraphData& g) {
  const uint64_t node = id_of(g.node);
  const Made made = {0, made_of(node).type};
  forget(node);
  forget_node_addresses(node);
  write_node(g, node, 0, made, kNodeDestroyed);
}

void dependency_created(const CUpti_GraphData& g) {
  GraphEdge row = {};
  row.from_node = id_of(g.dependency);
  row.to_node = id_of(g.node);
  row.time = now_ns();
  row.graph = id_of(g.graph);
  if (row.from_node != 0 && row.to_node != 0) write(row);
}

uint32_t executable_id(const CUpti_GraphData& g) {
  uint32_t id = 0;
  if (cupti().cuptiGetGraphExecId != nullptr && g.graphExec != nullptr) {
    cupti().cuptiGetGraphExecId(g.graphExec, &id);
  }
  return id != 0 ? id : id_of(g.graph);
}

}  // namespace

void on_graph(CUpti_CallbackId cbid, const CUpti_GraphData& g) {
  g_seen.store(true, std::memory_order_relaxed);
  switch (cbid) {
    case CUPTI_CBID_RESOURCE_GRAPH_CREATED:
      return write_graph(id_of(g.graph), 0, 0, stack_of_current_call(false));
    case CUPTI_CBID_RESOURCE_GRAPH_CLONED:
      return write_graph(id_of(g.graph), id_of(g.originalGraph), 0, 0);
    case CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING:
      return write_graph(id_of(g.graph), 0, kDestroyed, 0);
    case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
      return write_graph(executable_id(g), id_of(g.originalGraph), kExecutable, stack_of_current_call(false));
    case CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
      return write_graph(executable_id(g), 0, kExecutable | kDestroyed, 0);
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
      return node_created(g);
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
      return node_cloned(g);
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
      return node_destroyed(g);
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED:
      return dependency_created(g);
    case CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED:
    case CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS:
      return node_updated(g);
    default:
      return;
  }
}

void on_graph_call(const ApiRule& rule, uint64_t handle, Addresses addresses, uint32_t nodes, uint64_t node) {
  const auto named = [&rule](const char* part) { return strstr(rule.name, part) != nullptr; };
  if (named("GraphExecUpdate")) {
    if (nodes == 0) forget_all_clone_addresses();  // a CUPTI version that does not report which nodes changed
    return;
  }
  if (!has_addresses(rule.domain, rule.cbid)) return;
  const uint64_t of_graph = id_of(reinterpret_cast<CUgraphNode>(handle));
  if (!named("GraphExec")) {
    if (of_graph != 0) set_node_addresses(of_graph, addresses);
  } else if (nodes == 1 && node != of_graph) {
    set_node_addresses(node, addresses);
  } else {
    forget_clone_addresses(of_graph);
  }
}

bool graphs_seen() { return g_seen.load(std::memory_order_relaxed); }

}  // namespace warpsight
