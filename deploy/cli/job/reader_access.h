// The access of subcommands that read rows of a running job.
#pragma once

#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::deploy {

ps::ReaderOptions ReaderOptionsOf(const JobAccess& access);
// Finds the job like FindPservers. Prefers the reader's certificate, which has fewer rights than
// the administrator's.
StatusOr<JobAccess> FindToRead(const ParsedArgs& args);
// The flag --replica of ReaderAddresses.
FlagSpec ReplicaFlag();
// Returns the addresses of the pservers of the job, without drained ones, or the addresses that the
// user named. With --replica=N: the addresses of replica N of each pserver. INVALID_ARGUMENT: the
// job has no such replica.
StatusOr<std::vector<std::string>> ReaderAddresses(const JobAccess& access, const ParsedArgs& args);
// Returns the shortest text from which the same float can be parsed.
std::string FloatText(float value);

}  // namespace tandem::deploy
