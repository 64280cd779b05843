// The frames and stacks of this process, each defined once: ids by content, rows written at first sight.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpsight {

// What makes two frames the same frame. Strings are ids of `intern`.
struct FrameKey {
  uint32_t function;
  uint32_t file;
  uint32_t line;
  uint32_t build_id;
  uint64_t address;
  uint64_t kind;  // FRAME_*
};

// The id of a frame; 0 when it could not be defined (no arena, ring full, table full). Thread-safe.
uint32_t define_frame(const FrameKey& key);

// The id of `frame` called from `parent` (0: the root); 0 as above. `cut`: frames outside the root are
// missing.
uint32_t define_stack(uint32_t parent, uint32_t frame, uint8_t method, bool cut);

// Changes whenever ids handed out before have lost their meaning (a forked child that records itself).
extern std::atomic<uint32_t> g_definition_generation;
inline uint32_t definition_generation() { return g_definition_generation.load(std::memory_order_relaxed); }
// In a forked child.
void forget_stack_definitions();

}  // namespace warpsight
