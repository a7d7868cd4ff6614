// Values in text fields. Internal to the readers of text formats.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace tandem {

// So many bytes can be read behind every text here: it is loaded word by word.
inline constexpr size_t kTextSlack = 8;

// Reads digits at `at` (before `end`) into `number`, behind those it has; returns what follows
// them. Eight at a time without a branch on how many there are: their bytes are added up pairwise
// in one word (Lemire, "Quickly parsing eight digits", 2018).
inline const char* ScanDigits(const char* at, const char* end, uint64_t& number) {
  constexpr uint64_t kPowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  for (;;) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    word ^= 0x3030303030303030;  // digits become 0 .. 9
    const uint64_t others =
        (((word & 0x7f7f7f7f7f7f7f7f) + 0x7676767676767676) | word) & 0x8080808080808080;
    const auto left = static_cast<size_t>(end - at);
    const size_t digits = std::min<size_t>(static_cast<size_t>(std::countr_zero(others)) / 8, left);
    if (digits == 0) return at;
    word <<= 64 - 8 * digits;
    word = word * 10 + (word >> 8);
    word = ((word & 0x000000ff000000ff) * 0x000f424000000064 +
            ((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
           32;
    number = number * kPowers[digits] + word;
    at += digits;
    if (digits < 8) return at;
  }
}

// A finite decimal number, with or without sign, fraction and exponent, to the nearest double.
// `stop` is behind it; nullptr where `at` begins none.
struct ScannedNumber {
  double value = 0;
  const char* stop = nullptr;
};
ScannedNumber ScanNumber(const char* at, const char* end);
// All of `text`.
std::optional<double> ParseNumber(std::string_view text);

// A whole number in [0, 10^18), digits alone.
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

// `text` hashed to [0, range), the same on every machine: words of 8 bytes (the last filled with
// zeros), each xored in and then mixed by a 64x64 bit product whose halves are xored (the "mum" of
// Wang Yi's wyhash), begun with `seed` and the length; scaled to the range by the high half of a
// product (Lemire, "Fast Random Integer Generation in an Interval", 2019).
// REQUIRES: range >= 1.
uint64_t HashToRange(std::string_view text, uint64_t seed, uint64_t range);

}  // namespace tandem
