#include "collective/host/inproc.h"

#include <algorithm>
#include <cstring>

#include "collective/status_copy.h"
#include "common/base/check.h"
#include "common/base/mutex.h"

namespace tandem::collective {
namespace {

// A ring buffer with the bytes from one rank to another.
struct Pipe {
  std::vector<std::byte> ring;
  size_t head = 0, used = 0;

  size_t Write(std::span<const std::byte> from) {
    const size_t n = std::min(from.size(), ring.size() - used);
    size_t at = (head + used) % ring.size();
    const size_t first = std::min(n, ring.size() - at);
    if (first > 0) std::memcpy(ring.data() + at, from.data(), first);
    if (n > first) std::memcpy(ring.data(), from.data() + first, n - first);
    used += n;
    return n;
  }
  size_t Read(std::span<std::byte> to) {
    const size_t n = std::min(to.size(), used);
    const size_t first = std::min(n, ring.size() - head);
    if (first > 0) std::memcpy(to.data(), ring.data() + head, first);
    if (n > first) std::memcpy(to.data() + first, ring.data(), n - first);
    head = (head + n) % ring.size();
    used -= n;
    return n;
  }
};

struct Hub {
  Hub(int size, size_t pipe_bytes)
      : size(size), pipes(size * size), changed(size), failure(size), left(size, false) {
    for (Pipe& pipe : pipes) pipe.ring.resize(pipe_bytes);
  }
  Pipe& At(int from, int to) TD_REQUIRES(mu) { return pipes[from * size + to]; }

  const int size;
  Mutex mu;
  std::vector<Pipe> pipes TD_GUARDED_BY(mu);
  // A condition variable for each rank, which is notified of each change for which the rank may
  // wait.
  std::vector<CondVar> changed;
  std::vector<Status> failure TD_GUARDED_BY(mu);
  std::vector<bool> left TD_GUARDED_BY(mu);
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~InprocTransport() override TD_EXCLUDES(hub_->mu) {
    MutexLock lock(hub_->mu);
    hub_->left[rank_] = true;
    for (CondVar& c : hub_->changed) c.NotifyAll();
  }

  int rank() const override { return rank_; }
  int size() const override { return hub_->size; }
  std::string PeerName(int peer) const override { return absl::StrFormat("rank %d", peer); }

  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override {
    MutexLock lock(hub_->mu);
    TD_RETURN_IF_ERROR(Check(peer));
    Pipe& pipe = hub_->At(rank_, peer);
    size_t moved = pipe.Write(head);
    if (moved == head.size()) moved += pipe.Write(body);
    if (moved > 0) hub_->changed[peer].NotifyAll();
    return moved;
  }

  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head,
                           std::span<std::byte> body) override {
    MutexLock lock(hub_->mu);
    TD_RETURN_IF_ERROR(OwnCopy(hub_->failure[rank_]));
    Pipe& pipe = hub_->At(peer, rank_);
    if (pipe.used == 0)
      // Bytes that the peer sent before it left can still be received.
      TD_RETURN_IF_ERROR(Check(peer));
    size_t moved = pipe.Read(head);
    if (moved == head.size()) moved += pipe.Read(body);
    if (moved > 0) hub_->changed[peer].NotifyAll();
    return moved;
  }

  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override {
    MutexLock lock(hub_->mu);
    while (true) {
      TD_RETURN_IF_ERROR(OwnCopy(hub_->failure[rank_]));
      if (send_to >= 0) {
        const Pipe& out = hub_->At(rank_, send_to);
        if (hub_->left[send_to] || out.used < out.ring.size()) return OkStatus();
      }
      for (const int from : recv_from) {
        if (hub_->left[from] || hub_->At(from, rank_).used > 0) return OkStatus();
      }
      if (!hub_->changed[rank_].WaitUntil(hub_->mu, deadline)) break;
    }
    return DeadlineExceeded("the communication with %s timed out",
                            PeerName(recv_from.empty() ? send_to : recv_from[0]));
  }

  void Abort(const Status& status) override {
    MutexLock lock(hub_->mu);
    if (!hub_->failure[rank_].ok()) return;
    hub_->failure[rank_] = OwnCopy(status);
    for (int r = 0; r < hub_->size; ++r) {
      hub_->changed[r].NotifyAll();
      if (r == rank_ || !hub_->failure[r].ok()) continue;
      hub_->failure[r] = Status(status.code(), absl::StrFormat("%s aborted: %s", PeerName(rank_),
                                                               std::string(status.message())));
    }
  }
  Status Health() const override {
    MutexLock lock(hub_->mu);
    return OwnCopy(hub_->failure[rank_]);
  }

 private:
  Status Check(int peer) TD_REQUIRES(hub_->mu) {
    TD_RETURN_IF_ERROR(OwnCopy(hub_->failure[rank_]));
    if (!hub_->left[peer]) return OkStatus();
    return Unavailable("%s has closed its communicator [TD3005]; hint: read the log of this peer",
                       PeerName(peer));
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeInprocTransports(int size, size_t pipe_bytes) {
  CHECK_GE(size, 1);
  CHECK_GE(pipe_bytes, size_t{1});
  auto hub = std::make_shared<Hub>(size, pipe_bytes);
  std::vector<std::unique_ptr<Transport>> all;
  for (int r = 0; r < size; ++r) all.push_back(std::make_unique<InprocTransport>(hub, r));
  return all;
}

std::vector<std::unique_ptr<Communicator>> MakeInprocCommunicators(int size,
                                                                   HostCommunicatorConfig config) {
  config.name = "inproc";
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& transport : MakeInprocTransports(size)) {
    all.push_back(std::make_unique<HostCommunicator>(std::move(transport), config));
  }
  return all;
}

}  // namespace tandem::collective
