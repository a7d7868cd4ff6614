// Sends the contents of pushes again that servers rejected because rows or slices have moved.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "pserver/client/push.h"

namespace tandem::ps {

// Finds the new owners. Then sends the same message again, or sends its contents as new messages to
// the owners. Thread-safe. The arguments of the constructor must outlive this object.
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
  // The server may have given all its buckets away and stopped. If so, sends the contents to the
  // new owners, which know whether the former owner applied the push.
  void OnGone(std::shared_ptr<PushCall> push, const Status& why) override;

 private:
  using Calls = std::vector<std::shared_ptr<PushCall>>;
  // Handles a rejected message that does not depend on other messages.
  void Redirect(const std::shared_ptr<PushCall>& push, const Status& why);
  // Exchanges maps with all owners and the servers that rejected messages. Then handles the
  // rejected messages of the group.
  void FindOwners(const std::shared_ptr<PushGroup>& group);
  // Returns the error of a message whose rows still move at its deadline.
  Status TooLate(const PushPart& part) const;
  void SendRejected(const std::shared_ptr<PushGroup>& group);
  void SendLater(const std::shared_ptr<PushCall>& push);
  std::set<size_t> Owners(const PushPart& part, const OwnerMap& owners) const;
  // Sends the contents of these messages to the current owners under new numbers. REQUIRES: each
  // message is finally rejected, or its server is lost.
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
