// Which instructions of a function are recorded, and the calls that are injected for it.
#pragma once

#include <nvbit.h>
#include <regex.h>

#include <memory>
#include <string>
#include <vector>

#include "sanitizer/delay_plan.h"
#include "sanitizer/request.h"

namespace warpsight {

// Bits of EventRequest::collect.
constexpr uint32_t kInstructions = 1, kRegisters = 2, kMemory = 4, kPredicateRegisters = 8,
                   kTensorCopies = 64;
constexpr uint32_t kBefore = 16, kAfter = 32;  // when registers are read

class Instrumenter {
 public:
  explicit Instrumenter(const EventRequest& request);
  ~Instrumenter();
  Instrumenter(const Instrumenter&) = delete;
  Instrumenter& operator=(const Instrumenter&) = delete;

  // An invalid pattern; empty if all are valid regular expressions.
  const std::string& bad_pattern() const { return bad_; }
  // Injects calls into a function whose records go to `tool` (device memory); returns how many instructions.
  size_t instrument(const std::vector<Instr*>& instructions, uint64_t pc, uint64_t tool) const;
  // The same for the points of a delay plan that are in the function.
  static void delay(const std::vector<Instr*>& instructions, uint64_t pc, uint64_t tool,
                    const std::vector<DelayPoint>& points);
  // Makes the warps of a kernel report that they begin, before anything else is injected into it.
  static void begin(const std::vector<Instr*>& instructions, uint64_t tool);
  // The function's instructions as JSON: offset, text and registers of each.
  std::string describe(const std::vector<Instr*>& instructions) const;

 private:
  bool wanted(Instr* instruction) const;
  void inject(Instr* instruction, uint32_t pc, uint64_t tool) const;
  void inject_registers(Instr* instruction, const std::vector<int>& registers, uint32_t pc, uint64_t tool,
                        ipoint_t point) const;
  void inject_access(Instr* instruction, uint32_t pc, uint64_t tool) const;
  void inject_tensor_copy(Instr* instruction, uint32_t pc, uint64_t tool) const;

  const EventRequest& request_;
  std::vector<regex_t> patterns_;
  std::string bad_;
};

}  // namespace warpsight
