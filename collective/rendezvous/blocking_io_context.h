// Lets a rendezvous wait for network operations. Runs asynchronous operations one at a time, with
// deadlines, progress reports and early end. Internal to collective/, because it includes Asio.
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
  // Limits all later waits to the next `time`.
  void Within(Duration time) { deadline_ = std::min(deadline_, SteadyNow() + time); }
  // Sets the text of the progress report, which is made every two seconds; "": no report. `ranks`
  // are the missing ranks. They are reported twice a second, beginning after one second.
  void WaitFor(const std::string& what, std::vector<int> ranks = {}) {
    waiting_for_ = what;
    missing_ = std::move(ranks);
  }

  // Ends the current wait and all later waits with the status `why`. Only the first call counts.
  void End(const Status& why) {
    if (end_.ok()) end_ = why;
  }
  // Returns the status that was passed to End(), or OK.
  const Status& end() const { return end_; }

  // Starts an asynchronous operation with `start(handler)` and runs io() until the operation has
  // ended. Calls `cancel`, which must end the operation, at `deadline` or after End().
  template <typename Start, typename Cancel>
  Error Await(Start start, Cancel cancel, Time deadline);
  Error Read(Socket& socket, void* to, size_t bytes, Time deadline);
  Error Write(Socket& socket, const void* from, size_t bytes, Time deadline);
  void Pause(Duration time);
  // Runs the handlers that are ready. If there is none, waits shortly, at most until `deadline`.
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
