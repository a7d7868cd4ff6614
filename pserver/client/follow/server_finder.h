// Finds the servers that joined a job after a follower was started.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::ps {

// Asks the servers of a follower, one after the other, for the addresses of servers that joined the
// job. Not thread-safe: the thread of the follower uses it.
class ServerFinder {
 public:
  // `channel` has the servers with these addresses, by index. `channel` and `options` must outlive
  // this object.
  ServerFinder(PsChannel& channel, const ReaderOptions& options,
               const std::vector<std::string>& servers);
  ~ServerFinder();

  // Asks the next server. Has no effect for half a second after a request.
  void Ask();
  // Returns the addresses in the newest replies that are new, in the order of their indices in the
  // channel, to which they were added.
  std::vector<std::string> Take();

 private:
  struct Replies;

  PsChannel& channel_;
  const ReaderOptions& options_;
  const std::shared_ptr<Replies> replies_;  // calls may end after this object
  std::set<std::string> known_;
  size_t servers_;           // number of servers of the channel
  size_t asked_ = 0;         // number of requests
  Time next_ = Time::min();  // earliest time of the next request
};

// Appends a server with this address to the servers of a follower. The name of the server has its
// index.
template <typename Server>
Server& AppendServer(std::vector<std::unique_ptr<Server>>& servers, const std::string& address) {
  const auto index = static_cast<int>(servers.size());
  servers.push_back(std::make_unique<Server>());
  servers.back()->name = PserverName(index, address);
  return *servers.back();
}

}  // namespace tandem::ps
