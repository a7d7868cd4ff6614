#include "common/shm_rpc/shm_rpc_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/os/fd.h"
#include "common/shm/unix_socket.h"
#include "common/shm_rpc/message.h"
#include "common/threads/runner.h"
#include "common/threads/time_slice.h"

namespace tandem::shm_rpc {
namespace {

constexpr Duration kTicketLife = std::chrono::seconds(10);
constexpr size_t kTicketsMax = 1024, kGuestsMax = 64, kConnectionsMax = 1024;
// Interval between two checks of the sockets while requests arrive without a pause.
constexpr Duration kLookEvery = std::chrono::milliseconds(1);
// Maximum number of replies before a sleeping client is woken. A wake-up takes as long as a copy of
// 0.1 to 0.3 MB.
constexpr uint64_t kAnswersOfBell = 4;

// Returns `bytes` random bytes that other processes cannot guess.
std::string Unguessable(size_t bytes) {
  std::random_device random;
  std::string text;
  while (text.size() < bytes) text.push_back(static_cast<char>(random()));
  return text;
}

}  // namespace

StatusOr<ServerMemory> ServerMemory::Make(size_t bytes) {
  TD_ASSIGN_OR_RETURN(
      auto memory, SealedMemory::Create("tandem-lane-answers", bytes, SealedMemory::Others::kRead));
  auto arena = std::make_shared<Arena>(memory->bytes(), memory);
  return ServerMemory{std::move(memory), std::move(arena)};
}

// One connection of a client. The loop reads the client's requests; any thread may send replies.
class ShmRpcServer::Connection {
 public:
  Connection(Fd socket, std::shared_ptr<SealedMemory> memory, std::shared_ptr<Arena> arena)
      : socket_(std::move(socket)),
        memory_(std::move(memory)),
        arena_(std::move(arena)),
        calls_(control().calls),
        answers_(control().answers) {}

  int socket() const { return socket_.get(); }
  RingReceiver& calls() { return calls_; }
  std::span<const std::byte> arena() const { return memory_->bytes().subspan(kControlBytes); }

  // Returns the next request. DATA_LOSS: the client violates the protocol.
  StatusOr<std::optional<RingEntry>> NextCall() {
    TD_ASSIGN_OR_RETURN(const auto entry, calls_.Read());
    if (!entry) return entry;
    calls_.Done();
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(Forget());
    if (calls_.read() - forgotten_ > ShmRpcRing::kEntries) {
      return DataLoss("the client has more than %d pending calls", ShmRpcRing::kEntries);
    }
    waiting_ = calls_.Waiting();
    if (untold_ > waiting_) Ring();
    return entry;
  }

  void Answer(uint64_t id, const Status& status, codec::EncodedMessage message) {
    if (!status.ok()) message = {{{std::string(status.message()), nullptr, 0, nullptr}}};
    StatusOr<PlacedMessage> placed = PutMessage(message, *arena_);
    MutexLock lock(mu_);
    // Forget() cannot fail, because NextCall() checked the client's count of finished replies.
    if (closed_ || !Forget().ok()) return;
    // The reply is UNAVAILABLE without a text, because the arena has no memory for a text.
    if (!placed.ok()) placed = PlacedMessage();
    const StatusCode code = placed->head == nullptr ? StatusCode::kUnavailable : status.code();
    placed->entry.id = id;
    placed->entry.what = static_cast<uint32_t>(code);
    owes_bell_ |= answers_.Write(placed->entry);
    kept_.push_back(*std::move(placed));
    if (++untold_ >= std::min(waiting_, kAnswersOfBell)) Ring();
  }

  void Close() {
    MutexLock lock(mu_);
    closed_ = true;
    kept_.clear();
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  RingHeader& control() const { return *reinterpret_cast<RingHeader*>(memory_->bytes().data()); }

  void Ring() TD_REQUIRES(mu_) {
    untold_ = 0;
    if (std::exchange(owes_bell_, false)) (void)RingBell(socket_.get());
  }
  // Releases the memory of replies that the client has finished.
  Status Forget() TD_REQUIRES(mu_) {
    TD_ASSIGN_OR_RETURN(const uint64_t taken, answers_.Taken());
    for (; forgotten_ < taken; ++forgotten_) kept_.pop_front();
    return OkStatus();
  }

  const Fd socket_;
  const std::shared_ptr<SealedMemory> memory_;
  const std::shared_ptr<Arena> arena_;  // memory of the server, for replies
  RingReceiver calls_;
  Mutex mu_;
  RingSender answers_ TD_GUARDED_BY(mu_);
  uint64_t forgotten_ TD_GUARDED_BY(mu_) = 0;
  // Replies that the client has not finished, the oldest first.
  std::deque<PlacedMessage> kept_ TD_GUARDED_BY(mu_);
  bool closed_ TD_GUARDED_BY(mu_) = false;
  // Number of requests that waited in the ring when NextCall() read the last request. The server
  // wakes a sleeping client after min(waiting_, kAnswersOfBell) replies. A wake-up thus delivers
  // several replies, and the client can send new requests while others are running.
  uint64_t waiting_ TD_GUARDED_BY(mu_) = 0;
  uint64_t untold_ TD_GUARDED_BY(mu_) = 0;  // number of replies since the client was last woken
  bool owes_bell_ TD_GUARDED_BY(mu_) = false;
};

class ShmRpcServer::Loop {
 public:
  Loop(ServerMemory memory, CallHandler handler, size_t call_bytes, std::string name, Fd listener,
       Fd wake)
      : memory_(std::move(memory)),
        handler_(std::move(handler)),
        call_bytes_(call_bytes),
        name_(std::move(name)),
        listener_(std::move(listener)),
        wake_(std::move(wake)) {
    const ShortTimeSlice short_slice;
    thread_ = std::thread([this] { Run(); });
  }
  ~Loop() {
    stopped_ = true;
    SetEvent(wake_.get());
    thread_.join();
    for (const auto& connection : connections_) connection->Close();
  }

