#include "pserver/client/pull_rows.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/fan_in_callback.h"

namespace tandem::ps {
namespace {

constexpr size_t kNoServer = SIZE_MAX;

// Copies rows of `dim` values from the message to the addresses `to`, in the order of the message.
Status CopyRows(codec::Fragments message, const codec::CodedSlice& rows, int64_t dim,
                const std::vector<float*>& to) {
  if (to.empty()) return OkStatus();
  size_t next = 1;
  while (next < to.size() && to[next] == to[next - 1] + dim) ++next;
  if (next == to.size()) return codec::CopyContent(message, rows, to[0]);
  std::unique_ptr<float[]> values;
  auto* from = static_cast<const float*>(codec::ContentInPlace(message, rows));
  if (from == nullptr) {
    values = std::make_unique_for_overwrite<float[]>(to.size() * static_cast<size_t>(dim));
    TD_RETURN_IF_ERROR(codec::CopyContent(message, rows, values.get()));
    from = values.get();
  }
  for (float* const place : to) {
    std::copy_n(from, dim, place);
    from += dim;
  }
  return OkStatus();
}

}  // namespace

// A pull of rows from one server. to[i] has the destination of each row of request.rows(i).
struct RowPuller::RowsPart {
  PullRequest request;
  std::vector<std::vector<float*>> to;
  std::vector<int64_t> dims;  // by table in `request`: number of values of a row
};

// One call of RowPuller::Pull, which may need several attempts.
struct RowPuller::Attempts {
  PullCondition when;
  std::vector<PsRows> rows;
  PsClient::DoneVersion done;
  Time deadline;
  int attempts = 0;
};

void RowPuller::Pull(PullCondition when, std::vector<PsRows> rows, PsClient::DoneVersion done) {
  const std::string what = absl::StrFormat("pull of rows of version %d", when.version);
  if (rows.empty()) return done(InvalidArgument("%s names no table, expected at least one", what));
  auto pull = std::make_shared<Attempts>();
  pull->when = when;
  pull->rows = std::move(rows);
  pull->deadline = parts_.caller.Now() + parts_.options.patience.call_timeout() + kGrace;
  pull->done = [what, done = std::move(done)](StatusOr<uint64_t> version) {
    done(version.ok() ? std::move(version) : Annotate(version.status(), what));
  };
  Send(std::move(pull));
}

void RowPuller::Send(std::shared_ptr<Attempts> pull) {
  auto parts = Split(pull->rows, pull->when);
  if (!parts.ok()) return pull->done(parts.status());
  const auto moved = std::make_shared<std::atomic<bool>>(false);
  // Index of a server that does not reply; kNoServer: all servers replied.
  const auto gone = std::make_shared<std::atomic<size_t>>(kNoServer);
  const auto join = std::make_shared<FanInCallback>(
      parts->size(), [this, pull, moved, gone](StatusOr<uint64_t> version) {
        OnEnd(pull, *moved, *gone, std::move(version));
      });
  for (auto& [index, part] : *parts) {
    const PsServer& server = parts_.placement.ServerAt(index);
    // Sends the request even if the cache had all rows, because the condition on the version still
    // applies and the reply contains the version.
    if (parts_.cache != nullptr) TakeCached(index, pull->when, *part);
    parts_.caller.Send(server, rpc::PserverCall::kPull, rpc::EncodedProto(part->request),
                       pull->deadline,
                       [this, index = index, part = part, &server, join, moved, gone](
                           const Status& status, codec::Fragments answer) {
                         if (HasMoved(status)) *moved = true;
                         if (IsGone(status)) *gone = index;
                         if (!status.ok()) return join->Arrive(status);
                         const StatusOr<codec::CodedPullReply> reply = TakeRows(*part, answer);
                         if (!reply.ok())
                           return join->Arrive(Annotate(reply.status(), server.name));
                         if (parts_.cache != nullptr) PutIntoCache(index, *part, *reply);
                         join->Arrive(reply->version);
                       });
  }
}

void RowPuller::OnEnd(const std::shared_ptr<Attempts>& pull, bool moved, size_t gone,
                      StatusOr<uint64_t> version) {
  const bool late = parts_.caller.Now() >= pull->deadline;
  // true: an exchange of bucket maps cannot help, so the error is final.
  const bool known = gone == kNoServer && (late || !moved);
  if (version.ok() || known) return pull->done(std::move(version));
  parts_.placement.ExchangeAll({}, 1, [this, pull, late, gone, why = version.status()] {
    // If the server gave all its rows away, it may have stopped, and the pull is sent to the new
    // owners.
    const bool left = gone != kNoServer && !parts_.placement.Owners()->RowOwners().contains(gone);
    if (gone != kNoServer && !left) return pull->done(why);
    if (late)
      pull->deadline = parts_.caller.Now() + parts_.options.patience.call_timeout() + kGrace;
    parts_.caller.After(PauseOf(pull->attempts++), [this, pull] { Send(pull); });
  });
}

StatusOr<std::map<size_t, std::shared_ptr<RowPuller::RowsPart>>> RowPuller::Split(
    const std::vector<PsRows>& rows, PullCondition when) {
  const auto now = parts_.placement.Owners();
  parts_.requests.NoteStep(when.step);
  std::map<size_t, std::shared_ptr<RowsPart>> parts;
  for (const size_t s : now->RowOwners()) {
    parts[s] = std::make_shared<RowsPart>();
    parts_.requests.FillPull(when, &parts[s]->request);
  }
  for (const PsRows& r : rows) {
    TD_ASSIGN_OR_RETURN(const size_t table, parts_.tables.FindTable(r.variable));
    if (r.ids.size() != r.to.size()) {
      return InvalidArgument("cannot pull %d rows of table %s into buffers with room for %d rows",
                             r.ids.size(), r.variable, r.to.size());
    }
    struct Own {
      RowsRange* range;
      std::vector<float*>* to;
    };
    std::vector<Own> own(now->generations.size());  // by server: its part of the rows
    for (auto& [server, part] : parts) {
      RowsRange* const range = part->request.add_rows();
      range->set_variable(r.variable);
      part->dims.push_back(parts_.tables.tables()[table].dim);
      range->mutable_id()->Reserve(static_cast<int>(r.ids.size() / parts.size()));
      own[server] = {range, &part->to.emplace_back()};
      own[server].to->reserve(r.ids.size() / parts.size());
    }
    for (size_t i = 0; i < r.ids.size(); ++i) {
      const auto id = static_cast<uint64_t>(r.ids[i]);
      const Own& part = own[now->OwnerOf(id)];
      part.range->add_id(id);
      part.to->push_back(r.to[i]);
    }
  }
  for (const auto& [server, part] : parts) {
    for (const RowsRange& range : part->request.rows()) {
      if (static_cast<size_t>(range.id_size()) <= kRowsOfMessageMax) continue;
      return InvalidArgument(
          "cannot pull %d rows of table %s from %s in one call, expected at most %d rows",
          range.id_size(), range.variable(), parts_.placement.ServerAt(server).name,
          kRowsOfMessageMax);
    }
  }
  return parts;
}

StatusOr<codec::CodedPullReply> RowPuller::TakeRows(const RowsPart& part,
                                                    codec::Fragments message) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPullReply reply, codec::DecodePullReply(message));
  if (reply.slices.size() != part.to.size()) {
    return DataLoss("the reply to the pull of rows has %d tables, expected %d", reply.slices.size(),
                    part.to.size());
  }
  for (size_t i = 0; i < part.to.size(); ++i) {
    const codec::CodedSlice& s = reply.slices[i];
    const std::string& table = part.request.rows(static_cast<int>(i)).variable();
    const auto n = static_cast<int64_t>(part.to[i].size());
    if (s.variable != table || s.desc.dtype != DType::kF32 ||
        s.desc.shape != Shape{n, part.dims[i]}) {
      return DataLoss(
          "the reply to the pull of rows is wrong: expected %d rows of table %s, got %s %s", n,
          table, s.variable, ToString(s.desc));
    }
    TD_RETURN_IF_ERROR(CopyRows(message, s, part.dims[i], part.to[i]));
  }
  return reply;
}

