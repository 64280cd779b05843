// The memory that the work in the range reaches.
#include <cstring>

#include "capsule/recorder.h"

namespace warpsight {
namespace {

std::string listed(const PythonStack& stack) {
  std::string found;
  if (stack != nullptr)
    for (const std::string& frame : *stack) found += (found.empty() ? "" : ",") + quoted(frame);
  return "[" + found + "]";
}

bool of_host(const Block& block) { return strcmp(block.kind, "host") == 0; }

}  // namespace

// Records the allocations that contain the addresses, and everything that this memory points to.
std::string CapsuleRecorder::hold(const Addresses& addresses) {
  std::vector<Held*> fresh;
  for (const Address& address : addresses) {
    Block block;
    if (memory_.find(address.value, &block)) {
      const std::string why = add_blocks(memory_.reached_with(block), address.what, &fresh);
      if (!why.empty()) return why;
      continue;
    }
    unsigned type = 0;
    if (address.value < 4096 || tracked(address.value) ||
        cu().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address.value) != CUDA_SUCCESS)
      continue;
    const std::string unknown =
        "an address of memory that was not made by a call which can be followed (a graph's, another "
        "process's, or a variable "
        "of a module of which no kernel runs)";
    if (address.certain) return address.what + " is " + unknown;
    incomplete(address.what + " may be " + unknown);
  }
  if (hung_ && !request_.everything) return take_hung(std::move(fresh));
  if (request_.everything) {
    std::vector<Block> all;
    for (const Block& block : memory_.all())
      if (!of_host(block) && block.context == context_) all.push_back(block);
    const std::string why = add_blocks(all, "all", &fresh);
    if (!why.empty()) return why;
  } else {
    const std::string why = transitive(&fresh);
    if (!why.empty()) return why;
  }
  const std::vector<HeldGlobal> globals = std::move(fresh_globals_);
  fresh_globals_.clear();
  return take(fresh, globals, "before");
}

std::string CapsuleRecorder::add_blocks(const std::vector<Block>& blocks, const std::string& reached,
                                        std::vector<Held*>* fresh) {
  for (const Block& block : blocks) {
    if (strcmp(block.kind, "managed") == 0 || strcmp(block.kind, "ipc") == 0)
      return reached + " reaches " + (block.kind[0] == 'm' ? "managed memory" : "another process's memory") +
             ", which cannot be cut out";
    auto next = held_.lower_bound(block.address);
    if (next != held_.end() && next->first == block.address && next->second.block.size == block.size) {
      next->second.after = false;  // freed within the range and reallocated: the state after the range counts
      continue;
    }
    const bool overlaps = (next != held_.end() && next->first < block.end()) ||
                          (next != held_.begin() && std::prev(next)->second.block.end() > block.address);
    if (overlaps) return "memory was freed and made again with another size within the range";
    const bool owned = strcmp(block.kind, "malloc") == 0 || strcmp(block.kind, "pool") == 0;
    if (owned && block.context != context_)
      return reached + " reaches memory of another GPU or context, which cannot be cut out";
    Held& held = held_[block.address];
    held.block = block;
    held.number = static_cast<int>(held_.size()) - 1;
    fresh->push_back(&held);
    Json json("allocation");
    json.number("address", block.address)
        .number("size", block.size)
        .text("type", block.kind)
        .text("reached", reached);
    json.raw("maker", Json("call")
                          .text("what", block.call)
                          .number("time", block.time)
                          .number("sequence", block.sequence)
                          .raw("stack", listed(block.stack))
                          .done());
    output_.log(json.done());
  }
  return "";
}

// The notes are many: where possible, they are looked through once the program goes on.
void CapsuleRecorder::log_writers() {
  for (const auto& entry : held_) {
    const std::string call = notes_.latest(entry.first, entry.second.block.end());
    if (!call.empty())
      output_.log(Json("writer").integer("number", entry.second.number).raw("call", call).done());
  }
}

std::string CapsuleRecorder::transitive(std::vector<Held*>* fresh) {
  std::vector<Searched> search;
  for (const Held* held : *fresh)
    search.push_back({held->block.address, held->block.size, of_host(held->block)});
  std::vector<Piece> variables;
  for (const HeldGlobal& held : fresh_globals_)
    variables.push_back({held.address, held.size, 0, false, held.module});
  for (const auto& run : runs_of(std::move(variables)))
    search.push_back({run.front().address, run.back().end() - run.front().address, false});
  const std::vector<Block> all = memory_.all();
  while (!search.empty()) {
    std::vector<uint32_t> found;
    std::string why = reach_.points_to(context_, search, all, &found);
    const size_t before = fresh->size();
    for (size_t i = 0; why.empty() && i < all.size(); ++i)
      if (found[i] != 0) why = add_blocks(memory_.reached_with(all[i]), "memory that is reached", fresh);
    if (!why.empty()) return why;
    search.clear();
    for (size_t i = before; i < fresh->size(); ++i) {
      const Block& block = (*fresh)[i]->block;
      search.push_back({block.address, block.size, of_host(block)});
    }
  }
  return "";
}

std::string CapsuleRecorder::take(const std::vector<Held*>& blocks, const std::vector<HeldGlobal>& globals,
                                  const char* when) {
  const bool after = strcmp(when, "after") == 0;
  for (Held* held : blocks) held->after |= after;
  if (!request_.contents) return "";
  std::vector<Piece> pieces;
  const auto add = [&](const char* what, int number, uint64_t address, uint64_t size, bool host, int module) {
    const uint64_t offset = output_.reserve(size);
    extents_.emplace_back(offset, size);
    pieces.push_back({address, size, offset, host, module});
    output_.log(Json("contents")
                    .text("of", what)
                    .integer("number", number)
                    .text("when", when)
                    .number("offset", offset)
                    .done());
  };
  for (const Held* held : blocks) {
    if (held->block.size > request_.limit) {
      incomplete("allocations of more than " + std::to_string(request_.limit) +
                 " bytes have no contents: zeros stand in their place");
      continue;
    }
    add("allocation", held->number, held->block.address, held->block.size, of_host(held->block), -1);
  }
  for (const HeldGlobal& held : globals)
    add("global", held.number, held.address, held.size, false, held.module);
  if (hung_) return snapshots_.take_aside(context_, pieces);
  return snapshots_.take(context_, pieces, after ? nullptr : &pending_stream_);
}

}  // namespace warpsight
