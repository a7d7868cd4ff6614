// The number of a training step, as users see it.
#pragma once

namespace tandem {

// Converts an internal step number to the number that users see. Programs, checkpoints and messages
// between processes number steps from 0. Texts for users, such as progress lines, number steps from
// 1. Do not convert a number of completed steps, which is a count.
template <typename Step>
constexpr Step DisplayStep(Step step) {
  return step + 1;
}

}  // namespace tandem
