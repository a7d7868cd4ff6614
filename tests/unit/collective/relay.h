// A program between two ranks: it forwards their connections, reads them and may change them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {

// Forwards connections to `port` during the lifetime of the object. `change` may alter the bytes.
class Relay {
 public:
  // The relay calls this function for the bytes from the dialling to the listening side. The
  // function may change, remove or add bytes. `at`: number of bytes that this connection received
  // before `bytes`.
  using Change = std::function<void(size_t at, std::string& bytes)>;

  Relay(int port, Change change)
      : port_(port), change_(std::move(change)), door_(BindLoopbackSocket()) {
    CHECK_EQ(::listen(door_.fd, 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
    ::close(door_.fd);
  }
  int port() const { return door_.port; }
  bool saw(const std::string& text) {
    MutexLock lock(mu_);
    return seen_.find(text) != std::string::npos;
  }

 private:
  struct Line {
    Fd from, to;
    bool forth = false;
    size_t bytes = 0;
  };
  void Run() {
    while (!stop_) {
      std::vector<pollfd> fds = {{door_.fd, POLLIN, 0}};
      for (const Line& line : lines_) fds.push_back({line.from.get(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), 20);
      for (size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents != 0) Pass(lines_[i - 1]);
      }
      if (fds[0].revents != 0) Accept();
    }
  }
  void Accept() {
    Fd guest(::accept(door_.fd, nullptr, nullptr)), real = Dial(port_);
    lines_.push_back({Fd(::dup(guest.get())), Fd(::dup(real.get())), true});
    lines_.push_back({std::move(real), std::move(guest), false});
  }
  void Pass(Line& line) {
    char buffer[1 << 14];
    const ssize_t n = ::recv(line.from.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) {
      ::shutdown(line.to.get(), SHUT_WR);
      line.from.Reset();
      return;
    }
    std::string bytes(buffer, static_cast<size_t>(n));
    {
      MutexLock lock(mu_);
      if (seen_.size() < (4 << 20)) seen_ += bytes;
    }
    if (line.forth && change_) change_(line.bytes, bytes);
    line.bytes += static_cast<size_t>(n);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent =
          ::send(line.to.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<size_t>(sent);
    }
  }

  const int port_;
  const Change change_;
  const Door door_;
  std::atomic<bool> stop_{false};
  std::vector<Line> lines_;
  Mutex mu_;
  std::string seen_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

// Connects rank 1 through the relay. Runs an allreduce of `count` elements. Returns its status on
// both ranks. `tls`: certificates of both ranks.
std::vector<Status> SumThroughRelay(Relay& relay, const Door& door, size_t count,
                                    const rpc::TlsFiles& tls = {});

}  // namespace tandem::collective
