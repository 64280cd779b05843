// Records of copies by the TMA. A tensor map is identified by its content, so it is recorded once however
// many copies name it, and again when a kernel has modified it. The tests compile it for the host.
#pragma once

#include "nvbit/record.h"

struct WsTensorMap {
  u64 words[WS_TENSOR_MAP_WORDS];
};

WS_DEVICE WsTensorMap ws_read_map(u64 address) {
  const u64* const at = reinterpret_cast<const u64*>(address);
  WsTensorMap map;
#pragma unroll
  for (u32 word = 0; word < WS_TENSOR_MAP_WORDS; ++word) map.words[word] = ws_read(at + word);
  return map;
}

// Never 0.
WS_DEVICE u64 ws_map_key(const WsTensorMap& map) {
  u64 key = 0x9e3779b97f4a7c15ull;
#pragma unroll
  for (u32 word = 0; word < WS_TENSOR_MAP_WORDS; ++word) {
    key = (key ^ map.words[word]) * 0x9e3779b97f4a7c15ull;
    key ^= key >> 32;
  }
  return key != 0 ? key : 1;
}

// Whether this map is to be recorded. Without a place for its key it is each time.
WS_DEVICE bool ws_new_map(u64* maps, u64 key) {
  for (u32 probe = 0; probe < WS_TENSOR_MAP_PROBES; ++probe) {
    const u64 found = ws_claim(maps + ((key + probe) & (WS_TENSOR_MAPS - 1)), key);
    if (found == 0 || found == key) return found == 0;
  }
  return true;
}

// A copy with `event.size` registers, which are the same in all lanes; false where it is left out.
template <class Ring>
WS_DEVICE bool ws_write_tensor_copy(const Ring& ring, const WsGroup& group, WsEvent event, u64 key,
                                    const u32* values) {
  const u32 length = WS_EVENT_HEADER_WORDS + 1 + (event.size + 1) / 2;
  event.kind = WS_TENSOR_COPY_KIND;
  event.encodings = WS_NONE;
  const u64 at = ring.reserve(group, event.launch, length);
  if (at == ~0ull) return false;
  WsWords<Ring> words = {group, ring, at, 0, 0};
  ws_write_header(words, event, length);
  words.word(key);
  for (u32 i = 0; i < event.size; ++i) words.unit(values[i]);
  words.flush();
  return true;
}

template <class Ring>
WS_DEVICE void ws_write_tensor_map(const Ring& ring, const WsGroup& group, WsEvent event, u64 key,
                                   const WsTensorMap& map) {
  const u32 length = WS_EVENT_HEADER_WORDS + 1 + WS_TENSOR_MAP_WORDS;
  event.kind = WS_TENSOR_MAP_KIND;
  event.size = 0;
  event.encodings = WS_NONE;
  const u64 at = ring.reserve(group, event.launch, length);
  if (at == ~0ull) return;
  WsWords<Ring> words = {group, ring, at, 0, 0};
  ws_write_header(words, event, length);
  words.word(key);
#pragma unroll
  for (u32 word = 0; word < WS_TENSOR_MAP_WORDS; ++word) words.word(map.words[word]);
  words.flush();
}
