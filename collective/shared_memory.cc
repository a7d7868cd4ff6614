#include "collective/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "collective/handshake.h"
#include "common/base/check.h"

namespace tandem {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// ---- What travels on the data connections
// --------------------------------------------------------

// Rank 0 to all: the memory can be had at this Unix socket.
struct Offer {
  static constexpr uint32_t kMagic = 0x534d4454;  // "TDMS"
  uint32_t magic = kMagic;
  uint32_t version = 1;
  uint64_t part_bytes = 0;  // 0: there is no offer
  char socket[40] = {};     // text, ends with 0
};
// Each to rank 0, and rank 0 to all at the end.
struct Verdict {
  uint32_t magic = Offer::kMagic;
  uint32_t yes = 0;
  char text[240] = {};  // why not; ends with 0
};

// Waits for `events` on `fd`; DEADLINE_EXCEEDED.
Status Ready(int fd, short events, Time deadline) {
  while (true) {
    const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
    pollfd one = {fd, events, 0};
    const timespec wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    const int ready = ::ppoll(&one, 1, &wait, nullptr);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return Internal("poll: %s", ErrnoText(errno));
    if (ready == 0) return DeadlineExceeded("no answer in time");
  }
}

// The whole of `message`, in or out.
template <typename Message, typename Move>
Status Transfer(int fd, Message& message, short events, Time deadline, Move move) {
  char* const at = reinterpret_cast<char*>(&message);
  size_t moved = 0;
  while (moved < sizeof(message)) {
    const ssize_t n = move(fd, at + moved, sizeof(message) - moved);
    if (n > 0) {
      moved += static_cast<size_t>(n);
      continue;
    }
    if (n == 0) return Unavailable("it closed the connection");
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return Unavailable("%s", ErrnoText(errno));
    }
    TD_RETURN_IF_ERROR(Ready(fd, events, deadline));
  }
  return OkStatus();
}
template <typename Message>
Status Put(int fd, const Message& message, Time deadline) {
  Message copy = message;
  return Transfer(fd, copy, POLLOUT, deadline, [](int to, char* at, size_t bytes) {
    return ::send(to, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}
template <typename Message>
Status Get(int fd, Message& message, Time deadline) {
  TD_RETURN_IF_ERROR(Transfer(fd, message, POLLIN, deadline, [](int from, char* at, size_t bytes) {
    return ::recv(from, at, bytes, MSG_DONTWAIT);
  }));
  if (message.magic == Offer::kMagic) return OkStatus();
  return DataLoss("garbage instead of an agreement on shared memory");
}

Verdict VerdictOf(const Status& status) {
  Verdict verdict;
  verdict.yes = status.ok() ? 1 : 0;
  PutText(std::string(status.message()), verdict.text);
  return verdict;
}

// ---- File descriptors over Unix sockets
// ----------------------------------------------------------

// An abstract name: it needs no folder and is gone with its socket.
sockaddr_un AbstractAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool SameUser(int fd) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

struct FdMessage {
  explicit FdMessage(int fd) {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (fd < 0) return;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(fd));
  }
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
};

StatusOr<Fd> ReceiveFd(const std::string& name, Time deadline) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = AbstractAddress(name, &length);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return Unavailable(
        "it does not see the others' Unix sockets (%s): it is on another host, or in"
        " another network namespace",
        ErrnoText(errno));
  }
  if (!SameUser(fd.get())) return PermissionDenied("the memory belongs to another user");
  TD_RETURN_IF_ERROR(Ready(fd.get(), POLLIN, deadline));
  FdMessage got(-1);
  if (::recvmsg(fd.get(), &got.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) {
    return Unavailable("the memory was not handed over");
  }
  const cmsghdr* const head = CMSG_FIRSTHDR(&got.message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Unavailable("the memory was not handed over");
  }
  int memory = -1;
  std::memcpy(&memory, CMSG_DATA(head), sizeof(memory));
  return Fd(memory);
}

// Hands `memory` to whoever connects and is of the same user.
void ServeOne(int listener, int memory) {
  const Fd guest(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!guest.valid() || !SameUser(guest.get())) return;
  FdMessage give(memory);
  if (::sendmsg(guest.get(), &give.message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return;
  LOG(WARNING) << "shared memory was not handed over: " << ErrnoText(errno);
}

StatusOr<Fd> ListenAt(const std::string& name, int ranks) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = AbstractAddress(name, &length);
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), ranks) != 0) {
    return Unavailable("no Unix socket: %s", ErrnoText(errno));
  }
  return fd;
}

// ---- The agreement
// -------------------------------------------------------------------------------

class Agreement {
 public:
  Agreement(const Mesh& mesh, size_t part_bytes, bool required, Time deadline)
      : mesh_(mesh), part_bytes_(part_bytes), required_(required), deadline_(deadline) {}

