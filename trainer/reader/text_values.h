// Values in text fields. Internal to the readers of text formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

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
  const char* const first = at;
  int64_t value = 0;
  for (; at < end && static_cast<unsigned>(*at - '0') <= 9; ++at) {
    if (at - first == 18) return {};
    value = value * 10 + (*at - '0');
  }
  return {value, at == first ? nullptr : at};
}

// `text` hashed to [0, range), the same on every machine: words of 8 bytes (the last filled with
// zeros), each xored in and then mixed by a 64x64 bit product whose halves are xored (the "mum" of
// Wang Yi's wyhash), begun with `seed` and the length; scaled to the range by the high half of a
// product (Lemire, "Fast Random Integer Generation in an Interval", 2019).
// REQUIRES: 8 bytes can be read behind `text`; range >= 1.
uint64_t HashToRange(std::string_view text, uint64_t seed, uint64_t range);

}  // namespace tandem
