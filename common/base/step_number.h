// The number of a training step as users see it.
#pragma once

namespace tandem {

// Converts an internal step number for display. Programs, checkpoints and messages between
// processes number steps from 0. Everything that a user reads, such as progress lines, numbers them
// from 1. (A number of completed steps is a count and is the same for both.)
template <typename Step>
constexpr Step DisplayStep(Step step) {
  return step + 1;
}

}  // namespace tandem
