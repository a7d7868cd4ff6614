// The limits of the server for Redis clients.
#pragma once

#include <atomic>
#include <cstddef>

#include "common/base/clock.h"

namespace tandem::pserver {

struct RespLimits {
  size_t command_bytes_max = size_t{16} << 20;  // size of one command in bytes
  size_t arguments_max = 1 << 20;               // arguments of one command, with its name
  // The same limits for a client that has not sent the secret yet.
  size_t greeting_bytes_max = 4096, greeting_arguments_max = 8;
  size_t reply_bytes_max = size_t{64} << 20;  // size of the reply to one command in bytes
  // Maximum memory for commands and unsent replies of all connections in bytes.
  size_t memory_bytes_max = size_t{1} << 30;
  // Maximum number of open connections. The server lowers it to a quarter of its limit of open
  // files.
  size_t connections_max = 1024;
  // Maximum time for which a client may receive nothing while the server has an unsent reply.
  Duration unsent_timeout = std::chrono::seconds(10);
  // Maximum time from the connect to AUTH, if the server has a secret.
  Duration auth_timeout = std::chrono::seconds(10);
  // Maximum time for which a read waits for initial values.
  Duration read_timeout = std::chrono::seconds(5);
  // Maximum time for which a reply waits, also for the log (and, with standbys, for a majority).
  Duration reply_timeout = std::chrono::seconds(10);
  // Number of commands of one client that are executed before those of other clients.
  size_t commands_of_turn = 1024;
};

// Counts the memory of the buffers of all connections. Thread-safe.
class RespMemory {
 public:
  explicit RespMemory(size_t bytes_max) : bytes_max_(bytes_max) {}
  bool HasRoom(size_t bytes) const { return used_.load() + bytes <= bytes_max_; }
  // Adds `bytes` bytes if there is room for them. The caller subtracts them with Change(bytes, 0).
  bool Reserve(size_t bytes) {
    size_t used = used_.load();
    do {
      if (used + bytes > bytes_max_) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  // Changes the memory of one owner from `before` to `now` bytes.
  void Change(size_t before, size_t now) { used_ += now - before; }
  size_t used() const { return used_.load(); }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> used_ = 0;
};

}  // namespace tandem::pserver
