// Blocking calls to one server. Includes gRPC: for .cc files only.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <set>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/client/carrier/raw_call.h"
#include "pserver/client/carrier/wait_group.h"

namespace tandem::ps {

// Makes blocking calls to one server. Thread-safe.
class BlockingCalls {
 public:
  explicit BlockingCalls(RawServer server) : server_(std::move(server)) {}
  ~BlockingCalls();  // REQUIRES: no call is in progress in another thread

  // Makes one attempt of the call. Returns at `deadline` at the latest. CANCELLED: Cancel was
  // called.
  Status Call(rpc::PserverCall call, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* reply, Time deadline);
  // Ends the calls in progress and all later calls with CANCELLED.
  void Cancel();

 private:
  const RawServer server_;
  Mutex mu_;
  bool cancelled_ TD_GUARDED_BY(mu_) = false;
  std::set<std::shared_ptr<RawCall>> calls_ TD_GUARDED_BY(mu_);  // calls in progress
  const std::shared_ptr<WaitGroup> leases_ = std::make_shared<WaitGroup>();
};

}  // namespace tandem::ps
