// Answers FetchChanges of proto/pserver.proto. Holds requests that have no changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/threads/runner.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace tandem {
class FetchChangesReply;
class FetchChangesRequest;
}  // namespace tandem

namespace tandem::pserver {

class StateHistory;

// Holds a request until the version of the server has increased, then reads its changes again on a
// thread of the runner. If there are still no changes for the reader, the request keeps the
// position up to which they were read. The path of a push only wakes the thread of this object,
// with one call that waits in the shard for all requests together. Thread-safe.
class HeldChanges {
 public:
  // A request that is not answered yet.
  struct Call;
  using Finish = std::function<void(const Status&)>;

  // Maximum number of held requests. The server replies to further requests at once, with no
  // changes.
  static constexpr size_t kHeldMax = 1024;
  // Minimum pause between two reads for one request.
  static constexpr Duration kPause = std::chrono::milliseconds(20);

  // `history` null: this server has no log. All arguments must outlive this object.
  HeldChanges(const StateHistory* history, Shard& shard, Deadlines& deadlines, Runner& runner);
  // Joins the thread. REQUIRES: all calls are answered.
  ~HeldChanges();

  // Returns a call whose reply is written to `reply`. Both arguments must outlive the call.
  std::shared_ptr<Call> Make(const FetchChangesRequest& request, FetchChangesReply* reply) const;
  // Reads the changes and calls `finish` once: when there are changes for the reader, when the time
  // limit of the request has passed, or after Leave.
  void Answer(const std::shared_ptr<Call>& call, const Finish& finish);
  // Ends a call, because its caller has disconnected. Has no effect if the call is answered.
  void Leave(const std::shared_ptr<Call>& call);
  size_t held() const;

 private:
  struct State;

  void Read(const std::shared_ptr<Call>& call);
  // Holds the call after a read without changes. `newest`: State::newest before the read. Returns
  // false if the call must be answered now.
  bool Hold(const std::shared_ptr<Call>& call, uint64_t newest);
  void Loop();
  // Waits in the shard until the server has `version`.
  void Watch(uint64_t version);
  void ReadLater(const std::shared_ptr<Call>& call);

  const StateHistory* const history_;
  Shard& shard_;
  Deadlines& deadlines_;
  Runner& runner_;
  const std::shared_ptr<State> state_;  // the shard may call back after this object
  std::thread thread_;
};

}  // namespace tandem::pserver
