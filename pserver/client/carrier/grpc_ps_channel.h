// The channel of a PsClient over gRPC. Pushes and pulls to servers on this host use shm RPC.
// Includes gRPC: only for .cc files of this directory.
#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/channel.h"
#include "pserver/client/carrier/options.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/raw_call.h"
#include "pserver/client/carrier/shm_rpc_connection.h"
#include "pserver/client/carrier/wait_group.h"

namespace tandem::ps {

class GrpcPsChannel final : public PsChannel {
 public:
  // If PsPatience::wait_for_servers, blocks until every server replies (PsClient::Connect).
  static StatusOr<std::unique_ptr<PsChannel>> Connect(const std::vector<std::string>& endpoints,
                                                      const PsOptions& options);

  Time Now() const override { return SteadyNow(); }
  std::unique_ptr<PsEvent> MakeEvent() override;
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override;
  Buffer Allocate(int server, size_t bytes) override;
  void After(Duration pause, std::function<void()> then) override;
  Status AddServer(int server, const std::string& address) override;
  void Abandon(int server) override;
  void Close() override;
  StatusOr<int> OpenShmChannels(const Invite& invite) override;
  uint64_t shm_calls() const override { return shm_calls_; }

 private:
  struct Server {
    int index = 0;
    Endpoint endpoint;
    std::string name;
    RawServer raw;
    // Shm RPC connection, set by OpenShmChannels; null: all calls to this server use gRPC.
    std::unique_ptr<ShmRpcConnection> shm;
  };
  struct Open {
    int server = -1;  // the called server if the call is a push or a pull; otherwise -1
    std::shared_ptr<RawCall> call;
  };

  explicit GrpcPsChannel(const PsOptions& options);
  Status WaitForServers();
  // `start`: time at which the wait for all servers began.
  Status WaitForServer(const Server& server, Time start);
  std::string ServerUri() const;  // URI that a TLS server must have in its certificate; "": no TLS
  void CallByGrpc(Server& server, rpc::PserverCall call, codec::EncodedMessage request,
                  Time deadline, Take take);
  // Returns a function that calls options_.callbacks.on_call, then `take`.
  Take Observed(const Server& server, rpc::PserverCall call, size_t bytes, Take take) const;
  void EndCall(uint64_t id);
  StatusOr<std::unique_ptr<Server>> MakeServer(int index, const std::string& address) const;
  Server& ServerAt(int index);
  // Makes the call by shm RPC. If the connection is lost, repeats the call by gRPC. A repeated push
  // has an effect only once.
  void CallByShm(Server& server, rpc::PserverCall call, codec::EncodedMessage request,
                 Time deadline, Take take);

  const PsOptions options_;
  const uint64_t retry_stream_;  // random numbers for pauses before retries; a different stream for
                                 // each trainer
  std::vector<std::unique_ptr<Server>> servers_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::atomic<uint64_t> shm_calls_{0};
  // One lease for each RawCall that exists.
  std::shared_ptr<WaitGroup> call_leases_ = std::make_shared<WaitGroup>();
  Mutex mu_;
  CondVar idle_;
  bool closing_ TD_GUARDED_BY(mu_) = false;
  // Servers that joined the running job. Entries are never removed.
  std::map<int, std::unique_ptr<Server>> added_ TD_GUARDED_BY(mu_);
  uint64_t next_call_ TD_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<grpc::Alarm>> pauses_ TD_GUARDED_BY(mu_);
  std::map<uint64_t, Open> calls_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
