#include "pserver/client/carrier/shm_rpc_connection.h"

#include <utility>

#include "common/base/check.h"
#include "common/threads/runner.h"
#include "common/threads/time_slice.h"

namespace tandem::ps {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr Duration kPause = std::chrono::milliseconds(500);
// Interval at which WaitForFirst checks whether it was interrupted.
constexpr Duration kInterruptInterval = std::chrono::milliseconds(100);
// Maximum number of tickets that are tried per attempt. A ticket is useless if its server is on
// another host or was killed.
constexpr int kTriesMax = 3;

// Returns whether the error is permanent, so that a retry cannot succeed.
bool IsFinal(const Status& status) {
  return status.code() == StatusCode::kUnimplemented ||
         status.code() == StatusCode::kPermissionDenied ||
         status.code() == StatusCode::kUnauthenticated;
}

bool WasSilent(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

ShmRpcConnection::ShmRpcConnection(std::string name, Invite invite)
    : name_(std::move(name)), invite_(std::move(invite)) {
  const ShortTimeSlice short_slice;
  thread_ = std::thread([this] { Loop(); });
}

void ShmRpcConnection::Stop() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    if (client_ != nullptr) client_->Stop();
    cv_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  // Takes a client that Loop did not serve. The destructor of the client ends its calls.
  std::shared_ptr<shm_rpc::ShmRpcClient> never_served;
  MutexLock lock(mu_);
  never_served.swap(client_);
}

Status ShmRpcConnection::WaitForFirst(Time until, const std::function<bool()>& interrupted) {
  // The wait for the first attempt needs no deadline, because each attempt of Open has deadlines.
  while (true) {
    {
      MutexLock lock(mu_);
      const Time now = SteadyNow();
      if (tried_ && (!WasSilent(opened_) || now >= until)) return opened_;
      cv_.WaitUntil(mu_, now + kInterruptInterval);
    }
    if (interrupted && interrupted()) return Cancelled("the wait for %s was interrupted", name_);
  }
}

std::shared_ptr<shm_rpc::ShmRpcClient> ShmRpcConnection::client() {
  MutexLock lock(mu_);
  return client_;
}

Buffer ShmRpcConnection::Allocate(size_t bytes) {
  const auto to = client();
  return to == nullptr ? nullptr : to->Allocate(bytes);
}

bool ShmRpcConnection::Call(uint32_t method, const codec::EncodedMessage& request, Time deadline,
                            shm_rpc::ShmRpcClient::Reply reply) {
  const auto to = client();
  return to != nullptr && to->Call(method, request, deadline, std::move(reply));
}

bool ShmRpcConnection::Show(std::shared_ptr<shm_rpc::ShmRpcClient> client) {
  MutexLock lock(mu_);
  client_ = std::move(client);
  return !stopped_;
}

bool ShmRpcConnection::Sleep(Duration duration) {
  const Time until = SteadyNow() + duration;
  MutexLock lock(mu_);
  while (!stopped_ && SteadyNow() < until) cv_.WaitUntil(mu_, until);
  return !stopped_;
}

StatusOr<std::shared_ptr<shm_rpc::ShmRpcClient>> ShmRpcConnection::Open() {
  Status status;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (tries > 0 && !Sleep(std::chrono::milliseconds(20)))
      return Cancelled("the shared-memory connection was stopped");
    TD_ASSIGN_OR_RETURN(const shm_rpc::ShmRpcTicket invitation, invite_());
    auto client = shm_rpc::ShmRpcClient::Connect(invitation, SteadyNow() + kConnectTimeout);
    if (client.ok()) return std::shared_ptr<shm_rpc::ShmRpcClient>(*std::move(client));
    status = client.status();
    if (IsFinal(status)) return status;
  }
  return Unimplemented("%s", std::string(status.message()));
}

void ShmRpcConnection::Loop() {
  SetThreadName("shm_rpc");
  do {
    const auto client = Open();
    const bool go_on = Show(client.ok() ? *client : nullptr);
    {
      MutexLock lock(mu_);
      tried_ = true;
      opened_ = client.status();
      cv_.NotifyAll();
    }
    if (!go_on) return;
    if (!client.ok()) {
      VLOG(1) << name_ << ": cannot use shared memory: " << client.status().message();
      if (IsFinal(client.status())) return;
      continue;
    }
    const Status lost = (*client)->Run();
    if (!Show(nullptr)) return;
    LOG(INFO) << name_ << ": the shared-memory connection is lost (" << lost.message()
              << "); calls use gRPC until it is restored";
  } while (Sleep(kPause));
}

}  // namespace tandem::ps
