#include "sanitizer/code_facts.h"

#include <algorithm>
#include <cstring>

#include "sanitizer/race_layout.h"

namespace warpsight {
namespace {

constexpr uint32_t kBehind = 0x3ffu << 21;
constexpr uint32_t kBlock = 1, kDevice = 2;
constexpr int64_t kLoop = 64;  // instructions of a loop around a compare-and-swap at most

struct Instruction {
  uint64_t low, high;
  uint32_t operation() const { return low & 0x1ff; }
  uint32_t form() const { return low & 0xfff; }
};

enum Operation : uint32_t {
  kLd = 0x180,
  kLdg = 0x181,
  kLds = 0x184,
  kSt = 0x185,
  kStg = 0x186,
  kSts = 0x188,
  kAtom = 0x18a,
  kAtomCas = 0x18b,
  kAtoms = 0x18c,
  kAtomsCas = 0x18d,
  kRedg = 0x18e,
  kAtomg = 0x1a8,
  kAtomgCas = 0x1a9,
  kAtomFloat = 0x1a2,
  kAtomgFloat = 0x1a3,
  kRedgFloat = 0x1a6,
  kLdsm = 0x03b,
  kStsm = 0x044,
  kLdgsts = 0x1ae,
  kLdgdepbar = 0x1af,
  kBar = 0x11d,
  kWarpsync = 0x148,
  kSyncs = 0x1b2,
  kSyncsPhase = 0x1a7,
  kMembar = 0x192,
  kCctl = 0x18f,
  kFence = 0x1c6,
  kTensorLoad = 0x1b4,
  kTensorReduce = 0x1b6,
  kBulkCopy = 0x1ba,
  kBulkReduce = 0x1bb,
  kNop = 0x118,
  kBssy = 0x145,
  kBra = 0x147,
  kExit = 0x14d,
  kRet = 0x150,
  kBrx = 0x149,
  kBrxu = 0x158,
  kJmp = 0x14a,
  kJmx = 0x14c,
};

bool is_atomic(uint32_t operation) {
  switch (operation) {
    case kAtom:
    case kAtomCas:
    case kAtoms:
    case kAtomsCas:
    case kRedg:
    case kAtomg:
    case kAtomgCas:
    case kAtomFloat:
    case kAtomgFloat:
    case kRedgFloat:
      return true;
    default:
      return false;
  }
}

bool is_access(uint32_t operation) {
  switch (operation) {
    case kLd:
    case kLdg:
    case kLds:
    case kSt:
    case kStg:
    case kSts:
    case kLdsm:
    case kStsm:
    case kLdgsts:
    case kBulkCopy:
    case kBulkReduce:
      return true;
    default:
      return is_atomic(operation);
  }
}

bool is_one_way(const Instruction& one) { return one.operation() == kBar && (one.high >> 13 & 3) == 1; }

// Whether each time it runs a patch is called.
bool is_patched(const Instruction& one) {
  switch (one.operation()) {
    case kBar:
      return !is_one_way(one);
    case kWarpsync:
    case kSyncs:
    case kSyncsPhase:
      return true;
    default:
      return is_access(one.operation()) || one.form() == 0x9c7 || one.form() == 0xdc7;
  }
}

bool has_scope(uint32_t operation) {
  switch (operation) {
    case kLd:
    case kLdg:
    case kSt:
    case kStg:
    case kAtom:
    case kAtomCas:
    case kRedg:
    case kAtomg:
    case kAtomgCas:
    case kAtomFloat:
    case kAtomgFloat:
    case kRedgFloat:
      return true;
    default:
      return false;
  }
}

// Of a strong access; before sm_80 the field has its order apart from its scope.
uint32_t scope_of(const Instruction& one) {
  const uint32_t operation = one.operation();
  if (operation == kAtoms || operation == kAtomsCas) return kBlock;
  if (!has_scope(operation)) return 0;
  const uint32_t field = one.high >> 13 & 15;
  const bool atomic = is_atomic(operation);
  if (field == 5 || field == 8) return kBlock;
  if (field == 6 || field == 7 || field >= 9) return kDevice;
  return atomic ? kDevice : 0;
}

// The contribution of an instruction without a patch to the next one that has one.
uint32_t adds(const Instruction& one) {
  switch (one.operation()) {
    case kMembar: {
      const uint32_t scope = (one.high >> 12 & 3) == 0 ? kBlock : kDevice;
      return scope << 14 | scope << 16;
    }
    case kCctl:
      return (one.high >> 23 & 15) == 4 ? kDevice << 16 : 0;  // IVALL: the end of an acquire
    case kFence:
      return 1u << 18;
    default:
      return 0;
  }
}

// The larger of each field.
uint32_t both(uint32_t a, uint32_t b) {
  uint32_t made = (a | b) & ~(0xfu << 14);
  for (const uint32_t shift : {14u, 16u}) {
    const uint32_t x = a >> shift & 3, y = b >> shift & 3;
    made |= (x > y ? x : y) << shift;
  }
  return made;
}

// The instruction that a branch goes to, -1 for others: control_flow.py has the same.
int64_t target_of(const Instruction& one, int64_t at, uint32_t architecture) {
  if (one.form() != 0x947 && one.form() != 0x547) return -1;
  const uint64_t distance = one.low >> 34 | (one.high & 0x3ffff) << 30;
  int64_t bytes = static_cast<int64_t>(distance << 16) >> 16;
  if (architecture >= 90) bytes = bytes * 256 + static_cast<int64_t>(one.low >> 16 & 255);
  return at + 1 + bytes * 4 / 16;
}

bool falls_through(const Instruction& one, uint32_t architecture) {
  if ((one.low >> 12 & 15) != 7) return true;  // guarded
  switch (one.operation()) {
    case kExit:
    case kRet:
    case kBrx:
    case kBrxu:
    case kJmp:
    case kJmx:
      return false;
    case kBra: {
      const bool plain = (one.high >> 23 & 31) == 7 && (architecture < 90 || (one.low >> 32 & 3) == 0);
      return one.form() != 0x947 || !plain;
    }
    default:
      return true;
  }
}

uint32_t arrives(const Instruction& one) {
  if (!is_one_way(one)) return 0;
  const uint32_t barrier = one.form() == 0xb1d ? one.low >> 54 & 15 : 0;
  if (barrier == 0 || barrier > 10) return kBehind;  // in a register, or too large for the field
  return 1u << (20 + barrier);
}

std::vector<Instruction> instructions_of(std::string_view code) {
  std::vector<Instruction> found(code.size() / 16);
  if (!found.empty()) memcpy(found.data(), code.data(), found.size() * 16);
  return found;
}

bool is_swap(uint32_t operation) {
  return operation == kAtomsCas || operation == kAtomgCas || operation == kAtomCas;
}

bool is_plain_load(uint32_t operation) { return operation == kLd || operation == kLdg || operation == kLds; }

// Whether an instruction sets a register; compare_and_swap.py has the same.
bool sets(const Instruction& one, uint32_t wanted) {
  switch (one.operation()) {
    case kSt:
    case kStg:
    case kSts:
    case kRedg:
    case kRedgFloat:
    case kBra:
    case kBssy:
    case kNop:
    case 0x00b:  // FSETP, ISETP, PLOP3, DSETP, HSETP2, BSYNC: these set no registers
    case 0x00c:
    case 0x01c:
    case 0x02a:
    case 0x034:
    case 0x141:
    case 0x1c2:  // R2UR, S2UR
    case 0x1c3:
      return false;
    default:
      return (one.low >> 16 & 255) == wanted && (one.operation() & 0x180) != 0x080;  // those set uniform ones
  }
}

// The register that an instruction copies or takes a part of; kZero for others.
uint32_t copied_from(const Instruction& one) {
  constexpr uint32_t kZero = 255;
  if (one.form() == 0x202) return one.low >> 32 & 255;                         // MOV
  if (one.form() == 0x416 || one.form() == 0x816) return one.low >> 24 & 255;  // PRMT
  const bool moves = one.form() == 0x224 && (one.low >> 24 & 255) == kZero && (one.low >> 32 & 255) == kZero;
  return moves ? one.high & 255 : kZero;  // IMAD.MOV
}

// Whether a branch behind an instruction goes back to it or before it.
bool loops(const std::vector<Instruction>& code, int64_t at, uint32_t architecture) {
  const int64_t end = std::min<int64_t>(at + kLoop, static_cast<int64_t>(code.size()));
  for (int64_t behind = at + 1; behind < end; ++behind) {
    const int64_t target = target_of(code[behind], behind, architecture);
    if (target >= 0 && target <= at && target > at - kLoop) return true;
    if (!falls_through(code[behind], architecture)) return false;
  }
  return false;
}

// A load whose value is expected by a compare-and-swap in a loop is as strong as the swap: together they form
// one atomic.
void mark_expected(const std::vector<Instruction>& code, uint32_t architecture, uint32_t* facts) {
  for (int64_t at = 0; at < static_cast<int64_t>(code.size()); ++at) {
    if (!is_swap(code[at].operation()) || !loops(code, at, architecture)) continue;
    uint32_t wanted = code[at].low >> 32 & 255;
    for (int64_t before = at - 1; before >= 0 && before > at - kLoop && wanted != 255; --before) {
      const Instruction& one = code[before];
      if (!falls_through(one, architecture)) break;
      if (!sets(one, wanted)) continue;
      const bool load = is_plain_load(one.operation());
      if (load) facts[before] = (facts[before] & ~(3u << 11)) | scope_of(code[at]) << 11;
      wanted = load ? 255 : copied_from(one);
    }
  }
}

// Facts propagated along the paths from the patched instructions before to each one, and from each one to
// those after it.
void follow(const std::vector<Instruction>& code, uint32_t architecture, uint32_t* facts) {
  const int64_t count = static_cast<int64_t>(code.size());
  std::vector<uint32_t> before(code.size(), 0), behind(code.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (int64_t at = 0; at < count; ++at) {
      const uint32_t passed = is_patched(code[at]) ? 0 : both(before[at], adds(code[at]));
      const int64_t next[] = {falls_through(code[at], architecture) ? at + 1 : -1,
                              target_of(code[at], at, architecture)};
      for (const int64_t to : next) {
        if (to < 0 || to >= count) continue;
        const uint32_t met = both(before[to], passed);
        changed |= met != before[to];
        before[to] = met;
        const uint32_t comes = behind[at] | arrives(code[to]) | (is_patched(code[to]) ? 0 : behind[to]);
        changed |= comes != behind[at];
        behind[at] = comes;
      }
    }
  }
  for (int64_t at = 0; at < count; ++at) facts[at] |= before[at] | (is_patched(code[at]) ? behind[at] : 0);
}

void add_site(CodeFacts* found, uint32_t function, uint32_t at, uint32_t* word) {
  const uint32_t site = static_cast<uint32_t>(found->site_facts.size());
  if (site >= WS_SITES) return;  // stays 0
  *word |= site;
  found->site_facts.push_back(*word);
  found->site_offsets.push_back(at * 16);
  found->site_functions.push_back(function);
}

}  // namespace

CodeFacts facts_of_code(const std::vector<std::string_view>& codes, uint32_t architecture) {
  CodeFacts found;
  found.site_facts = {0};
  found.site_offsets = {0};
  found.site_functions = {0};
  for (uint32_t function = 0; function < codes.size(); ++function) {
    const std::vector<Instruction> code = instructions_of(codes[function]);
    found.first.push_back(static_cast<uint32_t>(found.words.size()));
    found.words.resize(found.words.size() + code.size(), 0);
    uint32_t* const facts = found.words.data() + found.first.back();
    follow(code, architecture, facts);
    mark_expected(code, architecture, facts);
    for (uint32_t at = 0; at < code.size(); ++at) {
      const uint32_t operation = code[at].operation();
      found.has_mbarriers |= operation == kSyncs || operation == kSyncsPhase;
      found.one_way |= arrives(code[at]) >> 20;
      if (!is_access(operation)) continue;
      facts[at] |= std::max(scope_of(code[at]), WS_SCOPE(facts[at])) << 11 |
                   static_cast<uint32_t>(is_atomic(operation)) << 13;
      if (operation == kLdgsts) facts[at] |= 1u << 19;
      if (operation == kBulkCopy || operation == kBulkReduce) facts[at] |= 2u << 19;
      found.has_copies |= WS_COPIES(facts[at]) != 0;
      add_site(&found, function, at, facts + at);
    }
  }
  if ((found.one_way >> 1 & 0x3ff) == 0x3ff) found.one_way = 0xffff;
  return found;
}

bool copies_by_tensor_map(std::string_view code) {
  for (const Instruction& one : instructions_of(code))
    if (one.operation() >= kTensorLoad && one.operation() <= kTensorReduce) return true;
  return false;
}

}  // namespace warpsight
