// The shm RPC connection of a PsClient to one server. A lost connection is opened again.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "common/shm_rpc/shm_rpc_client.h"

namespace tandem::ps {

// Opens the connection, and opens it again after a loss, on its own thread. Thread-safe.
class ShmRpcConnection {
 public:
  // Requests a ticket from the server. Blocks.
  using Invite = std::function<StatusOr<shm_rpc::ShmRpcTicket>()>;
  ShmRpcConnection(std::string name, Invite invite);
  ~ShmRpcConnection() { Stop(); }
  // Closes the connection permanently. Calls in progress end with UNAVAILABLE.
  void Stop();

  // Waits until one attempt to open the connection has ended. If the server did not reply, waits
  // for further attempts until `until`. Returns OK if the connection is open, otherwise the status
  // of the newest attempt. CANCELLED: `interrupted` (null: not called) returned true. It is called
  // several times a second on the waiting thread.
  Status WaitForFirst(Time until, const std::function<bool()>& interrupted);
  // Like ShmRpcClient::Allocate. Also returns null if there is no connection.
  Buffer Allocate(size_t bytes);
  // Like ShmRpcClient::Call. Also returns false if there is no connection.
  bool Call(uint32_t method, const codec::EncodedMessage& request, Time deadline,
            shm_rpc::ShmRpcClient::Reply reply);

 private:
  std::shared_ptr<shm_rpc::ShmRpcClient> client();
  void Loop();
  StatusOr<std::shared_ptr<shm_rpc::ShmRpcClient>> Open();
  // Makes `client` available to calls; null: no connection is open. Returns false if the object is
  // stopped. If the result is true, the thread must serve `client`.
  bool Show(std::shared_ptr<shm_rpc::ShmRpcClient> client);
  bool Sleep(Duration duration);

  const std::string name_;
  const Invite invite_;
  Mutex mu_;
  CondVar cv_;
  bool stopped_ TD_GUARDED_BY(mu_) = false, tried_ TD_GUARDED_BY(mu_) = false;
  Status opened_ TD_GUARDED_BY(mu_);  // status of the newest attempt to open the connection
  std::shared_ptr<shm_rpc::ShmRpcClient> client_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::ps
