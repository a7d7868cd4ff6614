#include "pserver/resp/resp_connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::pserver {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kReadBytes = 16 << 10;  // minimum size of the room for a read
// Size of the output from which on it is sent before more commands are executed.
constexpr size_t kWriteBytes = 256 << 10;
// Buffers above this size are freed when they are empty. Two buffers of each of the 1,024
// connections take at most half of RespLimits::memory_bytes_max.
constexpr size_t kKeptBytes = 256 << 10;

}  // namespace

void RespConnection::Start(const std::shared_ptr<RespLoop>& loop,
                           std::shared_ptr<RespShared> shared, std::unique_ptr<RespSlot> slot,
                           Socket socket, std::string peer) {
  TD_REQUIRE(loop != nullptr && shared != nullptr && slot != nullptr);
  auto made = std::make_shared<RespConnection>(*loop, std::move(shared), std::move(slot),
                                               std::move(socket), std::move(peer));
  // The shard may call this function after the end of the connection, and of the whole server.
  std::function<void()> wake = [of_loop = std::weak_ptr(loop), of = std::weak_ptr(made)] {
    const std::shared_ptr<RespLoop> alive = of_loop.lock();
    if (alive == nullptr) return;
    asio::post(alive->context, [of] {
      if (const auto connection = of.lock()) connection->OnWake();
    });
  };
  made->session_ = std::make_unique<RespSession>(made->shared_, made->peer_, std::move(wake));
  loop->connections.insert(made);
  if (!made->session_->admitted()) {
    made->auth_timer_.expires_after(made->shared_->target.limits.auth_timeout);
    made->auth_timer_.async_wait([made](error_code error) {
      if (!error && !made->session_->admitted()) made->OnTimeout("sent no AUTH in time");
    });
  }
  made->Read();
}

RespConnection::RespConnection(RespLoop& loop, std::shared_ptr<RespShared> shared,
                               std::unique_ptr<RespSlot> slot, Socket socket, std::string peer)
    : loop_(loop),
      shared_(std::move(shared)),
      slot_(std::move(slot)),
      socket_(std::move(socket)),
      auth_timer_(loop.context),
      unsent_timer_(loop.context),
      reply_timer_(loop.context),
      peer_(std::move(peer)),
      parser_(shared_->target.limits.greeting_bytes_max,
              shared_->target.limits.greeting_arguments_max) {}

RespConnection::~RespConnection() { shared_->memory.Change(counted_, 0); }

void RespConnection::Close() {
  error_code ignored;
  socket_.close(ignored);
  auth_timer_.cancel();
  unsent_timer_.cancel();
  reply_timer_.cancel();
  loop_.connections.erase(shared_from_this());
}

void RespConnection::OnTimeout(const char* what) {
  LOG_EVERY_T(WARNING, 1.0) << "the connection of Redis client " << peer_
                            << " ends, because the client " << what << " [TD4041]";
  shared_->refused.Add(1);
  Close();
}

void RespConnection::OnWake() {
  if (!waiting_ || !socket_.is_open() || !session_->ready()) return;
  SetWaiting(session_->Resume(out_) == RespSession::Step::kWaiting);
  Run();
}

void RespConnection::SetWaiting(bool waiting) {
  waiting_ = waiting;
  reply_timer_.cancel();
  if (!waiting) return;
  reply_timer_.expires_after(shared_->target.limits.reply_timeout);
  reply_timer_.async_wait([self = shared_from_this()](error_code late) {
    // A timer that has expired may be of an earlier wait.
    const bool expired = self->reply_timer_.expiry() <= std::chrono::steady_clock::now();
    if (late || !expired || !self->waiting_ || !self->socket_.is_open()) return;
    self->SetWaiting(self->session_->GiveUp(self->out_) == RespSession::Step::kWaiting);
    self->Run();
  });
}

void RespConnection::Run() {
  if (writing_) return;
  const auto self = shared_from_this();  // Close releases the reference of the loop
  while (true) {
    const bool full = ExecuteCommands();
    CountMemory();
    if (!Write() || waiting_) return;
    if (closing_) return Close();
    if (!full) return Read();
    return asio::post(loop_.context, [self] {
      if (self->socket_.is_open()) self->Run();
    });
  }
}

