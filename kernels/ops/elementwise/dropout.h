// What dropout needs to know of a step beside its input.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem {

// The state variable that dropout reads as Position, i64 [4]; the trainer writes it before each
// run.
inline constexpr const char* kDropoutPosition = "dropout_position";

struct DropoutPosition {
  int64_t seed = 0;          // of the job
  int64_t step = 0;          // global step
  int64_t first_sample = 0;  // of this run's batch in the step's global batch
  int64_t samples = 0;       // of this run's batch; 0: nobody wrote the position
};

// Words of 32 bits below it drop their element, with probability p.
inline uint32_t DropBelow(double p) {
  return static_cast<uint32_t>(std::llround(p * 0x1p32 * (1 - 0x1p-32)));
}
// What the elements that stay are multiplied by.
inline float KeptScale(double p) { return static_cast<float>(1 / (1 - p)); }

}  // namespace tandem
