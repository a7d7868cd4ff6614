#include "pserver/client/follow/server_finder.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/pserver_call.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(500);

}  // namespace

struct ServerFinder::Replies {
  Mutex mu;
  std::vector<std::string> addresses TD_GUARDED_BY(mu);
};

ServerFinder::ServerFinder(PsChannel& channel, const ReaderOptions& options,
                           const std::vector<std::string>& servers)
    : channel_(channel),
      options_(options),
      replies_(std::make_shared<Replies>()),
      known_(servers.begin(), servers.end()),
      servers_(servers.size()) {
  TD_REQUIRE(!servers.empty());
}

ServerFinder::~ServerFinder() = default;

void ServerFinder::Ask() {
  const Time now = channel_.Now();
  if (now < next_) return;
  next_ = now + kPause;
  ExchangeMapRequest request;
  request.set_job(options_.job);
  request.set_observer(true);
  channel_.Call(static_cast<int>(asked_++ % servers_), rpc::PserverCall::kExchangeMap,
                rpc::EncodedProto(request), now + options_.timeout,
                [replies = replies_](const Status& status, codec::Fragments bytes) {
                  ExchangeMapReply reply;
                  if (!status.ok() || !rpc::ParseMessage(bytes, &reply).ok()) return;
                  MutexLock lock(replies->mu);
                  for (const ServerAddress& server : reply.map().server()) {
                    replies->addresses.push_back(server.address());
                  }
                });
}

std::vector<std::string> ServerFinder::Take() {
  std::vector<std::string> told, found;
  {
    MutexLock lock(replies_->mu);
    told.swap(replies_->addresses);
  }
  for (std::string& address : told) {
    if (!known_.insert(address).second) continue;
    // An invalid address stays unknown to the follower, which reports what it lacks.
    if (!channel_.AddServer(static_cast<int>(servers_), address).ok()) continue;
    ++servers_;
    found.push_back(std::move(address));
  }
  return found;
}

}  // namespace tandem::ps
