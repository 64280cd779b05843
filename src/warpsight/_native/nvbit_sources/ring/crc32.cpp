// Where the processor multiplies polynomials: folding (Gopal and others, "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ", 2009). Where it has an instruction for this very polynomial (optional in
// Armv8.0, everywhere from 8.1 on): that. Elsewhere slicing-by-8 (Kounavis and Berry, 2005): eight look-ups
// for eight bytes.
#include "ring/crc32.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace warpsight {

namespace {

struct Tables {
  uint32_t of[8][256];
};

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    tables.of[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (int slice = 1; slice < 8; ++slice) {
      const uint32_t crc = tables.of[slice - 1][byte];
      tables.of[slice][byte] = (crc >> 8) ^ tables.of[0][crc & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

// `crc` is inverted here and below, as the algorithm keeps it between bytes.
uint32_t by_tables(uint32_t crc, const unsigned char* bytes, size_t count) {
  const auto& of = kTables.of;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint32_t low, high;
    memcpy(&low, bytes, 4);
    memcpy(&high, bytes + 4, 4);
    low ^= crc;
    crc = of[7][low & 255] ^ of[6][low >> 8 & 255] ^ of[5][low >> 16 & 255] ^ of[4][low >> 24] ^
          of[3][high & 255] ^ of[2][high >> 8 & 255] ^ of[1][high >> 16 & 255] ^ of[0][high >> 24];
  }
  for (; count; ++bytes, --count) crc = (crc >> 8) ^ of[0][(crc ^ *bytes) & 255];
  return crc;
}

#if defined(__x86_64__)
#define WARPSIGHT_CLMUL __attribute__((target("pclmul,sse4.1")))

WARPSIGHT_CLMUL __m128i load(const unsigned char* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// The remainder of `value` moved on by as many bits as the pair of `powers` stands for, plus what comes
// there.
WARPSIGHT_CLMUL __m128i fold(__m128i value, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// At least 64 bytes, whole groups of 16. Constants are powers of x modulo the polynomial, bits reflected.
WARPSIGHT_CLMUL uint32_t by_folding(uint32_t crc, const unsigned char* bytes, size_t count) {
  const __m128i by_512_bits = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_128_bits = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const __m128i by_64_bits = _mm_set_epi64x(0, 0x163cd6124);
  const __m128i polynomial_and_inverse = _mm_set_epi64x(0x1f7011641, 0x1db710641);
  const __m128i words = _mm_set_epi32(0, -1, 0, -1);
  __m128i at[4];
  for (int i = 0; i < 4; ++i) at[i] = load(bytes + 16 * i);
  at[0] = _mm_xor_si128(at[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (bytes += 64, count -= 64; count >= 64; bytes += 64, count -= 64)
    for (int i = 0; i < 4; ++i) at[i] = fold(at[i], by_512_bits, load(bytes + 16 * i));
  __m128i one = at[0];
  for (int i = 1; i < 4; ++i) one = fold(one, by_128_bits, at[i]);
  for (; count >= 16; bytes += 16, count -= 16) one = fold(one, by_128_bits, load(bytes));
  // 128 bits to 64, then Barrett's reduction to 32
  one = _mm_xor_si128(_mm_srli_si128(one, 8), _mm_clmulepi64_si128(one, by_128_bits, 0x10));
  const __m128i moved = _mm_clmulepi64_si128(_mm_and_si128(one, words), by_64_bits, 0x00);
  one = _mm_xor_si128(_mm_srli_si128(one, 4), moved);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(one, words), polynomial_and_inverse, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, words), polynomial_and_inverse, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(one, quotient), 1));
}

bool can_fold() {
  static const bool can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return can;
}
#elif defined(__aarch64__)
// Whole groups of 8 bytes.
__attribute__((target("+crc"))) uint32_t by_instruction(uint32_t crc, const unsigned char* bytes,
                                                        size_t count) {
  for (; count; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    crc = __crc32d(crc, word);
  }
  return crc;
}

bool has_instruction() {
  static const bool has = getauxval(AT_HWCAP) & 1 << 7;  // HWCAP_CRC32
  return has;
}
#endif

}  // namespace

uint32_t crc32(uint32_t crc, const void* data, size_t count) {
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
#if defined(__x86_64__)
  if (count >= 64 && can_fold()) {
    const size_t whole = count & ~static_cast<size_t>(15);
    crc = by_folding(crc, bytes, whole);
    bytes += whole;
    count -= whole;
  }
#elif defined(__aarch64__)
  if (count >= 8 && has_instruction()) {
    const size_t whole = count & ~static_cast<size_t>(7);
    crc = by_instruction(crc, bytes, whole);
    bytes += whole;
    count -= whole;
  }
#endif
  return ~by_tables(crc, bytes, count);
}

}  // namespace warpsight
