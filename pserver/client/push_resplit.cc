#include "pserver/client/push_resplit.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"

namespace tandem::ps {
namespace {

// Pairs of slices of one table: the row ids and the values.
using RowPieces = std::vector<std::pair<const codec::CodedSlice*, const codec::CodedSlice*>>;

struct MergedRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

// Merges the rows of a table from several messages, by ascending ids.
MergedRows Merge(const RowPieces& pieces, int64_t width) {
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

std::set<size_t> PushResplitter::Owners(const PushPart& part, const OwnerMap& owners) const {
  return OwnersOf(part, owners, tables_);
}

void PushResplitter::SendLater(const std::shared_ptr<PushCall>& push) {
  caller_.After(PauseOf(push->attempts++), [this, push] { pusher_.Send(push); });
}

void PushResplitter::OnMoved(std::shared_ptr<PushCall> push, const Status& why) {
  const std::shared_ptr<PushGroup> group = push->group;
  if (group == nullptr) return Redirect(push, why);
  if (group->Reject(std::move(push))) FindOwners(group);
}

void PushResplitter::Redirect(const std::shared_ptr<PushCall>& push, const Status& why) {
  if (caller_.Now() >= push->deadline) {
    return push->done(DeadlineExceeded("the client cannot find the new owner of the rows: %s",
                                       std::string(why.message())));
  }
  const size_t server = push->part.server;
  const auto again = [this, push] {
    if (push->stale) return Resplit({push}, *placement_.Owners());
    // The bucket is frozen, and the server may still accept a delayed copy of the push. The push
    // therefore keeps its number when it is sent again.
    SendLater(push);
  };
  if (tables_.sync()) return placement_.ExchangeAll({server}, 2, again);
  placement_.Exchange({server}, [this, push, server, again] {
    std::set<size_t> owners = Owners(push->part, *placement_.Owners());
    owners.erase(server);
    // Tells the release to the new owners, which serve the buckets only after they know the
    // release.
    placement_.Exchange(owners, again);
  });
}

void PushResplitter::OnGone(std::shared_ptr<PushCall> push, const Status& why) {
  std::set<size_t> others;
  for (const PsServer* server : placement_.Servers()) {
    others.insert(static_cast<size_t>(server->index));
  }
  others.erase(push->part.server);
  placement_.Exchange(others, [this, push, why] {
    const auto now = placement_.Owners();
    const std::set<size_t> owners = Owners(push->part, *now);
    // A push without rows is needed only by a server that has rows.
    const std::set<size_t> missed_by = owners.empty() ? now->RowOwners() : owners;
    if (missed_by.contains(push->part.server)) {
      if (push->group != nullptr) push->group->End(*push, why);
      return push->done(why);
    }
    push->deadline = caller_.Now() + options_.patience.call_timeout();
    push->part.header.origin_server = static_cast<int>(push->part.server) + 1;
    push->part.header.origin_sequence = push->part.header.sequence;
    if (push->group == nullptr) return Resplit({push}, *now);
    push->stale = push->gone = true;
    OnMoved(push, why);
  });
}

void PushResplitter::FindOwners(const std::shared_ptr<PushGroup>& group) {
  placement_.ExchangeAll(group->RejectedBy(), 2, [this, group] { SendRejected(group); });
}

Status PushResplitter::TooLate(const PushPart& part) const {
  return DeadlineExceeded(
      "step %d: %s rejects a push, because a migration of rows did not end in time [TD4025]; hint: "
      "run tandem status",
      DisplayStep(part.header.step), placement_.ServerAt(part.server).name);
}

void PushResplitter::SendRejected(const std::shared_ptr<PushGroup>& group) {
  const auto now = placement_.Owners();
  const bool closing = caller_.closing();
  const PushGroup::Rejected rejected = group->TakeRejected(
      caller_.Now(), closing, *now, [&](const PushPart& part) { return Owners(part, *now); });
  for (const auto& push : rejected.late) {
    const Status status = closing                 ? Cancelled("the client is shutting down")
                          : rejected.failure.ok() ? TooLate(push->part)
                                                  : rejected.failure;
    group->End(*push, status);
    push->done(status);
  }
  if (!rejected.resplit.empty()) Resplit(rejected.resplit, *now);
  for (const auto& push : rejected.same) SendLater(push);
  if (!group->LooksAgain()) return;
  if (!rejected.must_wait) return FindOwners(group);
  caller_.After(PauseOf(group->NextWait()), [this, group] { FindOwners(group); });
}

StatusOr<std::vector<PushPart>> PushResplitter::Split(const Calls& pushes,
                                                      const OwnerMap& owners) const {
  std::vector<PushPart> parts;
  std::map<std::string, RowPieces> pieces;  // by table: its rows in all messages
  for (const auto& push : pushes) {
    const std::vector<codec::CodedSlice>& slices = push->part.slices;
    for (size_t i = 0; i < slices.size(); ++i) {
      const codec::CodedSlice& s = slices[i];
      if (s.desc.dtype == DType::kI64) {
        TD_REQUIRE(i + 1 < slices.size());
        pieces[s.variable].emplace_back(&s, &slices[++i]);
        continue;
      }
      const size_t owner = owners.slices[tables_.SliceAt(s.variable, s.offset)];
      PushPart& part = PartOf(owner, s.desc.bytes(), parts);
      part.slices.push_back(s);
      part.bytes += s.desc.bytes();
    }
  }
  std::set<size_t> all;  // servers that need an entry for every table
  if (const auto& group = pushes[0]->group; group != nullptr && !pieces.empty()) {
    all = group->MoveRows(pushes, owners.RowOwners());
  }
  for (const auto& [table, rows] : pieces) {
    TD_ASSIGN_OR_RETURN(const size_t index, tables_.FindTable(table));
    const MergedRows merged = Merge(rows, tables_.PushWidth(index));
    TD_RETURN_IF_ERROR(
        pusher_.AppendRows({{table, merged.ids, merged.values.data()}}, owners, all, parts));
  }
  if (options_.rules.each_step_once) TD_RETURN_IF_ERROR(CheckOneMessage(parts));
  // A server that has the step already ignores a message with the number of another server.
  const auto gone = std::ranges::find_if(
      pushes, [](const auto& push) { return push->part.header.origin_server != 0; });
  for (PushPart& part : parts) {
    part.header = (gone == pushes.end() ? pushes[0] : *gone)->part.header;
    part.header.generation = owners.generations[part.server];
  }
  return parts;
}

void PushResplitter::Resplit(const Calls& pushes, const OwnerMap& owners) {
  TD_REQUIRE(!pushes.empty());
  PullParts old;
  for (const auto& push : pushes) {
    if (push->pull != nullptr) old.push_back(push->pull);
  }
  PullParts pulls;
  for (auto& [server, pull] : puller_.Resplit(old, owners)) pulls.push_back(std::move(pull));
  StatusOr<std::vector<PushPart>> parts = Split(pushes, owners);
  const auto done = [pushes](const StatusOr<uint64_t>& version) {
    for (const auto& push : pushes) push->done(version);
  };
  if (!parts.ok()) {
    for (const auto& push : pushes) {
      if (push->group != nullptr) push->group->End(*push, parts.status());
    }
    return done(parts.status());
  }
  if (parts->empty() && pulls.empty()) return done(UINT64_MAX);  // no server needs the contents
  const PushCall& first = *pushes[0];
  if (first.group != nullptr) first.group->Expect(parts->size());
  pusher_.Number(*parts);
  const PushCall like{.part = {}, .group = first.group};
  pusher_.SendAll(*std::move(parts), std::move(pulls), like, done);
}

}  // namespace tandem::ps
