// Blocking calls to one server. Includes gRPC: for .cc files only.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "pserver/client/carrier/raw_call.h"
#include "pserver/client/carrier/wait_group.h"

namespace tandem::ps {

// Makes blocking calls to one server. Thread-safe.
class BlockingCalls {
 public:
  explicit BlockingCalls(RawServer server) : server_(std::move(server)) {}
  ~BlockingCalls();  // REQUIRES: no call is in progress in another thread

  // Makes one attempt of the call. Returns at `deadline` at the latest.
  Status Call(rpc::PserverCall call, const google::protobuf::MessageLite& request,
              google::protobuf::MessageLite* reply, Time deadline) const;

 private:
  const RawServer server_;
  const std::shared_ptr<WaitGroup> leases_ = std::make_shared<WaitGroup>();
};

}  // namespace tandem::ps
