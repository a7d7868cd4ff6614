// Blocking waits of a rendezvous: runs asynchronous operations one at a time, with deadlines,
// progress reports and early termination. Internal to collective/, because it includes Asio.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/rendezvous.h"

namespace tandem::collective {

// Runs the operations of one rank. For one thread.
class BlockingIoContext {
 public:
  using Error = boost::system::error_code;
  using Socket = boost::asio::ip::tcp::socket;

  // `config` must outlive this.
  explicit BlockingIoContext(const WorldConfig& config) : config_(config) {}

  boost::asio::io_context& io() { return io_; }
  Time deadline() const { return deadline_; }
  // Limits all later waiting to `time` from now.
  void Within(Duration time) { deadline_ = std::min(deadline_, SteadyNow() + time); }
  // Sets the text of the progress report, which is made every two seconds; "": no report. `ranks`:
  // the missing ranks. They are reported twice a second, from the first second on.
  void WaitFor(const std::string& what, std::vector<int> ranks = {}) {
    waiting_for_ = what;
    missing_ = std::move(ranks);
  }

  // Ends all waiting with `why`. Only the first call counts.
  void End(const Status& why) {
    if (end_.ok()) end_ = why;
  }
  // The reason why waiting ended early, or OK.
  const Status& end() const { return end_; }

  // Starts an asynchronous operation with `start(handler)` and runs io() until the operation ends.
  // If `deadline` passes or waiting is ended before that, calls `cancel`, which must end the
  // operation.
  template <typename Start, typename Cancel>
  Error Await(Start start, Cancel cancel, Time deadline);
  Error Read(Socket& socket, void* to, size_t bytes, Time deadline);
  Error Write(Socket& socket, const void* from, size_t bytes, Time deadline);
  void Pause(Duration time);
  // Runs ready handlers, or waits a short time for one.
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
