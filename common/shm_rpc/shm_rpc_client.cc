#include "common/shm_rpc/shm_rpc_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/require.h"
#include "common/shm/unix_socket.h"

namespace tandem::shm_rpc {
namespace {

// Interval between two checks of the deadlines of calls.
constexpr Duration kTick = std::chrono::milliseconds(100);

std::string Text(codec::Fragments pieces) {
  std::string text;
  for (const auto& piece : pieces) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return text;
}

}  // namespace

StatusOr<std::unique_ptr<ShmRpcClient>> ShmRpcClient::Connect(const ShmRpcTicket& invitation,
                                                              Time deadline) {
  Hello hello;
  if (invitation.socket.empty() || invitation.socket.size() > kSocketBytesMax ||
      invitation.ticket.size() != sizeof(hello.ticket)) {
    return DataLoss("the server's reply is not a shared-memory RPC ticket");
  }
  TD_ASSIGN_OR_RETURN(Fd socket, ConnectAbstract(invitation.socket));
  if (!IsSameUser(socket.get()))
    return PermissionDenied("the server process belongs to another user");
  std::memcpy(hello.ticket, invitation.ticket.data(), sizeof(hello.ticket));
  if (::send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return Unavailable("cannot connect to the server's shared-memory socket: %s", ErrnoText(errno));
  }
  Welcome welcome;
  TD_ASSIGN_OR_RETURN(
      std::vector<Fd> fds,
      ReceiveFds(socket.get(), std::as_writable_bytes(std::span(&welcome, 1)), 2, deadline));
  if (welcome.magic != Hello::kMagic || welcome.version != Hello::kVersion ||
      welcome.connection_bytes <= kControlBytes) {
    return DataLoss("the server did not confirm version %d of the shared-memory RPC",
                    Hello::kVersion);
  }
  using Others = SealedMemory::Others;
  TD_ASSIGN_OR_RETURN(
      auto memory, SealedMemory::Map(std::move(fds[0]), welcome.connection_bytes, Others::kWrite));
  TD_ASSIGN_OR_RETURN(auto server,
                      SealedMemory::Map(std::move(fds[1]), welcome.server_bytes, Others::kRead));
  TD_ASSIGN_OR_RETURN(Fd wake, MakeEvent());
  return std::unique_ptr<ShmRpcClient>(
      new ShmRpcClient(std::move(socket), std::move(wake), std::move(memory), std::move(server)));
}

ShmRpcClient::ShmRpcClient(Fd socket, Fd wake, std::shared_ptr<SealedMemory> memory,
                           std::shared_ptr<SealedMemory> server)
    : socket_(std::move(socket)),
      wake_(std::move(wake)),
      memory_(std::move(memory)),
      server_(std::move(server)),
      arena_(std::make_shared<Arena>(memory_->bytes().subspan(kControlBytes), memory_)),
      answers_(control().answers),
      calls_(control().calls) {}

ShmRpcClient::~ShmRpcClient() {
  FailAll(Unavailable("the shared-memory connection is closed"));
  TD_REQUIRE(pending_.empty());
}

bool ShmRpcClient::Call(uint32_t method, const codec::EncodedMessage& request, Time deadline,
                        Reply reply) {
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    if (!open_ || pending_.size() == ShmRpcRing::kEntries) return false;
    id = next_++;
    pending_[id] = {Time::max(), nullptr, nullptr, {}};
  }
  StatusOr<PlacedMessage> message = PutMessage(request, *arena_);
  MutexLock lock(mu_);
  if (!open_ || !message.ok()) {
    pending_.erase(id);
    return false;
  }
  pending_[id] = {deadline, std::move(reply), std::move(message->head), std::move(message->keep)};
  message->entry.id = id;
  message->entry.what = method;
  // RingBell fails if the server has ended. The failure is ignored here, because Run also detects
  // the end of the server.
  if (calls_.Write(message->entry)) (void)RingBell(socket_.get());
  return true;
}

Status ShmRpcClient::TakeAnswer(const RingEntry& entry) {
  TD_ASSIGN_OR_RETURN(const auto pieces, GetMessage(entry, server_->bytes()));
  Reply reply;
  {
    MutexLock lock(mu_);
    const auto it = pending_.find(entry.id);
    if (it == pending_.end() || it->second.memory == nullptr) {
      return DataLoss("the server replied to call %d, which is not pending", entry.id);
    }
    reply = std::exchange(it->second.reply, nullptr);
  }
  const auto code = static_cast<StatusCode>(entry.what);
  if (reply != nullptr && code == StatusCode::kOk) {
    reply(OkStatus(), pieces);
  } else if (reply != nullptr) {
    reply(Status(code, Text(pieces)), {});
  }
  // Finishes the reply's ring entry before it removes the call from `pending_`. So if `pending_`
  // has room for a new call, the ring has room for the reply to this call.
  answers_.Done();
  MutexLock lock(mu_);
  pending_.erase(entry.id);
  return OkStatus();
}

StatusOr<bool> ShmRpcClient::TakeAnswers() {
  bool any = false;
  while (true) {
    TD_ASSIGN_OR_RETURN(const auto entry, answers_.Read());
    if (!entry) return any;
    TD_RETURN_IF_ERROR(TakeAnswer(*entry));
    any = true;
  }
}

void ShmRpcClient::ExpireCalls() {
  const Time now = SteadyNow();
  std::vector<Reply> late;
  {
    MutexLock lock(mu_);
    for (auto& [id, call] : pending_) {
      if (call.reply == nullptr || call.deadline > now) continue;
      late.push_back(std::exchange(call.reply, nullptr));
    }
  }
  for (const Reply& reply : late) reply(DeadlineExceeded("the server did not reply in time"), {});
}

Status ShmRpcClient::Sleep() {
  pollfd fds[] = {{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  const bool asleep = answers_.FallAsleep();
  const int ready = ::poll(fds, 2, asleep ? static_cast<int>(Millis(kTick)) : 0);
  answers_.WakeUp();
  if (ready < 0 && errno != EINTR)
    return Internal("cannot wait for a reply of the server: %s", ErrnoText(errno));
  if (ready > 0 && fds[0].revents != 0 && !DrainBells(socket_.get())) {
    return Unavailable("the server closed the shared-memory connection");
  }
  return OkStatus();
}

Status ShmRpcClient::Serve() {
  SpinBackoff pause(3);  // the pause is for 3 threads: the server's, the caller's, and this one
  Time tick = SteadyNow() + kTick;
  while (!stopped_) {
    TD_ASSIGN_OR_RETURN(const bool any, TakeAnswers());
    if (const Time now = SteadyNow(); now >= tick) {
      ExpireCalls();
      tick = now + kTick;
    }
    if (any) pause.Reset();
    if (any || pause.Wait()) continue;
    TD_RETURN_IF_ERROR(Sleep());
    pause.Reset();
  }
  return OkStatus();
}

void ShmRpcClient::FailAll(const Status& status) {
  std::map<uint64_t, Pending> calls;
  {
    MutexLock lock(mu_);
    open_ = false;
    calls.swap(pending_);
  }
  for (const auto& [id, call] : calls) {
    if (call.reply != nullptr) call.reply(status, {});
  }
}

Status ShmRpcClient::Run() {
  Status status = Serve();
  FailAll(Unavailable("%s", status.ok() ? "the shared-memory connection is closed"
                                        : std::string(status.message())));
  ::shutdown(socket_.get(), SHUT_RDWR);
  return status;
}

void ShmRpcClient::Stop() {
  stopped_ = true;
  SetEvent(wake_.get());
}

}  // namespace tandem::shm_rpc
