#include "pserver/client/carrier/grpc_ps_channel.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/exposure.h"
#include "common/rpc/identity.h"
#include "common/rpc/tls_probe.h"
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

// Interval at which a wait checks other conditions.
constexpr Duration kLook = std::chrono::milliseconds(200);

constexpr Duration kClosingLook = std::chrono::seconds(1);
constexpr int kClosingLooks = 60;

// The memory of a call in progress must not be freed before the call, so the process exits.
[[noreturn]] void EndWithout(int calls, const char* what) {
  std::fprintf(
      stderr,
      "error: %d or more calls to pservers were %s; the process exits without waiting for them\n",
      calls, what);
  std::_Exit(kExitFailure);
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
                      rpc::MakeCredentials(options.tls, carrier->ServerUri()));
  for (const std::string& text : endpoints) {
    const auto index = static_cast<int>(carrier->servers_.size());
    TD_ASSIGN_OR_RETURN(auto server, carrier->MakeServer(index, text));
    carrier->servers_.push_back(std::move(server));
  }
  if (options.wait_for_servers) TD_RETURN_IF_ERROR(carrier->WaitForServers());
  return std::unique_ptr<PsChannel>(std::move(carrier));
}

StatusOr<std::unique_ptr<GrpcPsChannel::Server>> GrpcPsChannel::MakeServer(
    int index, const std::string& address) const {
  auto server = std::make_unique<Server>();
  server->index = index;
  TD_ASSIGN_OR_RETURN(server->endpoint, rpc::ParseEndpoint(address));
  server->name = PserverName(index, address);
  TD_RETURN_IF_ERROR(Annotate(
      rpc::CheckSendsInTheClear(server->endpoint, options_.tls, options_.insecure_allow_network),
      server->name));
  server->raw.channel = rpc::MakeChannel(server->endpoint, credentials_);
  if (!options_.secret.empty()) {
    server->raw.session =
        std::make_shared<ClientSession>(options_.secret, options_.job, ToString(server->endpoint));
  }
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
  return options_.tls.enabled() ? rpc::ToUri({options_.job, rpc::PeerRole::kPserver}) : "";
}

Status GrpcPsChannel::WaitForServers() {
  const Time start = SteadyNow();
  for (const auto& server : servers_) TD_RETURN_IF_ERROR(WaitForServer(*server, start));
  return OkStatus();
}

Status GrpcPsChannel::WaitForServer(const Server& server, Time start) {
  const Time deadline = start + options_.start_timeout;
  Time next_message = SteadyNow() + std::chrono::milliseconds(500);
  while (
      !ConnectedBy(*server.raw.channel, std::min({deadline, next_message, SteadyNow() + kLook}))) {
    const Time now = SteadyNow();
    if (options_.stop && options_.stop())
      return Cancelled("the wait for %s was stopped", server.name);
    if (now >= deadline) {
      return Unavailable(
          "%s did not reply within %.0f s [TD4001]; hint: check that it runs and that its address "
          "is right",
          server.name, Seconds(options_.start_timeout));
    }
    if (now < next_message) continue;
    // Reports an error at once if waiting cannot resolve it.
    const Status probe = rpc::ProbeConnection(server.endpoint, options_.tls, ServerUri());
    if (!probe.ok() && probe.code() != StatusCode::kUnavailable)
      return Annotate(probe, server.name);
    next_message = SteadyNow() + std::chrono::seconds(1);
    if (options_.on_wait) {
      options_.on_wait(absl::StrFormat("waiting for %s (%.0f s of %.0f s)", server.name,
                                       Seconds(SteadyNow() - start),
                                       Seconds(options_.start_timeout)));
    }
  }
  return OkStatus();
}

std::unique_ptr<PsEvent> GrpcPsChannel::MakeEvent() { return std::make_unique<ThreadEvent>(); }

namespace {

bool CarriesValues(std::string_view method) { return method == "Push" || method == "Pull"; }

PsCall::Server AtServer(std::string_view method, codec::Fragments answer) {
  if (!CarriesValues(method)) return {};
  const codec::AnswerHead head =
      method == "Push" ? codec::HeadOfPushReply(answer) : codec::HeadOfPullReply(answer);
  const codec::CodedTimes& t = head.times;
  return {.version = head.version,
          .values = head.pulled,
          .received_us = static_cast<int64_t>(t.received),
          .answered_us = static_cast<int64_t>(t.answered),
          .update_begin_us = static_cast<int64_t>(t.update_begin),
          .update_end_us = static_cast<int64_t>(t.update_end)};
}

}  // namespace

PsChannel::Take GrpcPsChannel::Observed(const Server& server, const char* method, size_t bytes,
                                        Take take) const {
  PsCall call{
      .server = server.index, .method = method, .begin = SteadyNow(), .end = {}, .sent = bytes};
  return
      [this, call, take = std::move(take)](const Status& status, codec::Fragments answer) mutable {
        call.end = SteadyNow();
        call.received = BytesOf(answer);
        call.ok = status.ok();
        if (call.ok) call.at_server = AtServer(call.method, answer);
        options_.on_call(call);
        take(status, answer);
      };
}

void GrpcPsChannel::Call(int server, const char* method, codec::EncodedMessage request,
                         Time deadline, Take take) {
  Server& to = ServerAt(server);
  if (options_.on_call) take = Observed(to, method, request.bytes(), std::move(take));
  const std::string_view name = method;
  // Checks the name first: calls with other names open shm RPC connections and may run
  // concurrently.
  if (CarriesValues(name) && to.lane != nullptr) {
    const auto lane_method = name == "Push" ? LANE_METHOD_PUSH : LANE_METHOD_PULL;
    return CallByLane(to, lane_method, method, std::move(request), deadline, std::move(take));
  }
  CallByGrpc(to, method, std::move(request), deadline, std::move(take));
}

Buffer GrpcPsChannel::Allocate(int server, size_t bytes) {
  Server& to = ServerAt(server);
  return to.lane == nullptr ? nullptr : to.lane->Allocate(bytes);
}

void GrpcPsChannel::CallByGrpc(Server& server, const char* method, codec::EncodedMessage request,
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
  auto call = RawCall::Start(
      WaitGroup::Take(call_leases_), server.raw, method, rpc::ToByteBuffer(std::move(request)),
      CallRetries(options_.retries, deadline, retry_stream_ + id),
      [this, id, take = std::move(take)](const Status& status, const grpc::ByteBuffer& bytes) {
        take(status, rpc::ReceivedMessage(bytes).fragments());
        EndCall(id);
      });
  MutexLock lock(mu_);
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;  // already done
  it->second = {CarriesValues(method) ? server.index : -1, call};
  if (closing_) call->Cancel();
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
    if (server->lane != nullptr) server->lane->Stop();
  }
  {
    MutexLock lock(mu_);
    // Counts polls instead of time: a process that was stopped meanwhile (SIGSTOP) has not waited.
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
