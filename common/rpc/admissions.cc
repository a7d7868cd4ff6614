#include "common/rpc/admissions.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem::rpc {

AdmissionLimits LimitsForThisProcess() {
  constexpr rlim_t kDescriptorsMax = 65'536;
  AdmissionLimits limits;
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return limits;
  limits.connections_max = std::min(descriptors.rlim_cur, kDescriptorsMax) / 2;
  limits.strangers_max = std::min(limits.strangers_max, limits.connections_max / 2);
  limits.readers_max = limits.connections_max / 4;
  limits.strangers_per_source_max =
      std::min(limits.strangers_per_source_max, limits.strangers_max / 2);
  return limits;
}

Admissions::Admissions(AdmissionLimits limits) : limits_(limits) {}

Admissions::Source& Admissions::SourceOf(const std::string& name) {
  const auto [it, first] = sources_.try_emplace(
      name, Source{0, TokenBucket(limits_.begun_burst, limits_.begun_per_second), nullptr});
  if (first) it->second.budget = std::make_shared<StrangerBudget>(limits_.strangers);
  return it->second;
}

bool Admissions::TakeOff(Connection& connection) {
  const auto it = place_.find(&connection);
  if (it == place_.end()) return false;
  strangers_.erase(it->second);
  place_.erase(it);
  --SourceOf(connection.source()).strangers;
  return true;
}

bool Admissions::EndOldest(const std::string* source) {
  const auto it = std::find_if(strangers_.begin(), strangers_.end(), [source](const auto& one) {
    return source == nullptr || one->source() == *source;
  });
  if (it == strangers_.end()) return false;
  const std::shared_ptr<Connection> oldest = *it;
  TakeOff(*oldest);
  oldest->End();
  ++turned_away_;
  return true;
}

std::shared_ptr<Connection> Admissions::Admit(int fd, const std::string& peer,
                                              const std::string& source, Time now) {
  MutexLock lock(mu_);
  // A connection that was ended is still counted until gRPC has closed its descriptor.
  const size_t hard_max = limits_.connections_max + limits_.connections_max / 4;
  if ((connections_ >= limits_.connections_max && !EndOldest(nullptr)) ||
      connections_ >= hard_max) {
    ++turned_away_;
    return nullptr;
  }
  Source& from = SourceOf(source);
  if (from.strangers >= limits_.strangers_per_source_max) {
    EndOldest(&source);
  } else if (strangers_.size() >= limits_.strangers_max) {
    EndOldest(nullptr);
  }
  auto connection =
      Connection::Make(fd, peer, source, from.budget, now,
                       [self = shared_from_this()](Connection& closed) { self->Closed(closed); });
  ++connections_;
  ++from.strangers;
  place_[connection.get()] = strangers_.insert(strangers_.end(), connection);
  by_peer_[peer] = connection;
  return connection;
}

bool Admissions::MayBegin(Connection& connection, Time now) {
  if (!limits_.callers_prove) {
    Prove(connection, Standing::kTrusted);
    return true;
  }
  MutexLock lock(mu_);
  return connection.standing() >= Standing::kReader ||
         SourceOf(connection.source()).begun.Take(now);
}

void Admissions::Prove(const std::string& peer, Standing standing) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    const auto it = by_peer_.find(peer);
    if (it != by_peer_.end()) connection = it->second.lock();
  }
  if (connection != nullptr) Prove(*connection, standing);
}

void Admissions::Prove(Connection& connection, Standing standing) {
  if (connection.standing() >= standing) return;
  MutexLock lock(mu_);
  // Closed counts a connection off once. Another thread may have raised the standing meanwhile.
  if (connection.closed() || connection.standing() >= standing) return;
  readers_ -= connection.standing() == Standing::kReader;
  connection.set_standing(standing);
  if (standing == Standing::kReader && ++readers_ > limits_.readers_max) {
    connection.End();
    ++turned_away_;
  }
  if (standing < Standing::kReader || !TakeOff(connection)) return;
  SourceOf(connection.source()).begun.GiveBack();
}

void Admissions::Closed(Connection& connection) {
  MutexLock lock(mu_);
  TakeOff(connection);
  readers_ -= connection.standing() == Standing::kReader;
  if (connection.offended() || connection.standing() == Standing::kStranger) {
    const double share = connection.offended() ? 1.0 : connection.spent();
    SourceOf(connection.source()).begun.Charge(share * limits_.offence_cost, limits_.debt_max);
  }
  --connections_;
  const auto it = by_peer_.find(connection.peer());
  if (it != by_peer_.end() && it->second.lock().get() == &connection) by_peer_.erase(it);
}

void Admissions::Expire(Time now) {
  MutexLock lock(mu_);
  for (auto it = strangers_.begin(); it != strangers_.end();) {
    const std::shared_ptr<Connection> one = *it++;
    if (now - one->since() < limits_.stranger_lifetime) break;
    if (one->standing() != Standing::kStranger) continue;
    TakeOff(*one);
    one->End();
  }
  std::erase_if(sources_, [now](auto& source) {
    return source.second.strangers == 0 && source.second.begun.Full(now);
  });
}

bool Admissions::EndOldestStranger() {
  MutexLock lock(mu_);
  return EndOldest(nullptr);
}

size_t Admissions::connections() const {
  MutexLock lock(mu_);
  return connections_;
}

size_t Admissions::strangers() const {
  MutexLock lock(mu_);
  return strangers_.size();
}

uint64_t Admissions::turned_away() const {
  MutexLock lock(mu_);
  return turned_away_;
}

}  // namespace tandem::rpc
