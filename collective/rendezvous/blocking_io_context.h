// Waiting in a rendezvous: asynchronous operations one at a time, with deadlines, word of what is
// waited for, and ways to end it. Internal to collective/: drags in Asio.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/rendezvous.h"

namespace tandem {

// One thread.
class BlockingIoContext {
 public:
  using Error = boost::system::error_code;
  using Socket = boost::asio::ip::tcp::socket;

  // `config` must outlive it.
  explicit BlockingIoContext(const WorldConfig& config) : config_(config) {}

  boost::asio::io_context& io() { return io_; }
  Time deadline() const { return deadline_; }
  // From now on at most so long.
  void Within(Duration time) { deadline_ = std::min(deadline_, SteadyNow() + time); }
  // For the word that is given every two seconds; "": none. `ranks`: those that are missing, who
  // are told of from the first second on, twice a second.
  void WaitFor(const std::string& what, std::vector<int> ranks = {}) {
    waiting_for_ = what;
    missing_ = std::move(ranks);
  }

  // Ends all waiting with `why`; the first one counts.
  void End(const Status& why) {
    if (end_.ok()) end_ = why;
  }
  // Why waiting ended early, or OK.
  const Status& end() const { return end_; }

  // Starts an asynchronous operation by `start(handler)` and runs io() until it ends, or `deadline`
  // passes or waiting ends, when `cancel` must end it.
  template <typename Start, typename Cancel>
  Error Await(Start start, Cancel cancel, Time deadline);
  Error Read(Socket& socket, void* to, size_t bytes, Time deadline);
  Error Write(Socket& socket, const void* from, size_t bytes, Time deadline);
  void Pause(Duration time);
  // Runs what is ready, or waits for it a little while.
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

}  // namespace tandem
