// Pulls the optimizer slots of all variables.
#pragma once

#include <optional>
#include <vector>

#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"

namespace tandem {
class SlotTensor;
}  // namespace tandem

namespace tandem::ps {

// Pulls optimizer slots. The calls block. The arguments of the constructor must outlive this
// object.
class StatePuller {
 public:
  StatePuller(Caller& caller, const PsOptions& options, const Placement& placement,
              const JobTables& tables)
      : caller_(caller), options_(options), placement_(placement), tables_(tables) {}

  // Implements PsClient::PullState. If slices moved during the pull, repeats the pull, because the
  // result may lack some slots or contain them twice.
  StatusOr<std::vector<PsSlot>> Pull();

 private:
  struct Slots {
    std::vector<std::vector<PsSlot>> by_variable;
    std::vector<PsSlot> of_tables;
  };
  StatusOr<std::vector<PsSlot>> PullOnce();
  Status Add(const PsServer& server, const SlotTensor& slot, Slots& all) const;

  Caller& caller_;
  const PsOptions& options_;
  const Placement& placement_;
  const JobTables& tables_;
};

}  // namespace tandem::ps
