// Waits for the network operations of a rendezvous. Runs asynchronous operations one at a time,
// with deadlines, progress reports and cancellation. Internal to collective/, because it includes
// Asio.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/rendezvous.h"

namespace tandem::collective {

// Runs the network operations of one rank. Not thread-safe: for one thread.
class BlockingIoContext {
 public:
  using Error = boost::system::error_code;
  using Socket = boost::asio::ip::tcp::socket;

  // `config` must outlive this object.
  explicit BlockingIoContext(const WorldConfig& config) : config_(config) {}

  boost::asio::io_context& io() { return io_; }
  Time deadline() const { return deadline_; }
  // Reduces deadline() to `time` from now, if this is earlier.
  void Within(Duration time) { deadline_ = std::min(deadline_, SteadyNow() + time); }
  // Sets the text of the progress report, which is made every two seconds. "": no report. `ranks`
  // are the missing ranks, which config.missing gets twice per second after the first second.
  void WaitFor(const std::string& what, std::vector<int> ranks = {}) {
    waiting_for_ = what;
    missing_ = std::move(ranks);
  }

  // Ends the current wait and all later waits; end() then returns `why`. Only the first call has an
  // effect.
  void End(const Status& why) {
    if (end_.ok()) end_ = why;
  }
  // Returns the status that was passed to End(), or OK.
  const Status& end() const { return end_; }

  // Starts an asynchronous operation with `start(handler)` and runs io() until the operation has
  // ended. At `deadline` or after End(), calls `cancel`, which must end the operation, and returns
  // timed_out.
  template <typename Start, typename Cancel>
  Error Await(Start start, Cancel cancel, Time deadline);
  Error Read(Socket& socket, void* to, size_t bytes, Time deadline);
  Error Write(Socket& socket, const void* from, size_t bytes, Time deadline);
  void Pause(Duration time);
  // Waits for one handler of io() and runs it. Waits at most 100 ms, and not after `deadline`. Also
  // checks config.stop and makes the progress reports.
  void Look(Time deadline);

  static void Close(Socket& socket) {
    Error ignored;
    socket.close(ignored);
  }

 private:
  const WorldConfig& config_;
  const Time start_ = SteadyNow();
  Time deadline_ = start_ + config_.timeout;
  Time progress_at_ = start_, missing_at_ = start_;
  std::string waiting_for_;
  std::vector<int> missing_;
  Status end_;
  boost::asio::io_context io_;
};

template <typename Start, typename Cancel>
BlockingIoContext::Error BlockingIoContext::Await(Start start, Cancel cancel, Time deadline) {
  std::optional<Error> result;
  start([&result](const Error& error) { result = error; });
  while (!result && end_.ok() && SteadyNow() < deadline) Look(deadline);
  if (result) return *result;
  cancel();
  while (!result) {
    io_.restart();
    io_.run_one();
  }
  return boost::asio::error::timed_out;
}

}  // namespace tandem::collective
