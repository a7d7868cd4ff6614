// Options of clients that only read: Reader and TableFollower.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"
#include "pserver/client/carrier/options.h"

namespace tandem::ps {

struct ReaderOptions {
  std::string job = "job";
  PsSecurity security;
  // Time limit of Connect and of each read. A server's own error may arrive up to 2 s later.
  Duration timeout = std::chrono::seconds(10);
  // Polled several times a second while Connect or a read waits, on the waiting thread. If the
  // function returns true, Connect or all reads in progress end with CANCELLED. null: not called.
  std::function<bool()> stop = nullptr;
};

// Interval at which a waiting thread calls ReaderOptions::stop.
constexpr Duration kStopInterval = std::chrono::milliseconds(100);

// Returns the options of the channel of such a client.
PsOptions ChannelOptions(const ReaderOptions& options);

}  // namespace tandem::ps
