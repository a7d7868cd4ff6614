// Sends the initial values of parameters and rows to the servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/request_filler.h"

namespace tandem::ps {

// The servers that have values, as found by Configure.
struct FoundValues {
  std::vector<bool> initialised;  // by server: true if the server has values
  // true: some servers have the initial values (version 0), and other servers have no values.
  bool init_again = false;
};

// Makes the calls that initialise the servers. The calls block. The arguments of the constructor
// must outlive this object.
class ParamInitializer {
 public:
  ParamInitializer(Caller& caller, const PsOptions& options, const Placement& placement,
                   const RequestFiller& requests, const JobTables& tables)
      : caller_(caller),
        options_(options),
        placement_(placement),
        requests_(requests),
        tables_(tables) {}

  // Sends the initial values to every server that has no values. Blocks.
  Status Send(const FoundValues& found, std::span<const PsTensor> params, uint64_t version,
              std::span<const PsSlot> slots, const RowSource& rows);
  // Waits until every server has values. Returns the lowest version of all servers.
  StatusOr<uint64_t> Wait();

 private:
  class RowMessages;
  Status SendSlices(const PsServer& server, const std::vector<const PsTensor*>& by_variable,
                    uint64_t version, std::span<const PsSlot> slots);
  // Sends the initial rows of every table to one server.
  Status SendRows(const PsServer& server, uint64_t version, std::span<const PsSlot> slots,
                  const RowSource& rows);

  Caller& caller_;
  const PsOptions& options_;
  const Placement& placement_;
  const RequestFiller& requests_;
  const JobTables& tables_;
};

}  // namespace tandem::ps
