// The lane to one server of a PsClient: opened, served, and opened again after it was lost.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "common/shm_rpc/shm_rpc_client.h"

namespace tandem {

// Thread-safe.
class ShmRpcConnection {
 public:
  // Asks the server for an invitation; blocks. `name`: of the server, for the log.
  using Invite = std::function<StatusOr<ShmRpcTicket>()>;
  ShmRpcConnection(std::string name, Invite invite);
  ~ShmRpcConnection() { Stop(); }
  // For good; calls under way end with UNAVAILABLE.
  void Stop();

  // OK once there is a lane, otherwise how the newest attempt ended. One attempt is waited for, and
  // until `until` others where the server did not answer.
  Status WaitForFirst(Time until);
  // ShmRpcClient::Allocate; null also while there is no lane.
  Buffer Allocate(size_t bytes);
  // ShmRpcClient::Call; false also while there is no lane.
  bool Call(uint32_t method, const EncodedMessage& request, Time deadline,
            ShmRpcClient::Reply reply);

 private:
  std::shared_ptr<ShmRpcClient> lane();
  void Loop();
  StatusOr<std::shared_ptr<ShmRpcClient>> Open();
  // True: serve it. False: stop.
  bool Show(std::shared_ptr<ShmRpcClient> lane);
  bool Sleep(Duration duration);

  const std::string name_;
  const Invite invite_;
  Mutex mu_;
  CondVar cv_;
  bool stopped_ TD_GUARDED_BY(mu_) = false, tried_ TD_GUARDED_BY(mu_) = false;
  Status opened_ TD_GUARDED_BY(mu_);  // how the newest attempt ended
  std::shared_ptr<ShmRpcClient> lane_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem
