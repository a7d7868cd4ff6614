// Finds the differences between a job and the job that wrote a checkpoint.
#pragma once

#include <string>

namespace tandem::trainer {

// Compares the texts of two jobs (EffectiveJob.text). Returns the changed settings of model, data,
// optimizer, batches, epochs, seed and strategy, sorted by name: "optimizer.type momentum -> adam,
// seed default -> 7". "": there are no changes. Ignores origins (file or flag), checkpoint paths,
// run lengths and output settings.
std::string ChangesOfJob(const std::string& before, const std::string& now);

}  // namespace tandem::trainer
