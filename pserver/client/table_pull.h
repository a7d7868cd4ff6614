// Pulls whole tables in pages, server by server.
#pragma once

#include <cstdint>

#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/request_filler.h"

namespace tandem::ps {

// Pulls whole tables. Thread-safe. The calls block. The arguments of the constructor must outlive
// this object.
class TablePuller {
 public:
  TablePuller(Caller& caller, const PsOptions& options, Placement& placement,
              RequestFiller& requests, const JobTables& tables)
      : caller_(caller),
        options_(options),
        placement_(placement),
        requests_(requests),
        tables_(tables) {}

  // Waits until the version of every server is at least `min_version`. Then passes all rows of
  // `table` to `take`, in pages of whole row buckets, by ascending buckets. `slots`: whether the
  // pages have the optimizer slots.
  Status Pull(const PsTable& table, bool slots, uint64_t min_version, const RowSink& take);

 private:
  // Pulls the row buckets [bucket, end) from one server. Increases `bucket` after each page.
  // Returns OK early if the server has left the job.
  Status PullBuckets(const PsTable& table, bool slots, uint32_t& bucket, uint32_t end,
                     const PsServer& server, const RowSink& take);
  // Waits until every server that has rows reaches `version`.
  Status WaitForRows(uint64_t version);
  // Waits until the server reaches `version`. Returns false if the server has left the job.
  StatusOr<bool> WaitForVersion(const PsServer& server, uint64_t version);

  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  RequestFiller& requests_;
  const JobTables& tables_;
};

}  // namespace tandem::ps
