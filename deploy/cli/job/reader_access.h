// The access of subcommands that read rows of a running job.
#pragma once

#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::deploy {

ps::ReaderOptions ReaderOptionsOf(const JobAccess& access);
// Returns the addresses of the pservers of the job, without drained ones, or the addresses that the
// user named.
std::vector<std::string> ReaderAddresses(const JobAccess& access);
// Returns the shortest text from which the same float can be parsed.
std::string FloatText(float value);

}  // namespace tandem::deploy
