#include "pserver/client/placement.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/codec/bucket_map_proto.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

constexpr Duration kExchangeTimeout = std::chrono::seconds(1);

// Calls `then` at call number `calls` of Arrive.
class Countdown {
 public:
  Countdown(size_t calls, std::function<void()> then) : left_(calls), then_(std::move(then)) {}
  void Arrive() {
    if (left_.fetch_sub(1) == 1) then_();
  }

 private:
  std::atomic<size_t> left_;
  const std::function<void()> then_;
};

std::unique_ptr<const PsServer> MakeServer(size_t index, const std::string& address) {
  const auto number = static_cast<int>(index);
  return std::make_unique<const PsServer>(PsServer{number, address, PserverName(number, address)});
}

}  // namespace

Placement::Placement(const Parts& parts, const std::vector<std::string>& addresses,
                     const JobTables& tables)
    : parts_(parts),
      owners_(std::make_shared<const OwnerMap>(tables.FirstOwners(addresses.size()))) {
  for (const std::string& address : addresses) {
    servers_.push_back(MakeServer(servers_.size(), address));
  }
}

std::shared_ptr<const OwnerMap> Placement::Owners() const {
  MutexLock lock(mu_);
  return owners_;
}

bool Placement::OwnsAny(const PsServer& server) const {
  return Owners()->Owns(static_cast<size_t>(server.index));
}

bool Placement::HasLeft(const PsServer& server) const {
  return !OwnsAny(server) && Owners()->map.version() != 0;
}

std::vector<const PsServer*> Placement::Servers() const {
  std::vector<const PsServer*> all;
  for (const auto& server : servers_) all.push_back(server.get());
  MutexLock lock(mu_);
  for (const auto& [index, server] : added_) all.push_back(server.get());
  return all;
}

bool Placement::IsAdded(const PsServer& server) const {
  return static_cast<size_t>(server.index) >= servers_.size();
}

const PsServer& Placement::ServerAt(size_t index) const {
  if (index < servers_.size()) return *servers_[index];
  MutexLock lock(mu_);
  TD_REQUIRE(added_.contains(index));
  return *added_.at(index);
}

size_t Placement::server_count() const {
  MutexLock lock(mu_);
  return added_.empty() ? servers_.size() : added_.rbegin()->first + 1;
}

bool Placement::Meet(size_t index, const BucketMap& map) {
  if (index < servers_.size() || added_.contains(index)) return true;
  const auto address = map.addresses().find(static_cast<int>(index));
  if (address == map.addresses().end()) return false;
  const Status status = parts_.channel.AddServer(static_cast<int>(index), address->second);
  if (!status.ok()) {
    LOG(ERROR) << "pserver " << index << ": " << ToString(status);
    return false;
  }
  added_[index] = MakeServer(index, address->second);
  return true;
}

void Placement::Learn(size_t server, const BucketMapDef& def, uint64_t generation) {
  const BucketMap told = FromProto(def);
  std::set<size_t> changed;  // servers whose set of rows has changed
  {
    MutexLock lock(mu_);
    auto next = std::make_shared<OwnerMap>(*owners_);
    if (server >= next->generations.size()) next->generations.resize(server + 1);
    next->generations[server] = std::max(next->generations[server], generation);
    for (const auto& [index, address] : told.addresses()) next->map.SetAddress(index, address);
    for (const BucketMove& move : told.moves()) {
      const auto owner = static_cast<size_t>(move.server);
      if (!Meet(owner, told) || !next->map.Learn(move)) continue;
      if (size_t* const now = next->Owner(move.bucket); now != nullptr) {
        changed.insert({*now, owner});
        *now = owner;
      }
      if (owner >= next->generations.size()) next->generations.resize(owner + 1);
    }
    owners_ = std::move(next);
  }
  for (const size_t s : changed) {
    if (parts_.cache != nullptr) parts_.cache->Forget(s);
  }
}

void Placement::Exchange(const std::set<size_t>& with, std::function<void()> then) {
  if (with.empty()) return then();
  ExchangeMapRequest request;
  parts_.requests.FillCaller(&request);
  ToProto(Owners()->map, request.mutable_known());
  request.set_min_step(parts_.requests.highest_step());
  const auto all = std::make_shared<Countdown>(with.size(), std::move(then));
  for (const size_t index : with) {
    parts_.channel.Call(static_cast<int>(index), rpc::PserverCall::kExchangeMap,
                        rpc::EncodedProto(request), parts_.channel.Now() + kExchangeTimeout,
                        [this, index, all](const Status& status, codec::Fragments answer) {
                          ExchangeMapReply reply;
                          // Ignores a server that does not reply; the next exchange calls the
                          // server again.
                          if (status.ok() && rpc::ParseMessage(answer, &reply).ok()) {
                            Learn(index, reply.map(), reply.generation());
                          }
                          if (status.code() == StatusCode::kDataLoss)
                            parts_.resender.SendAgain(index);
                          parts_.silence.OnEnd(index, status, parts_.channel.Now());
                          all->Arrive();
                        });
  }
}

void Placement::ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then) {
  if (rounds == 0) return then();
  std::set<size_t> all = also;
  for (const PsServer* s : Servers()) {
    if (OwnsAny(*s)) all.insert(static_cast<size_t>(s->index));
  }
  Exchange(all, [this, also = std::move(also), rounds, then = std::move(then)] {
    ExchangeAll(also, rounds - 1, then);
  });
}

}  // namespace tandem::ps
