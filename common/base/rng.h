// Counter-based random numbers. Value i of a stream is a pure function of (key, i). A slice of a
// variable therefore gets the same bits on every rank and pserver. Source: Philox-4x32-10, Salmon
// et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem {

// Returns the 64-bit FNV-1a hash of `text`. The hash is equal on every machine and in every
// process.
uint64_t StableHash(std::string_view text);

// Returns the key of a stream. The key depends on the job's seed and on the purpose of the numbers,
// such as "init:fc_0.w_0".
uint64_t StreamKey(uint64_t seed, std::string_view purpose);

// Returns the four 32-bit random words of stream `key` at position `counter`.
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter);

// Returns element `i` of stream `key`, uniform in [0, 1), with 24 random bits.
float UniformAt(uint64_t key, uint64_t i);
// Returns element `i` of stream `key`, from the standard normal distribution (Box-Muller on
// elements 2i and 2i+1).
float NormalAt(uint64_t key, uint64_t i);

// Returns the numbers 0 to n-1 in a random order that depends only on `key` (Fisher-Yates).
std::vector<uint32_t> Permutation(uint64_t key, uint32_t n);

}  // namespace tandem