  // Rank 0's part and that of the others.
  StatusOr<std::shared_ptr<SharedMemory>> Lead();
  StatusOr<std::shared_ptr<SharedMemory>> Follow();

 private:
  int Line(int rank) const { return mesh_.data[static_cast<size_t>(rank)].get(); }
  std::string Name(int rank) const {
    return absl::StrFormat("rank %d (%s)", rank, mesh_.hosts[static_cast<size_t>(rank)]);
  }
  Status Lost(int rank, const Status& status) const {
    return Annotate(status, Name(rank) + ", agreeing on shared memory");
  }
  Status MakeOffer(Offer* offer);
  // Of all others; `own` becomes "no" with the first that says so.
  Status Collect(Verdict* own);
  StatusOr<std::shared_ptr<SharedMemory>> Take(const Offer& offer);
  StatusOr<std::shared_ptr<SharedMemory>> End(const Verdict& verdict);

  const Mesh& mesh_;
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
  TD_ASSIGN_OR_RETURN(listener_, ListenAt(name, mesh_.size));
  offer->part_bytes = part_bytes_;
  PutText(name, offer->socket);
  return OkStatus();
}

Status Agreement::Collect(Verdict* own) {
  std::vector<pollfd> waiting;
  for (int r = 1; r < mesh_.size; ++r) waiting.push_back({Line(r), POLLIN, 0});
  waiting.push_back({listener_.get(), POLLIN, 0});  // -1 without an offer: ignored
  for (int left = mesh_.size - 1; left > 0;) {
    const Duration time = deadline_ - SteadyNow();
    if (time <= Duration::zero()) return DeadlineExceeded("no agreement on shared memory in time");
    const int ms = static_cast<int>(std::min<int64_t>(Millis(time) + 1, 60'000));
    if (::poll(waiting.data(), waiting.size(), ms) < 0 && errno != EINTR) {
      return Internal("poll: %s", ErrnoText(errno));
    }
    if (waiting.back().revents != 0) ServeOne(listener_.get(), memory_->fd());
    for (int r = 1; r < mesh_.size; ++r) {
      pollfd& line = waiting[static_cast<size_t>(r) - 1];
      if (line.fd < 0 || line.revents == 0) continue;
      Verdict verdict;
      const Status got = Get(line.fd, verdict, deadline_);
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
    LOG(INFO) << "no shared memory: " << GetText(verdict.text) << "; collectives go over TCP";
  }
  return End(verdict);
}

StatusOr<std::shared_ptr<SharedMemory>> Agreement::Take(const Offer& offer) {
  if (offer.part_bytes == 0) return Unavailable("nothing was offered");
  if (offer.part_bytes != part_bytes_) return FailedPrecondition("it expects another size");
  TD_ASSIGN_OR_RETURN(Fd fd, ReceiveFd(GetText(offer.socket), deadline_));
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
  return FailedPrecondition("no shared memory, which was asked for: %s", GetText(verdict.text));
}

StatusOr<std::byte*> MapAll(int fd, size_t bytes) {
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    return Unavailable("cannot map %d bytes of shared memory: %s", bytes, ErrnoText(errno));
  }
  ::madvise(base, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(base);
}

}  // namespace

StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(int ranks, size_t part_bytes) {
  Fd fd(::memfd_create("tandem-collective", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const size_t bytes = static_cast<size_t>(ranks) * part_bytes;
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return Unavailable("no shared memory from this kernel: %s", ErrnoText(errno));
  }
  TD_ASSIGN_OR_RETURN(std::byte* const base, MapAll(fd.get(), bytes));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(fd), base, ranks, part_bytes));
}

StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Map(Fd fd, int ranks, size_t part_bytes) {
  const size_t bytes = static_cast<size_t>(ranks) * part_bytes;
  struct stat about = {};
  if (::fstat(fd.get(), &about) != 0 || static_cast<size_t>(about.st_size) != bytes ||
      ::fcntl(fd.get(), F_GET_SEALS) != kSeals) {
    return PermissionDenied("the memory that was handed over has another size, or could shrink");
  }
  TD_ASSIGN_OR_RETURN(std::byte* const base, MapAll(fd.get(), bytes));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(fd), base, ranks, part_bytes));
}

SharedMemory::~SharedMemory() { ::munmap(base_, static_cast<size_t>(ranks_) * part_bytes_); }

StatusOr<std::shared_ptr<SharedMemory>> ShareMemory(const Mesh& mesh, size_t part_bytes,
                                                    bool required, Time deadline) {
  Agreement agreement(mesh, part_bytes, required, deadline);
  return mesh.rank == 0 ? agreement.Lead() : agreement.Follow();
}

}  // namespace tandem
