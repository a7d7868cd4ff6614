#include "collective/shared/shared_memory.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <vector>

#include "collective/rendezvous/handshake.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/shm/unix_socket.h"

namespace tandem::collective {
namespace {

// ---- Messages on the data connections -----------------------------------------------------------

// The message of rank 0 to all ranks: the name of the Unix socket that transfers the descriptor.
struct Offer {
  static constexpr uint32_t kMagic = 0x534d4454;  // the characters "TDMS"
  uint32_t magic = kMagic;
  uint32_t version = 1;
  uint64_t part_bytes = 0;  // size of each rank's part in bytes; 0: rank 0 has no memory to share
  char socket[40] = {};     // name of the socket; zero-terminated text
};
// The message in which each rank reports to rank 0 whether the rank can share the memory. Rank 0
// then sends the common verdict to all ranks in a message of the same form.
struct Verdict {
  uint32_t magic = Offer::kMagic;
  uint32_t yes = 0;
  char text[240] = {};  // why the memory cannot be shared; zero-terminated text
};
static_assert(sizeof(Offer) == 56 && sizeof(Verdict) == 248);
static_assert(std::is_trivially_copyable_v<Offer> && std::is_trivially_copyable_v<Verdict>);

Status Failure(const SealedSocket::Moved& moved) {
  switch (moved.end) {
    case SealedSocket::Moved::End::kOpen:
      return OkStatus();
    case SealedSocket::Moved::End::kClosed:
      return Unavailable("the peer closed the connection");
    case SealedSocket::Moved::End::kForged:
      return DataLoss("%s", kForgedText);
    case SealedSocket::Moved::End::kBroken:
      break;
  }
  return Unavailable("%s", ErrnoText(moved.error));
}

template <typename Message>
Status Put(SealedSocket& line, const Message& message, Time deadline) {
  auto left = std::as_bytes(std::span(&message, 1));
  while (!left.empty()) {
    const SealedSocket::Moved moved = line.TrySend(left, {});
    TD_RETURN_IF_ERROR(Failure(moved));
    left = left.subspan(moved.bytes);
    if (moved.bytes == 0) TD_RETURN_IF_ERROR(WaitReady(line.fd(), POLLOUT, deadline));
  }
  return OkStatus();
}
template <typename Message>
Status Get(SealedSocket& line, Message& message, Time deadline) {
  auto left = std::as_writable_bytes(std::span(&message, 1));
  while (!left.empty()) {
    const SealedSocket::Moved moved = line.TryRecv(left, {});
    TD_RETURN_IF_ERROR(Failure(moved));
    left = left.subspan(moved.bytes);
    if (moved.bytes == 0) TD_RETURN_IF_ERROR(WaitReady(line.fd(), POLLIN, deadline));
  }
  if (message.magic == Offer::kMagic) return OkStatus();
  return DataLoss("the peer sent an invalid shared-memory handshake");
}

Verdict VerdictOf(const Status& status) {
  Verdict verdict;
  verdict.yes = status.ok() ? 1 : 0;
  PutText(std::string(status.message()), verdict.text);
  return verdict;
}

// ---- Transfer of the memory ---------------------------------------------------------------------

StatusOr<Fd> ReceiveMemory(const std::string& name, Time deadline) {
  TD_ASSIGN_OR_RETURN(const Fd host, ConnectAbstract(name));
  if (!IsSameUser(host.get())) return PermissionDenied("the shared memory belongs to another user");
  std::byte nothing;
  TD_ASSIGN_OR_RETURN(std::vector<Fd> fds, ReceiveFds(host.get(), {&nothing, 1}, 1, deadline));
  return std::move(fds[0]);
}

// Accepts the next connection, and sends the descriptor of `memory` if the peer runs as the same
// user.
void ServeOne(int listener, int memory) {
  const Fd guest(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!guest.valid() || !IsSameUser(guest.get())) return;
  const std::byte nothing{};
  const Status given = SendFds(guest.get(), {&nothing, 1}, {&memory, 1});
  LOG_IF(WARNING, !given.ok()) << given.message();
}

// ---- The agreement ------------------------------------------------------------------------------

class Agreement {
 public:
  Agreement(Mesh& mesh, size_t part_bytes, bool required, Time deadline)
      : mesh_(mesh), part_bytes_(part_bytes), required_(required), deadline_(deadline) {}

  // Lead runs on rank 0, Follow runs on all other ranks. Null: the ranks cannot share memory.
  StatusOr<std::shared_ptr<SharedMemory>> Lead();
  StatusOr<std::shared_ptr<SharedMemory>> Follow();

 private:
  SealedSocket& Line(int rank) { return mesh_.data[static_cast<size_t>(rank)]; }
  std::string Name(int rank) const {
    return absl::StrFormat("rank %d (%s)", rank, mesh_.hosts[static_cast<size_t>(rank)]);
  }
  Status Lost(int rank, const Status& status) const {
    return Annotate(status, Name(rank) + ", setting up shared memory");
  }
  Status MakeOffer(Offer* offer);
  // Receives the verdicts of all other ranks. If one of them is "no", `own` becomes "no" with the
  // reason of the first such verdict.
  Status Collect(Verdict* own);
  StatusOr<std::shared_ptr<SharedMemory>> Take(const Offer& offer);
  StatusOr<std::shared_ptr<SharedMemory>> End(const Verdict& verdict);

