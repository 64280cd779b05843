// The race detector's core, compiled for the host: tests give it the events of warps one by one, in the order
// in which patches would.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "sanitizer/code_facts.h"
#include "sanitizer/race_events.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr u32 kPages = 1 << 6;

struct Told {
  uint64_t address, count;
  uint32_t reason, earlier_site, site, earlier_block, earlier_thread, block, thread, shared;
};

// Zeroed memory that costs nothing until it is touched.
template <class Item>
struct Memory {
  explicit Memory(u64 count) : items(static_cast<Item*>(calloc(count, sizeof(Item)))) {}
  ~Memory() { free(items); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Item* data() const { return items; }
  Item& operator[](u64 at) const { return items[at]; }
  Item* items;
};

struct Model {
  WsRace race = {};
  Memory<WsRow> rows{WS_ROWS};
  Memory<WsSlot> slots{WS_SLOTS};
  Memory<WsMbarrier> mbarriers{WS_MBARRIER_SLOTS * WS_MBARRIERS};
  Memory<u64> pages{kPages};
  Memory<u64> shadow{kPages * static_cast<u64>(WS_PAGE_ENTRIES)};
  Memory<u64> block_shadow{2ull * WS_BLOCK_WORDS};
  Memory<u64> seen{2 * WS_SEEN}, unwatched{WS_CAUSES};
  Memory<u32> site_facts{WS_SITES};
  u32 clock = 0;
  u64 rows_used = 1, blocks_used = 0;
  std::vector<Told> told;
};

// Whether all lanes access words that follow each other, from the start of a line on.
bool whole_lines(u32 lanes, const uint64_t* a, u32 size) {
  if (lanes != ~0u || a[0] % (32 * size) != 0) return false;
  for (u32 lane = 1; lane < 32; ++lane)
    if (a[lane] != a[0] + lane * size) return false;
  return true;
}

// As ws_check_access does it, line after line.
void on_lines(const WsMe& me, u32 logarithm, bool write, u64 begin) {
  WsAccess access = {};
  access.bytes = 15;
  access.write = write;
  access.epoch = me.warp->epoch;
  access.lane = logarithm;
  for (access.address = begin; access.address < begin + (128u << logarithm); access.address += 128) {
    u64* const page = page_of(me.race, access.address);
    u64* const line = line_of(page, access.address);
    const u64 others = write ? 0 : also_others(me.race, me.warp, load(line + 3));
    const u64 before = exchange(line + (write ? 0 : 3), packed(me, access, kAlone) | others);
    const u64 other = load(line + (write ? 3 : 0));
    check_line_found(me, access, line, word_of(page, access.address), before, other,
                     load(line + 1) == me.race->tag);
  }
}

// The bytes of a lane's word that all lanes access, where they have parts of it: of its first lane alone.
bool parts_of(u32 lanes, const uint64_t* a, u32 lane, u32 size, u32* bytes) {
  const u32 own = ((1u << size) - 1) << (a[lane] & 3);
  u32 all = 0, first = 32;
  for (u32 other = 32; other-- > 0;) {
    if ((lanes >> other & 1) == 0 || a[other] >> 2 != a[lane] >> 2) continue;
    all |= ((1u << size) - 1) << (a[other] & 3);
    first = other;
  }
  *bytes = all != own ? all : 0;
  return all == own || lane == first;
}

}  // namespace

WS_APART void tell(WsMe me, WsFinding found) {
  auto* const model = static_cast<Model*>(const_cast<void*>(me.launch));
  const u32 row = index_of(me.race, found.earlier);
  model->told.push_back({found.address, found.count, found.reason, site_of(found.earlier), WS_SITE(me.facts),
                         row / me.race->warps, row % me.race->warps * 32 + lane_of(found.earlier), me.block,
                         me.warp_of_block * 32 + found.lane, found.shared});
}

WS_APART void leave_out(WsMe me, u32 cause) { add(me.race->unwatched + cause, 1ull); }

EXPORT Model* model_new() {
  auto* const model = new Model;
  WsRace& race = model->race;
  race.rows = model->rows.data();
  race.slots = model->slots.data();
  race.mbarriers = model->mbarriers.data();
  race.pages = model->pages.data();
  race.shadow = model->shadow.data();
  race.block_shadow = model->block_shadow.data();
  race.seen = model->seen.data();
  race.unwatched = model->unwatched.data();
  race.clock = &model->clock;
  race.site_facts = model->site_facts.data();
  race.page_shift = 32 - 6;
  race.has_mbarriers = race.phases = 1;
  return model;
}

