// Makes the calls by which a client configures the servers of a job.
#pragma once

#include <cstdint>
#include <vector>

#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/init.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/request_filler.h"

namespace tandem {
class ConfigureReply;
}  // namespace tandem

namespace tandem::ps {

// Makes the calls by which a client configures servers. The calls block. The arguments of the
// constructor must outlive this object.
class JobConfigurator {
 public:
  JobConfigurator(Caller& caller, const PsOptions& options, Placement& placement,
                  const RequestFiller& requests, const JobTables& tables)
      : caller_(caller),
        options_(options),
        placement_(placement),
        requests_(requests),
        tables_(tables) {}

  // Returns an incarnation above all incarnations of this trainer that a server knows.
  StatusOr<uint64_t> ChooseIncarnation();
  // Sends every server its part of the job. Returns the replies in the order of the servers.
  StatusOr<std::vector<ConfigureReply>> Configure(const PsOptimizer& optimizer);
  // Returns which servers have values. FAILED_PRECONDITION: servers restored values of different
  // steps.
  StatusOr<FoundValues> CheckValues(const std::vector<ConfigureReply>& replies) const;
  PsState StateOf(const std::vector<ConfigureReply>& replies) const;
  // Fetches the bucket maps of the servers that joined the running job.
  Status RefreshAddedServers();

 private:
  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  const RequestFiller& requests_;
  const JobTables& tables_;
};

}  // namespace tandem::ps
