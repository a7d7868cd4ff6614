// The data of a step that dropout needs besides its input.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem {

// The state variable that is dropout's input Position, i64 [4]. The trainer writes it before each
// run.
inline constexpr const char* kDropoutPosition = "dropout_position";

struct DropoutPosition {
  int64_t seed = 0;          // seed of the job
  int64_t step = 0;          // global step
  int64_t first_sample = 0;  // index of this run's first sample in the step's global batch
  int64_t samples = 0;       // samples in this run's batch; 0: the position was not written
};

// A random 32-bit word below this value drops its element. The probability is p.
inline uint32_t DropBelow(double p) {
  return static_cast<uint32_t>(std::llround(p * 0x1p32 * (1 - 0x1p-32)));
}
// Factor for the elements that are kept.
inline float KeptScale(double p) { return static_cast<float>(1 / (1 - p)); }

}  // namespace tandem