EXPORT void model_free(Model* model) { delete model; }

// A new launch; `sizes`: grid, then cluster.
EXPORT void model_launch(Model* model, const uint32_t* sizes, uint32_t threads, uint32_t one_way) {
  WsRace& race = model->race;
  for (int i = 0; i < 3; ++i) {
    race.grid[i] = sizes[i];
    race.cluster[i] = sizes[3 + i] > 0 ? sizes[3 + i] : 1;
  }
  race.alone = race.cluster[0] * race.cluster[1] * race.cluster[2] == 1;
  ++race.tag;
  ++race.kernel;
  race.one_way = one_way;
  race.warps = (threads + 31) / 32;
  race.watched = sizes[0] * sizes[1] * sizes[2] * race.warps;
  race.first_row = static_cast<u32>(model->rows_used);
  race.block_base = static_cast<u32>(model->blocks_used);
  model->rows_used += race.watched;
  model->blocks_used += sizes[0] * sizes[1] * sizes[2];
}

EXPORT void model_skip_rows(Model* model, uint64_t rows) { model->rows_used += rows; }

// An event: operands for each lane of 32. `facts` of its instruction. Arrivals at mbarriers are those of all
// lanes.
EXPORT void model_event(Model* model, uint32_t block, uint32_t warp, uint32_t lanes, uint32_t facts,
                        uint32_t kind, uint32_t flags, uint32_t size, const uint64_t* a, const uint64_t* b,
                        uint64_t barrier, uint64_t word) {
  WsMe me = {};
  me.launch = model;
  me.race = &model->race;
  me.block = block;
  me.warp_of_block = warp;
  me.lanes = lanes;
  me.count = 1;
  if (!begin(&me)) return;
  me.facts = facts;
  model->site_facts[WS_SITE(facts)] = facts;
  pass_fences(me);
  if (me.warp->epoch >= WS_LARGEST_EPOCH) return;
  const u32 first = static_cast<u32>(__builtin_ctz(lanes));
  const bool copies = kind == 14 || kind == 30 || kind == 35 || kind == 37;
  const bool memory = kind == 3 || kind == 4 || kind == 17 || kind == 19;
  const bool lines = kind == 3 && size >= 4 && WS_SCOPE(facts) == 0 && whole_lines(lanes, a, size);
  if (lines) on_lines(me, 29 - __builtin_clz(size), (flags & kWrites) != 0, a[0]);
  for (u32 lane = 0; lane < 32 && (copies || (memory && !lines)); ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    u32 bytes = 0;
    if (memory && (size >= 4 || parts_of(lanes, a, lane, size, &bytes)))
      on_access(me, lane, kind | (flags & 255) << 8 | size << 16, a[lane], static_cast<u32>(b[lane]), bytes);
    if (copies)
      on_copy(me, lane, kind, a[lane], static_cast<u32>(b[lane]), size, static_cast<u32>(barrier), word);
    if (copies && kind != 14) break;
  }
  if (!copies && !memory) on_order(me, kind, flags, a[first], static_cast<u32>(b[first]), word);
  leave(me);
}

EXPORT uint32_t model_told(const Model* model, Told* into, uint32_t most) {
  for (uint32_t i = 0; i < most && i < model->told.size(); ++i) into[i] = model->told[i];
  return static_cast<uint32_t>(model->told.size());
}

EXPORT uint64_t model_unwatched(const Model* model, uint32_t cause) { return model->unwatched[cause]; }

// The facts of a function, one word for each instruction; the barriers that warps arrive at one-way.
EXPORT uint32_t model_facts(const char* code, uint64_t bytes, uint32_t architecture, uint32_t* words) {
  const warpsight::CodeFacts found = warpsight::facts_of_code({{code, bytes}}, architecture);
  for (size_t i = 0; i < found.words.size(); ++i) words[i] = found.words[i];
  return found.one_way;
}

EXPORT uint32_t model_copies_by_tensor_map(const char* code, uint64_t bytes) {
  return warpsight::copies_by_tensor_map({code, bytes}) ? 1 : 0;
}