bool RespConnection::ExecuteCommands() {
  TD_REQUIRE(!writing_ && session_ != nullptr);
  size_t executed = 0;
  while (!closing_ && !waiting_) {
    if (out_.size() >= kWriteBytes) return true;
    if (executed++ == shared_->target.limits.commands_of_turn) return true;
    if (!limits_raised_ && session_->admitted()) {
      const RespLimits& limits = shared_->target.limits;
      parser_.SetLimits(limits.command_bytes_max, limits.arguments_max);
      limits_raised_ = true;
    }
    const StatusOr<bool> complete = parser_.Parse(unparsed());
    if ((!complete.ok() || !*complete) && session_->gathered_bytes() != 0) {
      Flush();
      continue;
    }
    if (!complete.ok()) {
      Fail(complete.status());
      return false;
    }
    if (!*complete) return false;
    const RespSession::Step step = session_->Execute(parser_.arguments(unparsed()), out_);
    if (step == RespSession::Step::kFlush) {
      Flush();
      continue;  // executes the same command
    }
    closing_ = step == RespSession::Step::kClose;
    if (step == RespSession::Step::kWaiting) SetWaiting(true);
    in_begin_ += parser_.bytes();
    parser_.Reset();
    if (session_->gathered_bytes() >= kWriteBytes) Flush();
  }
  return false;
}

void RespConnection::Flush() { SetWaiting(session_->Flush(out_) == RespSession::Step::kWaiting); }

void RespConnection::Fail(const Status& status) {
  out_.Error("ERR " + std::string(status.message()));
  shared_->refused.Add(1);
  closing_ = true;
}

bool RespConnection::Write() {
  TD_REQUIRE(!writing_ && sent_ <= out_.size());
  while (sent_ < out_.size()) {
    error_code error;
    sent_ += socket_.write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_), error);
    if (!error) continue;
    if (error != asio::error::would_block && error != asio::error::try_again) {
      Close();
      return false;
    }
    writing_ = true;
    const auto self = shared_from_this();
    unsent_timer_.expires_after(shared_->target.limits.unsent_timeout);
    unsent_timer_.async_wait([self](error_code late) {
      if (!late && self->writing_) self->OnTimeout("received nothing for too long");
    });
    socket_.async_wait(Socket::wait_write, [self](error_code failed) {
      self->writing_ = false;
      self->unsent_timer_.cancel();
      if (!self->socket_.is_open()) return;
      if (failed) return self->Close();
      self->Run();
    });
    return false;
  }
  out_.Clear(kKeptBytes);
  sent_ = 0;
  return true;
}

bool RespConnection::MakeRoom() {
  TD_REQUIRE(in_begin_ <= in_end_ && in_end_ <= in_capacity_);
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
    if (in_capacity_ > kKeptBytes) {
      in_.reset();
      in_capacity_ = 0;
    }
  }
  if (in_capacity_ - in_end_ >= kReadBytes) return true;
  const size_t bytes = in_end_ - in_begin_;
  if (in_capacity_ - bytes >= std::max(kReadBytes, in_capacity_ / 2)) {
    std::memmove(in_.get(), in_.get() + in_begin_, bytes);
  } else {
    const size_t grown = std::max(2 * in_capacity_, 2 * kReadBytes);
    if (!shared_->memory.HasRoom(grown)) return false;
    auto larger = std::make_unique_for_overwrite<char[]>(grown);
    if (bytes != 0) std::memcpy(larger.get(), in_.get() + in_begin_, bytes);
    in_ = std::move(larger);
    in_capacity_ = grown;
  }
  in_begin_ = 0;
  in_end_ = bytes;
  return true;
}

void RespConnection::CountMemory() {
  const size_t now = in_capacity_ + out_.capacity();
  shared_->memory.Change(counted_, now);
  counted_ = now;
}

void RespConnection::Read() {
  if (!MakeRoom()) {
    Fail(ResourceExhausted(
        "the commands and unsent replies of all clients would exceed %d bytes (memory_bytes_max) "
        "[TD4041]; hint: try again",
        shared_->target.limits.memory_bytes_max));
    return Run();
  }
  CountMemory();
  TD_REQUIRE(!waiting_ && in_end_ < in_capacity_);
  socket_.async_read_some(asio::buffer(in_.get() + in_end_, in_capacity_ - in_end_),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            if (!self->socket_.is_open()) return;
                            if (error) return self->Close();
                            self->in_end_ += bytes;
                            self->Run();
                          });
}

}  // namespace tandem::pserver