  StatusOr<ShmRpcTicket> Invite();
  int connections() const { return connection_count_; }

 private:
  struct Guest {  // a client that has connected but has not sent a ticket yet
    Fd socket;
    Time deadline;
  };

  void Run();
  // Serves up to one request of each connection. Returns true if there was a request.
  bool ServeConnections();
  Status ServeOne(const std::shared_ptr<Connection>& connection);
  // Checks the sockets for events. If `wait`, blocks until there is an event.
  void Look(bool wait);
  int WaitMs(bool wait, Time now) const;
  void TakeGuest();
  Status Admit(Guest& guest);
  void Drop(size_t connection, const Status& why);

  const ServerMemory memory_;
  const CallHandler handler_;
  const size_t call_bytes_;
  const std::string name_;
  const Fd listener_, wake_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> connection_count_ = 0;
  Mutex mu_;
  std::map<std::string, Time> tickets_ TD_GUARDED_BY(mu_);
  // Only the loop's thread uses the fields from here on.
  std::vector<Guest> guests_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<pollfd> fds_;
  std::thread thread_;
};

StatusOr<ShmRpcTicket> ShmRpcServer::Loop::Invite() {
  const Time now = SteadyNow();
  MutexLock lock(mu_);
  std::erase_if(tickets_, [now](const auto& ticket) { return ticket.second < now; });
  if (tickets_.size() >= kTicketsMax)
    return ResourceExhausted("too many clients are waiting for a shared-memory connection");
  std::string ticket = Unguessable(kTicketBytes);
  tickets_[ticket] = now + kTicketLife;
  return ShmRpcTicket{name_, std::move(ticket)};
}

void ShmRpcServer::Loop::Run() {
  SetThreadName("lanes");
  SpinBackoff pause(2);
  Time look_at = SteadyNow() + kLookEvery;
  while (!stopped_) {
    const bool any = ServeConnections();
    if (any) pause.Reset();
    if (any && SteadyNow() < look_at) continue;
    if (!any && !connections_.empty() && pause.Wait()) continue;
    Look(!any);
    pause.Reset();
    look_at = SteadyNow() + kLookEvery;
  }
}

bool ShmRpcServer::Loop::ServeConnections() {
  bool any = false;
  for (size_t i = connections_.size(); i-- > 0;) {
    const uint64_t before = connections_[i]->calls().read();
    const Status served = ServeOne(connections_[i]);
    any |= connections_[i]->calls().read() != before;
    if (!served.ok()) Drop(i, served);
  }
  return any;
}

// Serves up to one request of the connection. The loop serves the connections in turn, so no
// connection delays the others.
Status ShmRpcServer::Loop::ServeOne(const std::shared_ptr<Connection>& connection) {
  TD_ASSIGN_OR_RETURN(const auto entry, connection->NextCall());
  if (!entry) return OkStatus();
  TD_ASSIGN_OR_RETURN(const auto pieces, GetMessage(*entry, connection->arena()));
  handler_(entry->what, pieces,
           [connection, id = entry->id](const Status& status, codec::EncodedMessage message) {
             connection->Answer(id, status, std::move(message));
           });
  return OkStatus();
}

void ShmRpcServer::Loop::Drop(size_t connection, const Status& why) {
  LOG_IF(WARNING, why.code() == StatusCode::kDataLoss)
      << "closed a shared-memory connection: " << why.message();
  connections_[connection]->Close();
  connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(connection));
  connection_count_ = static_cast<int>(connections_.size());
}

int ShmRpcServer::Loop::WaitMs(bool wait, Time now) const {
  if (!wait) return 0;
  Time until = Time::max();
  for (const Guest& guest : guests_) until = std::min(until, guest.deadline);
  if (until == Time::max()) return -1;
  return static_cast<int>(std::clamp<int64_t>(Millis(until - now) + 1, 0, 60'000));
}

void ShmRpcServer::Loop::Look(bool wait) {
  fds_.clear();
  for (const auto& connection : connections_) {
    wait = wait && connection->calls().FallAsleep();
    fds_.push_back({connection->socket(), POLLIN, 0});
  }
  for (const Guest& guest : guests_) fds_.push_back({guest.socket.get(), POLLIN, 0});
  fds_.push_back({listener_.get(), POLLIN, 0});
  fds_.push_back({wake_.get(), POLLIN, 0});
  const int ready = ::poll(fds_.data(), fds_.size(), WaitMs(wait, SteadyNow()));
  for (const auto& connection : connections_) connection->calls().WakeUp();
  if (ready < 0 && errno != EINTR) LOG(ERROR) << "poll: " << ErrnoText(errno);
  const size_t connections = connections_.size(), guests = guests_.size();
  const Time now = SteadyNow();
  const bool knock = ready > 0 && fds_[connections + guests].revents != 0;
  for (size_t i = guests; i-- > 0;) {
    const bool spoke = ready > 0 && fds_[connections + i].revents != 0;
    if (!spoke && now < guests_[i].deadline) continue;
    const Status admitted =
        spoke ? Admit(guests_[i]) : DeadlineExceeded("the client sent no handshake in time");
    LOG_IF(WARNING, !admitted.ok())
        << "rejected a shared-memory connection: " << admitted.message();
    guests_.erase(guests_.begin() + static_cast<ptrdiff_t>(i));
  }
  for (size_t i = connections; i-- > 0;) {
    if (ready <= 0 || fds_[i].revents == 0 || DrainBells(fds_[i].fd)) continue;
    Drop(i, Unavailable("the client closed the connection"));
  }
  if (knock) TakeGuest();
}

void ShmRpcServer::Loop::TakeGuest() {
  Fd guest(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!guest.valid()) return;
  if (!IsSameUser(guest.get()) || guests_.size() >= kGuestsMax) return;
  guests_.push_back({std::move(guest), SteadyNow() + kTicketLife});
}

Status ShmRpcServer::Loop::Admit(Guest& guest) {
  Hello hello;
  const ssize_t got = ::recv(guest.socket.get(), &hello, sizeof(hello), MSG_DONTWAIT);
  if (got != sizeof(hello) || hello.magic != Hello::kMagic || hello.version != Hello::kVersion) {
    return DataLoss("the client does not speak version %d of the shared-memory RPC",
                    Hello::kVersion);
  }
  {
    MutexLock lock(mu_);
    const auto ticket = tickets_.find(std::string(hello.ticket, sizeof(hello.ticket)));
    if (ticket == tickets_.end() || ticket->second < SteadyNow()) {
      return PermissionDenied("the client's ticket is unknown or expired");
    }
    tickets_.erase(ticket);
  }
  if (connections_.size() >= kConnectionsMax)
    return ResourceExhausted(
        "the server already has %d shared-memory connections, which is the maximum",
        connections_.size());
  Welcome welcome{.connection_bytes = call_bytes_ + kControlBytes,
                  .server_bytes = memory_.memory->bytes().size()};
  TD_ASSIGN_OR_RETURN(auto connection,
                      SealedMemory::Create("tandem-lane-calls", welcome.connection_bytes,
                                           SealedMemory::Others::kWrite));
  const int fds[] = {connection->fd(), memory_.memory->fd()};
  TD_RETURN_IF_ERROR(SendFds(guest.socket.get(), std::as_bytes(std::span(&welcome, 1)), fds));
  connections_.push_back(
      std::make_shared<Connection>(std::move(guest.socket), std::move(connection), memory_.arena));
  connection_count_ = static_cast<int>(connections_.size());
  return OkStatus();
}

StatusOr<std::unique_ptr<ShmRpcServer>> ShmRpcServer::Start(ServerMemory memory,
                                                            CallHandler handler,
                                                            size_t call_bytes) {
  const std::string name = "tandem-lane-" + absl::BytesToHexString(Unguessable(16));
  TD_ASSIGN_OR_RETURN(Fd listener, ListenAbstract(name, 64));
  TD_ASSIGN_OR_RETURN(Fd wake, MakeEvent());
  return std::unique_ptr<ShmRpcServer>(
      new ShmRpcServer(std::make_unique<Loop>(std::move(memory), std::move(handler), call_bytes,
                                              name, std::move(listener), std::move(wake))));
}

ShmRpcServer::ShmRpcServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
ShmRpcServer::~ShmRpcServer() = default;
StatusOr<ShmRpcTicket> ShmRpcServer::Invite() { return loop_->Invite(); }
int ShmRpcServer::connections() const { return loop_->connections(); }

}  // namespace tandem::shm_rpc
