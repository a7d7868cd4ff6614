// Declarations for dropout. Its input Position contains the seed, the step and the position of the
// samples in the global batch.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace tandem::ops {

// Name of the state variable (i64 [4]) that is the input Position of dropout. The trainer writes a
// DropoutPosition to this variable before each run.
inline constexpr const char* kDropoutPosition = "dropout_position";

struct DropoutPosition {
  int64_t seed = 0;          // seed of the job
  int64_t step = 0;          // number of the global step
  int64_t first_sample = 0;  // index of this run's first sample in the step's global batch
  int64_t samples = 0;  // number of samples in this run's batch; 0: the position was not written
};

// The random words of a tensor: element i of the tensor has word first + i of stream `key`
// (MathLoops::dropout).
struct DropoutWords {
  uint64_t key, first;
};
// Returns the number of the operator's name, which is a part of the key.
uint64_t DropoutName(std::string_view name);
// Reads the input Position of an operator whose dropout has `n` elements. INVALID_ARGUMENT: the
// number of samples does not divide n, or a number is out of range.
StatusOr<DropoutWords> DropoutWordsOf(const void* position, uint64_t name, int64_t n);

// Returns the limit for dropping elements with probability p. An element is dropped if its random
// 32-bit word is below the limit.
inline uint32_t DropBelow(double p) {
  return static_cast<uint32_t>(std::llround(p * 0x1p32 * (1 - 0x1p-32)));
}
// Returns the factor for the elements that are not dropped. p: probability of dropping an element.
inline float KeptScale(double p) { return static_cast<float>(1 / (1 - p)); }

}  // namespace tandem::ops