  Mesh& mesh_;
  const size_t part_bytes_;
  const bool required_;
  const Time deadline_;
  std::shared_ptr<SharedMemory> memory_;
  Fd listener_;
};

Status Agreement::MakeOffer(Offer* offer) {
  TD_ASSIGN_OR_RETURN(memory_, SharedMemory::Create(mesh_.size, part_bytes_));
  std::string name = "tandem-";
  for (const uint8_t byte : FreshNonce()) name += absl::StrFormat("%02x", byte);
  TD_ASSIGN_OR_RETURN(listener_, ListenAbstract(name, mesh_.size));
  offer->part_bytes = part_bytes_;
  PutText(name, offer->socket);
  return OkStatus();
}

Status Agreement::Collect(Verdict* own) {
  std::vector<pollfd> waiting;
  for (int r = 1; r < mesh_.size; ++r) waiting.push_back({Line(r).fd(), POLLIN, 0});
  waiting.push_back({listener_.get(), POLLIN, 0});  // -1 if there is no offer; poll ignores -1
  for (int left = mesh_.size - 1; left > 0;) {
    const Duration time = deadline_ - SteadyNow();
    if (time <= Duration::zero())
      return DeadlineExceeded("the shared-memory handshake did not finish in time");
    const int ms = static_cast<int>(std::min<int64_t>(Millis(time) + 1, 60'000));
    if (::poll(waiting.data(), waiting.size(), ms) < 0 && errno != EINTR) {
      return Internal("cannot wait for a shared-memory connection: %s", ErrnoText(errno));
    }
    if (waiting.back().revents != 0) ServeOne(listener_.get(), memory_->fd());
    for (int r = 1; r < mesh_.size; ++r) {
      pollfd& line = waiting[static_cast<size_t>(r) - 1];
      if (line.fd < 0 || line.revents == 0) continue;
      Verdict verdict;
      const Status got = Get(Line(r), verdict, deadline_);
      if (!got.ok()) return Lost(r, got);
      line.fd = -1;
      --left;
      if (verdict.yes != 0 || own->yes == 0) continue;
      own->yes = 0;
      PutText(Name(r) + ": " + GetText(verdict.text), own->text);
    }
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<SharedMemory>> Agreement::Lead() {
  Offer offer;
  const Status made = MakeOffer(&offer);
  Verdict verdict = VerdictOf(made);
  for (int r = 1; r < mesh_.size; ++r) {
    const Status put = Put(Line(r), offer, deadline_);
    if (!put.ok()) return Lost(r, put);
  }
  TD_RETURN_IF_ERROR(Collect(&verdict));
  for (int r = 1; r < mesh_.size; ++r) {
    const Status put = Put(Line(r), verdict, deadline_);
    if (!put.ok()) return Lost(r, put);
  }
  if (verdict.yes == 0) {
    LOG(INFO) << "collectives use TCP instead of shared memory: " << GetText(verdict.text);
  }
  return End(verdict);
}

StatusOr<std::shared_ptr<SharedMemory>> Agreement::Take(const Offer& offer) {
  if (offer.part_bytes == 0) return Unavailable("the peer offered no shared memory");
  if (offer.part_bytes != part_bytes_)
    return FailedPrecondition("the peer offers %d bytes of shared memory, expected %d bytes",
                              offer.part_bytes, part_bytes_);
  TD_ASSIGN_OR_RETURN(Fd fd, ReceiveMemory(GetText(offer.socket), deadline_));
  return SharedMemory::Map(std::move(fd), mesh_.size, part_bytes_);
}

StatusOr<std::shared_ptr<SharedMemory>> Agreement::Follow() {
  Offer offer;
  const Status got = Get(Line(0), offer, deadline_);
  if (!got.ok()) return Lost(0, got);
  const auto taken = Take(offer);
  if (taken.ok()) memory_ = *taken;
  const Status put = Put(Line(0), VerdictOf(taken.status()), deadline_);
  if (!put.ok()) return Lost(0, put);
  Verdict all;
  const Status heard = Get(Line(0), all, deadline_);
  return heard.ok() ? End(all) : Lost(0, heard);
}

StatusOr<std::shared_ptr<SharedMemory>> Agreement::End(const Verdict& verdict) {
  if (verdict.yes != 0) return memory_;
  if (!required_) return std::shared_ptr<SharedMemory>();
  return FailedPrecondition(
      "cannot use shared memory, which collective_transport: Shm requires: %s",
      GetText(verdict.text));
}

}  // namespace

StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(int ranks, size_t part_bytes) {
  TD_REQUIRE(ranks > 0 && part_bytes % static_cast<size_t>(::sysconf(_SC_PAGESIZE)) == 0);
  TD_ASSIGN_OR_RETURN(
      auto all, SealedMemory::Create("tandem-collective", static_cast<size_t>(ranks) * part_bytes,
                                     SealedMemory::Others::kWrite));
  return std::make_shared<SharedMemory>(std::move(all), part_bytes);
}

StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Map(Fd fd, int ranks, size_t part_bytes) {
  TD_ASSIGN_OR_RETURN(auto all,
                      SealedMemory::Map(std::move(fd), static_cast<size_t>(ranks) * part_bytes,
                                        SealedMemory::Others::kWrite));
  return std::make_shared<SharedMemory>(std::move(all), part_bytes);
}

StatusOr<std::shared_ptr<SharedMemory>> ShareMemory(Mesh& mesh, size_t part_bytes, bool required,
                                                    Time deadline) {
  Agreement agreement(mesh, part_bytes, required, deadline);
  return mesh.rank == 0 ? agreement.Lead() : agreement.Follow();
}

}  // namespace tandem::collective
