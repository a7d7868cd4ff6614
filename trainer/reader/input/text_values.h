// Parses values in text fields. Internal to the readers of text formats.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#include "common/base/require.h"
#endif

namespace tandem::reader {

// Number of bytes that must be readable after each text in this file, because the functions load
// texts as vectors.
inline constexpr size_t kTextSlack = 32;

// The tables are outside the functions, because compilers would copy tables inside a function to
// the stack at each call.
inline constexpr uint64_t kPowersOfTen[] = {1,      10,      100,      1000,     10000,
                                            100000, 1000000, 10000000, 100000000};
inline constexpr double kExactPowersOfTen[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

// Returns the number whose eight decimal digits are the bytes of `word`, each in [0, 9]. The first
// byte is the highest digit. Adds neighbouring digits pairwise in one word (Lemire, "Quickly
// parsing eight digits", 2018).
inline uint64_t ValueOfWord(uint64_t word) {
  word = word * 10 + (word >> 8);
  return ((word & 0x000000ff000000ff) * 0x000f424000000064 +
          ((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
         32;
}

// Returns the value of the first `count` of the eight digits at `at`; 0 if `count` is 0. REQUIRES:
// count <= 8.
inline uint64_t ValueOfDigits(const char* at, size_t count) {
  TD_REQUIRE(count <= 8);
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  word ^= 0x3030303030303030;  // converts the characters of digits to 0 to 9
  return ValueOfWord(count == 0 ? 0 : word << (64 - 8 * count));
}

// Returns the value of a text of one to eight digits; nullopt: `text` is another text.
inline std::optional<uint32_t> ParseDigits(std::string_view text) {
  if (text.size() - 1 >= 8) return std::nullopt;
  uint64_t word;
  std::memcpy(&word, text.data(), sizeof(word));
  word = (word ^ 0x3030303030303030) << (64 - 8 * text.size());
  // Rejects a byte that is not a digit. The value of such a byte is above 9: either it is above 15,
  // or it becomes so when 6 is added.
  if (((word | (word + 0x0606060606060606)) & 0xf0f0f0f0f0f0f0f0) != 0) return std::nullopt;
  return static_cast<uint32_t>(ValueOfWord(word));
}

// Returns a mask of the 32 bytes at `at`. Bit i is set if the byte at[i] is not a digit.
inline uint32_t NonDigits(const char* at) {
#if defined(__SSE2__)
  // Shifts the signed bytes so that the digits become the ten smallest values.
  const auto digits = [](const char* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8(static_cast<char>('0' - 128)));
    return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmplt_epi8(moved, _mm_set1_epi8(-118))));
  };
  return ~(digits(at) | digits(at + 16) << 16);
#else
  uint32_t others = 0;
  for (int i = 0; i < 32; ++i) others |= static_cast<uint32_t>(at[i] < '0' || at[i] > '9') << i;
  return others;
#endif
}

// Reads the digits at `at`, up to `end`, and appends them to `number`. Returns the address after
// the last digit.
inline const char* ScanDigits(const char* at, const char* end, uint64_t& number) {
  for (;;) {
    const auto left = static_cast<size_t>(end - at);
    const auto ahead = static_cast<size_t>(std::countr_zero(NonDigits(at)));
    const size_t digits = std::min({ahead, left, size_t{8}});
    number = number * kPowersOfTen[digits] + ValueOfDigits(at, digits);
    at += digits;
    if (digits < 8) return at;
  }
}

// A finite decimal number with optional sign, fraction and exponent, rounded to the nearest double.
// `stop`: the address after the number; nullptr: no number begins at the start of the text.
struct ScannedNumber {
  double value = 0;
  const char* stop = nullptr;
};
ScannedNumber ScanNumber(const char* at, const char* end);
// Parses the whole `text` as a number. nullopt: `text` is not a number.
std::optional<double> ParseNumber(std::string_view text);

// A number without sign and exponent that has at most eight digits before the point and at most
// seven digits after the point. Most numbers have this form. `others`: NonDigits of the text; its
// upper bits may be missing. length 0: the text has another form, or the number extends beyond
// `others`.
struct PlainNumber {
  double value = 0;
  size_t length = 0;
};
inline PlainNumber ScanPlainNumber(const char* at, uint32_t others) {
  const auto whole = static_cast<size_t>(std::countr_zero(others));
  if (whole > 8) return {};
  const uint64_t number = ValueOfDigits(at, whole);
  if (at[whole] != '.') return {static_cast<double>(static_cast<int64_t>(number)), whole};
  const auto end = static_cast<size_t>(std::countr_zero(others & (others - 1)));
  const size_t fraction = end - whole - 1;
  if (fraction > 7 || end == 1) return {};
  const uint64_t digits = number * kPowersOfTen[fraction] + ValueOfDigits(at + whole + 1, fraction);
  return {static_cast<double>(static_cast<int64_t>(digits)) / kExactPowersOfTen[fraction], end};
}

// A whole number in [0, 10^18) that consists only of digits. `stop`: the address after the number;
// nullptr: no such number begins at the start of the text.
struct ScannedIndex {
  int64_t value = 0;
  const char* stop = nullptr;
};
inline ScannedIndex ScanIndex(const char* at, const char* end) {
  uint64_t value = 0;
  const char* const stop = ScanDigits(at, end, value);
  if (stop == at || stop - at > 18) return {};
  return {static_cast<int64_t>(value), stop};
}

// Hashes `text` to a number in [0, range). The result is equal on every machine. The hash starts
// with `seed` and the length of the text. Each word of 8 bytes is xored into the hash; the last
// word is padded with zeros. After each word the hash is replaced by the xor of the two halves of a
// 128-bit product (the "mum" of Wang Yi's wyhash). The high half of another product scales the hash
// to the range (Lemire, "Fast Random Integer Generation in an Interval", 2019). REQUIRES: range >=
// 1.
uint64_t HashToRange(std::string_view text, uint64_t seed, uint64_t range);

}  // namespace tandem::reader
