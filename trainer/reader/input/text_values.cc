#include "trainer/reader/input/text_values.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "common/base/require.h"

namespace tandem::reader {
namespace {

constexpr ptrdiff_t kDigitsMax = 15;

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

ScannedNumber ScanAnyNumber(const char* at, const char* end) {
  if (at < end && *at == '+') {
    ++at;
    if (at < end && *at == '-') return {};
  }
  ScannedNumber number;
  const auto [stop, error] = std::from_chars(at, end, number.value);
  if (error != std::errc() || !std::isfinite(number.value)) return {};
  number.stop = stop;
  return number;
}

}  // namespace

// If a double can represent both the mantissa and the power of ten exactly, their quotient is the
// nearest double (Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990). Most
// numbers have this form.
ScannedNumber ScanNumber(const char* const begin, const char* const end) {
  const bool minus = begin < end && *begin == '-';
  const char* const first = begin + (minus ? 1 : 0);
  const PlainNumber plain = ScanPlainNumber(first, NonDigits(first));
  const char* const stop = first + plain.length;
  if (plain.length > 0 && stop <= end && (stop == end || (*stop | 0x20) != 'e')) {
    return {minus ? -plain.value : plain.value, stop};
  }
  uint64_t mantissa = 0;
  const char* at = ScanDigits(first, end, mantissa);
  ptrdiff_t digits = at - first, fraction = 0;
  if (at < end && *at == '.') {
    const char* const point = at + 1;
    at = ScanDigits(point, end, mantissa);
    fraction = at - point;
    digits += fraction;
  }
  const bool exponent = at < end && (*at == 'e' || *at == 'E');
  if (digits == 0 || digits > kDigitsMax || exponent) return ScanAnyNumber(begin, end);
  double value = static_cast<double>(mantissa);
  if (fraction > 0) value /= kExactPowersOfTen[fraction];
  return {minus ? -value : value, at};
}

std::optional<double> ParseNumber(std::string_view text) {
  const char* const end = text.data() + text.size();
  const ScannedNumber number = ScanNumber(text.data(), end);
  if (number.stop != end || text.empty()) return std::nullopt;
  return number.value;
}

uint64_t HashToRange(std::string_view text, uint64_t seed, uint64_t range) {
  TD_REQUIRE(range >= 1);
  // The constants are from wyhash.
  constexpr uint64_t kFirst = 0xa0761d6478bd642f, kSecond = 0xe7037ed1a0b428db;
  uint64_t hash = Mix(seed ^ kFirst, text.size() ^ kSecond);
  const char* at = text.data();
  size_t left = text.size();
  uint64_t word = 0;
  for (; left > 8; left -= 8, at += 8) {
    std::memcpy(&word, at, 8);
    hash = Mix(hash ^ word, kSecond);
  }
  if (left > 0) {
    std::memcpy(&word, at, 8);
    hash = Mix(hash ^ (word & (~uint64_t{0} >> (64 - 8 * left))), kSecond);
  }
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Mix(hash, kFirst)) * range) >> 64);
}

}  // namespace tandem::reader
