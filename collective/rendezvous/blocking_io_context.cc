#include <utility>

#include "collective/rendezvous/blocking_io_context.h"

#include "common/base/check.h"

namespace tandem::collective {
namespace {

namespace asio = boost::asio;

constexpr Duration kProgressEvery = std::chrono::seconds(2);
constexpr Duration kMissingFrom = std::chrono::seconds(1);
constexpr Duration kMissingEvery = std::chrono::milliseconds(500);
constexpr Duration kLookEvery = std::chrono::milliseconds(100);

}  // namespace

BlockingIoContext::Error BlockingIoContext::Read(Socket& socket, void* to, size_t bytes,
                                                 Time deadline) {
  return Await(
      [&](auto done) {
        asio::async_read(socket, asio::buffer(to, bytes),
                         [done](const Error& e, size_t) mutable { done(e); });
      },
      [&] { Close(socket); }, deadline);
}

BlockingIoContext::Error BlockingIoContext::Write(Socket& socket, const void* from, size_t bytes,
                                                  Time deadline) {
  return Await(
      [&](auto done) {
        asio::async_write(socket, asio::buffer(from, bytes),
                          [done](const Error& e, size_t) mutable { done(e); });
      },
      [&] { Close(socket); }, deadline);
}

void BlockingIoContext::Pause(Duration time) {
  const Time until = std::min(SteadyNow() + time, deadline_);
  asio::steady_timer timer(io_, until);
  Await([&](auto done) { timer.async_wait([done](const Error& e) mutable { done(e); }); },
        [&] { timer.cancel(); }, until + kLookEvery);
}

void BlockingIoContext::Look(Time deadline) {
  io_.restart();
  io_.run_one_until(std::min(deadline, SteadyNow() + kLookEvery));
  if (config_.stop && config_.stop()) {
    return End(Cancelled("rank %d stopped on request while it waited for %s", config_.rank,
                         waiting_for_.empty() ? "the others" : waiting_for_));
  }
  const Time now = SteadyNow();
  const bool missing = config_.missing && !missing_.empty();
  if (missing && now - start_ >= kMissingFrom && now >= missing_at_) {
    missing_at_ = now + kMissingEvery;
    config_.missing(missing_, now - start_);
  }
  if (now - start_ < kProgressEvery || now < progress_at_ || waiting_for_.empty()) return;
  progress_at_ = now + kProgressEvery;
  const std::string text =
      absl::StrFormat("rank %d of %d: waiting for %s (%.0f s of %.0f s)", config_.rank,
                      config_.size, waiting_for_, Seconds(now - start_), Seconds(config_.timeout));
  if (config_.progress) {
    config_.progress(text);
  } else {
    LOG(INFO) << text;
  }
}

}  // namespace tandem::collective
