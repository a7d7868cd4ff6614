#include "pserver/client/carrier/grpc_ps_channel.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/credentials/exposure.h"
#include "common/rpc/credentials/identity.h"
#include "common/rpc/credentials/tls_probe.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

class ThreadEvent final : public PsEvent {
 public:
  void Set() override {
    MutexLock lock(mu_);
    set_ = true;
    cv_.NotifyAll();
  }
  bool WaitUntil(Time deadline) override {
    MutexLock lock(mu_);
    while (!set_) {
      if (!cv_.WaitUntil(mu_, deadline) && !set_) return false;
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool set_ TD_GUARDED_BY(mu_) = false;
};

size_t BytesOf(codec::Fragments message) {
  size_t bytes = 0;
  for (const auto& fragment : message) bytes += fragment.size();
  return bytes;
}

// Interval at which a waiting thread checks whether it must stop waiting.
constexpr Duration kLook = std::chrono::milliseconds(200);

constexpr Duration kClosingLook = std::chrono::seconds(1);
constexpr int kClosingLooks = 60;

// Exits the process, because the memory of calls in progress must not be freed.
[[noreturn]] void EndWithout(int calls, const char* what) {
  std::fprintf(
      stderr,
      "error: %d or more calls to pservers were %s; the process exits without waiting for them\n",
      calls, what);
  std::_Exit(kExitFailure);
}

// Returns whether a retry may succeed, because the connection was lost or the server is stopping.
bool WasLost(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

bool ConnectedBy(grpc::Channel& channel, Time deadline) {
  const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
  return channel.WaitForConnected(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
}

}  // namespace

std::string PserverName(int index, const std::string& address) {
  return absl::StrFormat("pserver %d (%s)", index, address);
}

GrpcPsChannel::GrpcPsChannel(const PsOptions& options)
    : options_(options),
      retry_stream_(StreamKey(static_cast<uint64_t>(options.trainer), "retries")) {}

StatusOr<std::unique_ptr<PsChannel>> GrpcPsChannel::Connect(
    const std::vector<std::string>& endpoints, const PsOptions& options) {
  auto carrier = std::unique_ptr<GrpcPsChannel>(new GrpcPsChannel(options));
  TD_ASSIGN_OR_RETURN(carrier->credentials_,
                      rpc::MakeCredentials(options.security.tls, carrier->ServerUri()));
  for (const std::string& text : endpoints) {
    const auto index = static_cast<int>(carrier->servers_.size());
    TD_ASSIGN_OR_RETURN(auto server, carrier->MakeServer(index, text));
    carrier->servers_.push_back(std::move(server));
  }
  if (options.patience.wait_for_servers) TD_RETURN_IF_ERROR(carrier->WaitForServers());
  return std::unique_ptr<PsChannel>(std::move(carrier));
}

StatusOr<std::unique_ptr<GrpcPsChannel::Server>> GrpcPsChannel::MakeServer(
    int index, const std::string& address) const {
  auto server = std::make_unique<Server>();
  server->index = index;
  TD_ASSIGN_OR_RETURN(server->endpoint, ParseServerAddress(address));
  server->name = PserverName(index, address);
  TD_RETURN_IF_ERROR(Annotate(rpc::CheckSendsInTheClear(server->endpoint, options_.security.tls,
                                                        options_.security.insecure_allow_network),
                              server->name));
  server->raw = MakeRawServer(server->endpoint, options_.security.tls, credentials_,
                              options_.security.secret, options_.job);
  return server;
}

Status GrpcPsChannel::AddServer(int server, const std::string& address) {
  TD_ASSIGN_OR_RETURN(auto made, MakeServer(server, address));
  MutexLock lock(mu_);
  added_.emplace(server, std::move(made));
  return OkStatus();
}

GrpcPsChannel::Server& GrpcPsChannel::ServerAt(int index) {
  if (static_cast<size_t>(index) < servers_.size()) return *servers_[static_cast<size_t>(index)];
  MutexLock lock(mu_);
  TD_REQUIRE(added_.contains(index));
  return *added_.at(index);
}

void GrpcPsChannel::After(Duration pause, std::function<void()> then) {
  const auto alarm = std::make_shared<grpc::Alarm>();
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    if (!closing_) {
      id = next_call_++;
      calls_[id] = {};
      pauses_[id] = alarm;
    }
  }
  if (id == 0) return then();
  alarm->Set(std::chrono::system_clock::now() +
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(pause),
             [this, id, then = std::move(then)](bool) {
               then();
               std::shared_ptr<grpc::Alarm> done;
               {
                 MutexLock lock(mu_);
                 done = std::move(pauses_[id]);
                 pauses_.erase(id);
               }
               EndCall(id);
             });
}

std::string GrpcPsChannel::ServerUri() const {
  return options_.security.tls.enabled() ? rpc::ToUri({options_.job, rpc::PeerRole::kPserver}) : "";
}

Status GrpcPsChannel::WaitForServers() {
  const Time start = SteadyNow();
  for (const auto& server : servers_) TD_RETURN_IF_ERROR(WaitForServer(*server, start));
  return OkStatus();
}

Status GrpcPsChannel::WaitForServer(const Server& server, Time start) {
  const Time deadline = start + options_.patience.start_timeout;
  Time next_message = SteadyNow() + std::chrono::milliseconds(500);
  while (
      !ConnectedBy(*server.raw.channel, std::min({deadline, next_message, SteadyNow() + kLook}))) {
    const Time now = SteadyNow();
    if (options_.callbacks.stop && options_.callbacks.stop())
      return Cancelled("the client stopped on request while it waited for %s", server.name);
    if (now >= deadline) {
      return Unavailable(
          "%s did not reply within %.0f s [TD4001]; hint: check that this pserver runs and that "
          "its address is right",
          server.name, Seconds(options_.patience.start_timeout));
    }
    if (now < next_message) continue;
    // Only UNAVAILABLE may disappear while the client waits, so any other error ends the wait.
    const Status probe = rpc::ProbeConnection(server.endpoint, options_.security.tls, ServerUri());
    if (!probe.ok() && probe.code() != StatusCode::kUnavailable)
      return Annotate(probe, server.name);
    next_message = SteadyNow() + std::chrono::seconds(1);
    if (options_.callbacks.on_wait) {
      options_.callbacks.on_wait(absl::StrFormat("waiting for %s (%.0f s of %.0f s)", server.name,
                                                 Seconds(SteadyNow() - start),
                                                 Seconds(options_.patience.start_timeout)));
    }
  }
  return OkStatus();
}

StatusOr<int> GrpcPsChannel::OpenShmChannels(const Invite& invite) {
  if (options_.transport == PsTransport::kGrpc) return 0;
  for (auto& server : servers_) {
    server->shm = std::make_unique<ShmRpcConnection>(
        server->name, [invite, index = server->index] { return invite(index); });
  }
  const bool asked_for = options_.transport == PsTransport::kShm;
  const Time until = SteadyNow() + (asked_for ? options_.patience.start_timeout : Duration::zero());
  int opened_count = 0;
  for (auto& server : servers_) {
    const Status opened = server->shm->WaitForFirst(until, options_.callbacks.interrupted);
    if (opened.code() == StatusCode::kCancelled) return opened;
    opened_count += opened.ok();
    if (opened.ok() || !asked_for) continue;
    return FailedPrecondition(
        "cannot use shared memory with %s, which pserver_transport: Shm requires: %s", server->name,
        std::string(opened.message()));
  }
  return opened_count;
}

std::unique_ptr<PsEvent> GrpcPsChannel::MakeEvent() { return std::make_unique<ThreadEvent>(); }

namespace {

PsCall::Server AtServer(rpc::PserverCall call, codec::Fragments answer) {
  if (!rpc::RowOf(call).carries_values) return {};
  const codec::AnswerHead head = call == rpc::PserverCall::kPush ? codec::HeadOfPushReply(answer)
                                                                 : codec::HeadOfPullReply(answer);
  const codec::CodedTimes& t = head.times;
  return {.version = head.version,
          .values = head.pulled,
          .received_us = static_cast<int64_t>(t.received),
          .answered_us = static_cast<int64_t>(t.answered),
          .update_begin_us = static_cast<int64_t>(t.update_begin),
          .update_end_us = static_cast<int64_t>(t.update_end)};
}

}  // namespace

PsChannel::Take GrpcPsChannel::Observed(const Server& server, rpc::PserverCall call, size_t bytes,
                                        Take take) const {
  PsCall record{
      .server = server.index, .call = call, .begin = SteadyNow(), .end = {}, .sent = bytes};
  return [this, record, take = std::move(take)](const Status& status,
                                                codec::Fragments answer) mutable {
    record.end = SteadyNow();
    record.received = BytesOf(answer);
    record.ok = status.ok();
    if (record.ok) record.at_server = AtServer(record.call, answer);
    options_.callbacks.on_call(record);
    take(status, answer);
  };
}

void GrpcPsChannel::Call(int server, rpc::PserverCall call, codec::EncodedMessage request,
                         Time deadline, Take take) {
  Server& to = ServerAt(server);
  if (options_.callbacks.on_call) take = Observed(to, call, request.bytes(), std::move(take));
  // Checks the kind of the call before it reads `shm`, to avoid a data race with OpenShmChannels,
  // which sets `shm`. Calls that carry values begin only after OpenShmChannels; other calls may run
  // at the same time.
  if (rpc::RowOf(call).carries_values && to.shm != nullptr) {
    return CallByShm(to, call, std::move(request), deadline, std::move(take));
  }
  CallByGrpc(to, call, std::move(request), deadline, std::move(take));
}

void GrpcPsChannel::CallByShm(Server& server, rpc::PserverCall call, codec::EncodedMessage request,
                              Time deadline, Take take) {
  TD_REQUIRE(rpc::RowOf(call).carries_values && server.shm != nullptr);
  struct Sent {
    codec::EncodedMessage request;
    Take take;
  };
  const auto sent = std::make_shared<Sent>(Sent{std::move(request), std::move(take)});
  const auto again = [this, &server, call, deadline, sent] {
    CallByGrpc(server, call, std::move(sent->request), deadline, std::move(sent->take));
  };
  const auto reply = [sent, again](const Status& status, codec::Fragments answer) {
    if (WasLost(status)) return again();
    sent->take(status, answer);
  };
  const auto method = call == rpc::PserverCall::kPush ? LANE_METHOD_PUSH : LANE_METHOD_PULL;
  if (server.shm->Call(method, sent->request, deadline, reply)) {
    ++shm_calls_;
  } else {
    again();
  }
}

Buffer GrpcPsChannel::Allocate(int server, size_t bytes) {
  Server& to = ServerAt(server);
  return to.shm == nullptr ? nullptr : to.shm->Allocate(bytes);
}

void GrpcPsChannel::CallByGrpc(Server& server, rpc::PserverCall call, codec::EncodedMessage request,
                               Time deadline, Take take) {
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    if (!closing_) {
      id = next_call_++;
      calls_[id] = {};
    }
  }
  if (id == 0) return take(Cancelled("the client is shutting down"), {});
  auto made = RawCall::Start(
      WaitGroup::Take(call_leases_), server.raw, call, rpc::ToByteBuffer(std::move(request)),
      CallRetries(options_.patience.retries, deadline, retry_stream_ + id),
      [this, id, take = std::move(take)](const Status& status, const grpc::ByteBuffer& bytes) {
        take(status, rpc::ReceivedMessage(bytes).fragments());
        EndCall(id);
      });
  MutexLock lock(mu_);
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;  // the call has already ended
  it->second = {rpc::RowOf(call).carries_values ? server.index : -1, made};
  if (closing_) made->Cancel();
}

void GrpcPsChannel::EndCall(uint64_t id) {
  MutexLock lock(mu_);
  calls_.erase(id);
  if (calls_.empty()) idle_.NotifyAll();
}

void GrpcPsChannel::Abandon(int server) {
  std::vector<std::shared_ptr<RawCall>> calls;
  {
    MutexLock lock(mu_);
    for (auto& [id, open] : calls_) {
      if (open.server == server && open.call != nullptr) calls.push_back(open.call);
    }
  }
  for (const auto& call : calls) call->Cancel();
}

void GrpcPsChannel::Close() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    std::vector<std::shared_ptr<RawCall>> running;
    for (auto& [id, open] : calls_) {
      if (open.call != nullptr) running.push_back(open.call);
    }
    for (auto& call : running) call->Cancel();
    for (auto& [id, alarm] : pauses_) alarm->Cancel();
  }
  for (auto& server : servers_) {
    if (server->shm != nullptr) server->shm->Stop();
  }
  {
    MutexLock lock(mu_);
    // Limits the number of waits instead of the time, because time also passes while the process is
    // stopped (SIGSTOP).
    for (int looks = 0; looks < kClosingLooks && !calls_.empty(); ++looks) {
      idle_.WaitUntil(mu_, SteadyNow() + kClosingLook);
    }
    if (!calls_.empty()) EndWithout(static_cast<int>(calls_.size()), "cancelled but did not end");
  }
  bool gone = false;
  for (int looks = 0; looks < kClosingLooks && !gone; ++looks) {
    gone = call_leases_->WaitForNone(SteadyNow() + kClosingLook);
  }
  if (!gone) EndWithout(1, "ended but still use memory");
  for (auto& server : servers_) server->raw.channel.reset();
  MutexLock lock(mu_);
  added_.clear();
}

}  // namespace tandem::ps
