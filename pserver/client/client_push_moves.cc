// The part of PsClient that sends pushes, and redirects pushes whose rows and slices have moved
// (client_moves.cc).
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "common/base/step_number.h"
#include "common/tensor/finite.h"
#include "proto/pserver.pb.h"
#include "pserver/client/client_impl.h"

namespace tandem::ps {
namespace {

bool HasRows(const PushPart& part) {
  return std::any_of(part.slices.begin(), part.slices.end(),
                     [](const codec::CodedSlice& s) { return s.desc.dtype == DType::kI64; });
}

}  // namespace

bool IsGone(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled ||
         status.code() == StatusCode::kDeadlineExceeded;
}

std::set<size_t> PsClient::Impl::OwnersOf(const PushPart& part, const PsPlacement& now) const {
  std::set<size_t> owners;
  for (size_t k = 0; k < part.slices.size(); ++k) {
    const codec::CodedSlice& s = part.slices[k];
    if (s.desc.dtype != DType::kI64) {
      owners.insert(now.blocks[BlockAt(s.variable, s.offset)]);
      continue;
    }
    ++k;  // skips its values
    const auto* const ids = static_cast<const int64_t*>(s.data);
    for (int64_t i = 0; i < s.desc.shape[0]; ++i) {
      owners.insert(now.OwnerOf(static_cast<uint64_t>(ids[i])));
    }
  }
  return owners;
}

void PsClient::Impl::SendPush(PushPart& part, uint64_t step, float learning_rate,
                              std::shared_ptr<PullPart> pull, std::shared_ptr<PushGroup> group,
                              DoneVersion done) {
  auto push = std::make_shared<OnePush>();
  push->part = std::move(part);
  push->step = step;
  push->learning_rate = learning_rate;
  push->pull = std::move(pull);
  push->done = std::move(done);
  push->group = std::move(group);
  if (push->group != nullptr) {
    MutexLock lock(mu);
    push->group->under_way.push_back(push.get());
    --push->group->coming;
  }
  push->deadline =
      carrier->Now() + call_timeout() + (push->pull == nullptr ? Duration::zero() : kGrace);
  Begin(std::move(push));
}

codec::CodedPush PsClient::Impl::Coded(const PushPart& part, uint64_t step, float learning_rate,
                                       std::string pull) const {
  return {options.job,
          static_cast<uint32_t>(options.trainer),
          options.incarnation,
          part.sequence,
          step,
          learning_rate,
          part.slices,
          std::move(pull),
          part.generation,
          part.origin_server,
          part.origin_sequence,
          part.sent,
          part.ended};
}

// Copies the gradients into memory from which they are sent without another copy, and checks them
// for NaN and infinity. Without such memory, the server checks them.
void PsClient::Impl::Place(size_t server, codec::CodedPush& push) const {
  constexpr size_t kPlacedBytesMin = 64 << 10;
  const auto aligned = [](size_t n) {
    return (n + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  };
  size_t bytes = 0;
  for (const codec::CodedSlice& s : push.slices) bytes += aligned(s.desc.bytes());
  if (bytes < kPlacedBytesMin) return;
  const Buffer memory = carrier->Allocate(static_cast<int>(server), bytes);
  if (memory == nullptr) return;
  push.finite = true;
  std::byte* to = memory.get();
  for (codec::CodedSlice& s : push.slices) {
    if (s.desc.dtype != DType::kF32) {  // row ids
      std::memcpy(to, s.data, s.desc.bytes());
    } else if (!CopyFinite(static_cast<const float*>(s.data), reinterpret_cast<float*>(to),
                           static_cast<size_t>(s.desc.shape.numel()))) {
      push.finite = false;
    }
    s.data = to;
    s.keep = memory;
    to += aligned(s.desc.bytes());
  }
}

// Every attempt has the same bytes.
void PsClient::Impl::SendOnce(std::shared_ptr<OnePush> push) {
  Server& server = ServerAt(push->part.server);
  // At the first attempt the push was just partitioned.
  push->stale = push->attempts > 0 && IsStale(push->part, *Placement());
  codec::CodedPush coded =
      Coded(push->part, push->step, push->learning_rate,
            push->pull == nullptr ? "" : push->pull->request.SerializeAsString());
  Place(push->part.server, coded);
  Send(server, "Push", codec::EncodePush(coded, options.crc32c), push->deadline,
       [this, push, &server](const Status& status, codec::Fragments answer) {
         if (HasMoved(status) && push->group != nullptr) return Refused(push);
         if (HasMoved(status)) return Redirect(push, status);
         // In sync mode, a server stays until trainers have made a step after its last move.
         if (IsGone(status) && push->part.origin_server == 0 && !sync)
           return QueryNewOwner(push, status);
         PushNumbers numbers;
         StatusOr<uint64_t> version = uint64_t{0};
         if (status.ok()) version = TakePushReply(push->pull.get(), answer, &numbers);
         if (kept != nullptr) Ended(*push, status, numbers);
         if (!status.ok()) return Finish(*push, status);
         if (version.ok() && numbers.pull_missing) {
           Arrive(*push);
           return SendPull(push->pull, push->done);
         }
         Finish(*push, version.ok() ? std::move(version) : Annotate(version.status(), server.name));
       });
}

void PsClient::Impl::Redirect(std::shared_ptr<OnePush> push, const Status& why) {
  if (carrier->Now() >= push->deadline) {
    return push->done(
        DeadlineExceeded("the new owner of the rows is unknown: %s", std::string(why.message())));
  }
  const size_t server = push->part.server;
  const auto again = [this, push] {
    if (push->stale) return RepartitionPushes({push}, *Placement());
    // The bucket is frozen there, and a delayed copy of the push may still arrive: the number is
    // kept.
    carrier->After(PauseOf(push->attempts++), [this, push] { SendOnce(push); });
  };
  if (sync) return ExchangeAll({server}, 2, again);
  Exchange({server}, [this, push, server, again] {
    std::set<size_t> owners = OwnersOf(push->part, *Placement());
    owners.erase(server);
    // The new owners serve the buckets once a client or server tells them about the release.
    Exchange(owners, again);
  });
}

// The server itself may not have been contacted since it gave buckets away.
bool PsClient::Impl::IsStale(const PushPart& part, const PsPlacement& now) const {
  std::set<size_t> others = OwnersOf(part, now);
  others.erase(part.server);
  return now.generations[part.server] != part.generation || !others.empty();
}

// The server no longer replies; it may have given everything away. The new owner of the rows knows
// whether this push was applied before.
void PsClient::Impl::QueryNewOwner(std::shared_ptr<OnePush> push, const Status& why) {
  std::set<size_t> others;
  for (const Server* server : AllServers()) others.insert(static_cast<size_t>(server->index));
  others.erase(push->part.server);
  Exchange(others, [this, push, why] {
    const auto now = Placement();
    const std::set<size_t> owners = OwnersOf(push->part, *now);
    // Without rows in the push, only a server that has rows misses it.
    const std::set<size_t> missed_by = owners.empty() ? now->RowOwners() : owners;
    if (missed_by.contains(push->part.server)) return push->done(why);
    push->deadline = carrier->Now() + call_timeout();
    push->part.origin_server = static_cast<uint32_t>(push->part.server) + 1;
    push->part.origin_sequence = push->part.sequence;
    RepartitionPushes({push}, *now);
  });
}

std::shared_ptr<PsClient::Impl::PushGroup> PsClient::Impl::GroupOf(
    const std::vector<PushPart>& parts) const {
  if (!sync || tables.empty()) return nullptr;
  auto group = std::make_shared<PushGroup>();
  group->coming = parts.size();
  for (const PushPart& part : parts) {
    if (HasRows(part)) group->servers.insert(part.server);
  }
  return group;
}

void PsClient::Impl::Finish(OnePush& push, StatusOr<uint64_t> version) {
  Arrive(push);
  push.done(std::move(version));
}

void PsClient::Impl::Arrive(OnePush& push) {
  if (push.group == nullptr) return;
  MutexLock lock(mu);
  std::erase(push.group->under_way, &push);
}

void PsClient::Impl::Refused(const std::shared_ptr<OnePush>& push) {
  const auto& group = push->group;
  {
    MutexLock lock(mu);
    std::erase(group->under_way, push.get());
    group->refused.push_back(push);
    if (std::exchange(group->looking, true)) return;
  }
  LookFor(group);
}

void PsClient::Impl::LookFor(const std::shared_ptr<PushGroup>& group) {
  std::set<size_t> also;
  {
    MutexLock lock(mu);
    for (const auto& push : group->refused) also.insert(push->part.server);
  }
  ExchangeAll(also, 2, [this, group] { SendRefused(group); });
}

// An accepted message does not conflict: if its server rejected other messages because of a move,
// the accepted one is not part of that move.
bool PsClient::Impl::MustWait(const PushGroup& group,
                              const std::vector<std::shared_ptr<OnePush>>& anew,
                              const PsPlacement& now) const {
  // Servers that receive rows they did not receive before.
  std::set<size_t> servers = now.RowOwners();
  for (const size_t server : group.servers) servers.erase(server);
  for (const auto& push : anew) {
    if (!HasRows(push->part)) continue;
    servers.merge(OwnersOf(push->part, now));
    servers.insert(push->part.server);
  }
  const auto meets = [&](const OnePush* push) {
    if (!HasRows(push->part)) return false;
    std::set<size_t> owners = OwnersOf(push->part, now);
    owners.insert(push->part.server);
    return std::any_of(owners.begin(), owners.end(), [&](size_t s) { return servers.contains(s); });
  };
  return group.coming > 0 || std::any_of(group.under_way.begin(), group.under_way.end(), meets);
}

void PsClient::Impl::SendRefused(const std::shared_ptr<PushGroup>& group) {
  const auto now = Placement();
  std::vector<std::shared_ptr<OnePush>> anew, same, late;
  bool must_wait = false;
  {
    MutexLock lock(mu);
    for (auto& push : std::exchange(group->refused, {})) {
      const bool over = closing || carrier->Now() >= push->deadline;
      (over ? late : push->stale ? anew : same).push_back(std::move(push));
    }
    for (const auto& push : same) group->under_way.push_back(push.get());
    // They must not be in progress meanwhile: other waiting pushes would in turn wait for them.
    must_wait = !anew.empty() && MustWait(*group, anew, *now);
    if (must_wait) group->refused.swap(anew);
  }
  for (const auto& push : late) {
    push->done(closing
                   ? Cancelled("the client is shutting down")
                   : DeadlineExceeded("step %d: %s rejects a push, because a migration of its rows "
                                      "did not end in time [TD4025]; hint: tandem status",
                                      DisplayStep(push->step), ServerAt(push->part.server).name));
  }
  if (!anew.empty()) RepartitionPushes(anew, *now);
  for (const auto& push : same) {
    carrier->After(PauseOf(push->attempts++), [this, push] { SendOnce(push); });
  }
  {
    MutexLock lock(mu);
    group->looking = !group->refused.empty();
    if (!group->looking) return;
  }
  if (!must_wait) return LookFor(group);
  carrier->After(PauseOf(group->waits++), [this, group] { LookFor(group); });
}

namespace {

struct MergedRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

// Merges the rows of a table from several messages, ascending.
MergedRows Merge(
    const std::vector<std::pair<const codec::CodedSlice*, const codec::CodedSlice*>>& pieces,
    int64_t width) {
  std::vector<std::pair<int64_t, const float*>> rows;
  for (const auto& [ids, values] : pieces) {
    for (int64_t i = 0; i < ids->desc.shape[0]; ++i) {
      rows.emplace_back(static_cast<const int64_t*>(ids->data)[i],
                        static_cast<const float*>(values->data) + i * width);
    }
  }
  std::sort(rows.begin(), rows.end());
  MergedRows merged;
  for (const auto& [id, values] : rows) {
    merged.ids.push_back(id);
    merged.values.insert(merged.values.end(), values, values + width);
  }
  return merged;
}

}  // namespace

StatusOr<std::vector<PushPart>> PsClient::Impl::Repartition(
    const std::vector<std::shared_ptr<OnePush>>& pushes, const PsPlacement& now) {
  using Pieces = std::vector<std::pair<const codec::CodedSlice*, const codec::CodedSlice*>>;
  std::vector<PushPart> parts;
  std::map<std::string, Pieces> pieces;  // by table
  for (const auto& push : pushes) {
    for (size_t i = 0; i < push->part.slices.size(); ++i) {
      const codec::CodedSlice& s = push->part.slices[i];
      if (s.desc.dtype == DType::kI64) {
        pieces[s.variable].emplace_back(&s, &push->part.slices[++i]);
        continue;
      }
      PushPart& part = PartOf(now.blocks[BlockAt(s.variable, s.offset)], s.desc.bytes(), parts);
      part.slices.push_back(s);
      part.bytes += s.desc.bytes();
    }
  }
  std::set<size_t> all;  // servers that need an entry for every table
  if (const auto& group = pushes[0]->group; group != nullptr && !pieces.empty()) {
    MutexLock lock(mu);
    for (const auto& push : pushes) {
      if (HasRows(push->part)) group->servers.erase(push->part.server);
    }
    for (const size_t server : now.RowOwners()) {
      if (group->servers.insert(server).second) all.insert(server);
    }
  }
  for (const auto& [table, rows] : pieces) {
    TD_ASSIGN_OR_RETURN(const int index, TableIndex(table));
    const MergedRows merged = Merge(rows, push_widths[static_cast<size_t>(index)]);
    TD_RETURN_IF_ERROR(AppendRows({{table, merged.ids, merged.values.data()}}, now, all, parts));
  }
  for (PushPart& part : parts) {
    part.generation = now.generations[part.server];
    part.origin_server = pushes[0]->part.origin_server;
    part.origin_sequence = pushes[0]->part.origin_sequence;
  }
  return parts;
}

void PsClient::Impl::RepartitionPushes(const std::vector<std::shared_ptr<OnePush>>& pushes,
                                       const PsPlacement& now) {
  std::vector<std::shared_ptr<PullPart>> pulled;
  for (const auto& push : pushes) {
    if (push->pull != nullptr) pulled.push_back(push->pull);
  }
  std::map<size_t, std::shared_ptr<PullPart>> pulls = RepartitionPulls(pulled, now);  // by server
  StatusOr<std::vector<PushPart>> parts = Repartition(pushes, now);
  const auto& group = pushes[0]->group;
  if (group != nullptr) {
    MutexLock lock(mu);
    group->coming += parts.ok() ? parts->size() : 0;
  }
  const auto done = [pushes](const StatusOr<uint64_t>& version) {
    for (const auto& push : pushes) push->done(version);
  };
  if (!parts.ok()) return done(parts.status());
  std::vector<std::shared_ptr<PullPart>> with(parts->size());
  for (size_t i = parts->size(); i-- > 0;) {
    const auto pull = pulls.find((*parts)[i].server);
    if (pull == pulls.end()) continue;
    with[i] = pull->second;
    pulls.erase(pull);
  }
  if (parts->empty() && pulls.empty()) return done(UINT64_MAX);  // no server misses them
  Number(*parts);
  const auto join =
      std::make_shared<FanInCallback>(static_cast<int>(parts->size() + pulls.size()), done);
  const auto arrive = [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); };
  const auto arrive_pushed = [join](const StatusOr<uint64_t>& version) {
    join->Arrive(version.ok() ? UINT64_MAX : version);  // the pulls deliver the version
  };
  for (size_t i = 0; i < parts->size(); ++i) {
    const bool alone = with[i] == nullptr && !pulled.empty();
    SendPush((*parts)[i], pushes[0]->step, pushes[0]->learning_rate, with[i], group,
             alone ? DoneVersion(arrive_pushed) : DoneVersion(arrive));
  }
  for (const auto& [server, pull] : pulls) SendPull(pull, arrive);
}

}  // namespace tandem::ps
