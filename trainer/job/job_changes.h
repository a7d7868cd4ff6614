// What of a job is no longer as it was when its checkpoint was written.
#pragma once

#include <string>

namespace tandem {

// `before`, `now`: EffectiveJob.text. The settings of model, data, optimizer, batches, epochs, seed
// and strategy whose values differ, "optimizer.type momentum -> adam, seed default -> 7", by name;
// "" when there are none. Where a value was set (file or flag) makes no difference, nor do paths of
// checkpoints, lengths of runs and what is printed.
std::string ChangesOfJob(const std::string& before, const std::string& now);

}  // namespace tandem
