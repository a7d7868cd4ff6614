// Prints a JobSnapshot as text and as JSON.
#pragma once

#include <string>

#include "deploy/cli/job/job_snapshot.h"

namespace tandem::deploy {

// Returns text with tables. `before`: an earlier snapshot, for updates per second; may be null.
std::string StatusText(const JobSnapshot& now, const JobSnapshot* before);
std::string VariablesText(const JobSnapshot& now);
// StatusJson and VariablesJson return one JSON object. Its names do not change between versions.
std::string StatusJson(const JobSnapshot& now);
std::string VariablesJson(const JobSnapshot& now);

}  // namespace tandem::deploy
