#include "common/base/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "common/base/require.h"

namespace tandem {

uint64_t StableHash(std::string_view text) {
  uint64_t h = 14695981039346656037ull;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return h;
}

uint64_t StreamKey(uint64_t seed, std::string_view purpose) {
  TD_REQUIRE(!purpose.empty());
  const auto words = Philox(StableHash(purpose), seed);
  return (uint64_t{words[1]} << 32) | words[0];
}

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

float UniformAt(uint64_t key, uint64_t i) {
  const uint32_t word = Philox(key, i / 4)[i % 4];
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

float NormalAt(uint64_t key, uint64_t i) {
  const auto words = Philox(key, i / 2);
  const size_t pair = (i % 2) * 2;
  const double u = (words[pair] + 1.0) * 0x1p-32;  // a number that is uniform in (0, 1]
  const double v = words[pair + 1] * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

std::vector<uint32_t> Permutation(uint64_t key, uint32_t n) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = n; i > 1; --i) {
    const auto words = Philox(key, i);
    const uint64_t r = (uint64_t{words[1]} << 32) | words[0];
    std::swap(order[i - 1], order[static_cast<uint32_t>(r % i)]);
  }
  return order;
}

}  // namespace tandem
