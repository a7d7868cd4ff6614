// Sends pushes that servers did not accept because their rows or slices have moved.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "pserver/client/push.h"

namespace tandem::ps {

// Learns the new owners, then sends the same message again, or its contents as new messages to
// their owners. Thread-safe. The arguments of the constructor must outlive this.
class PushResplitter final : public PushRefusalHandler {
 public:
  PushResplitter(Caller& caller, const PsOptions& options, Placement& placement,
                 const JobTables& tables, Puller& puller, Pusher& pusher)
      : caller_(caller),
        options_(options),
        placement_(placement),
        tables_(tables),
        puller_(puller),
        pusher_(pusher) {}

  void OnMoved(std::shared_ptr<PushCall> push, const Status& why) override;
  // The server may have given everything away. The new owner of the rows knows whether this push
  // was applied before.
  void OnGone(std::shared_ptr<PushCall> push, const Status& why) override;

 private:
  using Calls = std::vector<std::shared_ptr<PushCall>>;
  // A message that is independent of others.
  void Redirect(std::shared_ptr<PushCall> push, const Status& why);
  // Exchanges maps with all servers, then handles the rejected messages of the group.
  void FindOwners(const std::shared_ptr<PushGroup>& group);
  void SendRejected(const std::shared_ptr<PushGroup>& group);
  void SendLater(const std::shared_ptr<PushCall>& push);
  std::set<size_t> Owners(const PushPart& part, const OwnerMap& owners) const;
  // The server will never accept these messages, or another server was called about them. Sends
  // their contents to the current owners under new numbers.
  void Resplit(const Calls& pushes, const OwnerMap& owners);
  StatusOr<std::vector<PushPart>> Split(const Calls& pushes, const OwnerMap& owners) const;

  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  const JobTables& tables_;
  Puller& puller_;
  Pusher& pusher_;
};

}  // namespace tandem::ps