void RowPuller::TakeCached(size_t server, PullCondition when, RowsPart& part) {
  // Without `exactly`, the client does not know the current version of the server, so it can never
  // be sure that a cached row has age 0.
  if (!when.exactly && parts_.options.row_cache.versions == 0) return;
  uint64_t version = when.version;
  if (!when.exactly) {
    MutexLock lock(mu_);
    version = std::max(last_replies_[server].version, version);
  }
  for (int i = 0; i < part.request.rows_size(); ++i) {
    RowsRange& range = *part.request.mutable_rows(i);
    std::vector<float*>& to = part.to[static_cast<size_t>(i)];
    const size_t table = *parts_.tables.FindTable(range.variable());
    const std::span<const uint64_t> ids(range.id().data(), static_cast<size_t>(range.id_size()));
    TD_REQUIRE(ids.size() == to.size());
    const std::vector<size_t> missing = parts_.cache->Take(table, server, version, ids, to);
    for (size_t k = 0; k < missing.size(); ++k) {
      range.set_id(static_cast<int>(k), range.id(static_cast<int>(missing[k])));
      to[k] = to[missing[k]];
    }
    range.mutable_id()->Truncate(static_cast<int>(missing.size()));
    to.resize(missing.size());
  }
}

void RowPuller::PutIntoCache(size_t server, const RowsPart& part,
                             const codec::CodedPullReply& reply) {
  {
    MutexLock lock(mu_);
    LastReply& last = last_replies_[server];
    if (last.incarnation != reply.server_incarnation) {
      parts_.cache->Forget(server);
      last = {.incarnation = reply.server_incarnation, .version = 0};
    }
    last.version = std::max(last.version, reply.version);
  }
  for (int i = 0; i < part.request.rows_size(); ++i) {
    const RowsRange& range = part.request.rows(i);
    const size_t table = *parts_.tables.FindTable(range.variable());
    parts_.cache->Put(table, server, reply.version,
                      {range.id().data(), static_cast<size_t>(range.id_size())},
                      part.to[static_cast<size_t>(i)]);
  }
}

}  // namespace tandem::ps
