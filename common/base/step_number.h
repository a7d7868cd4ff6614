// How people count the steps of training.
#pragma once

namespace tandem {

// Programs, checkpoints and messages between processes count the steps that are done: the first
// step is number 0. People count from 1, as progress lines do: whatever they read says this of a
// step. (The steps that are done are a count, which everybody says alike.)
template <typename Step>
constexpr Step DisplayStep(Step step) {
  return step + 1;
}

}  // namespace tandem
