#include "pserver/service/change_calls.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/require.h"
#include "common/codec/row_values.h"
#include "proto/pserver.pb.h"
#include "pserver/replication/state_history.h"
#include "pserver/shard/read_calls.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kBytes = 1 << 20;      // FetchChangesRequest::bytes_max if it is 0
constexpr uint32_t kBytesMax = 16 << 20;  // maximum of FetchChangesRequest::bytes_max

StatusOr<ChangesQuery> QueryOf(const FetchChangesRequest& request) {
  const uint32_t bytes = request.bytes_max() == 0 ? kBytes : request.bytes_max();
  ChangesQuery query{
      .job = request.job(),
      .table = request.table(),
      .after = {},
      .buckets = {},
      .bytes_max = std::min(bytes, kBytesMax),
      .begin = static_cast<int>(std::min<uint32_t>(request.bucket_begin(), INT32_MAX)),
      .end = kRowBuckets,
      .score_min = {}};
  if (request.bucket_end() != 0) {
    query.end = static_cast<int>(std::min<uint32_t>(request.bucket_end(), INT32_MAX));
  }
  if (query.begin >= query.end || query.end > kRowBuckets) {
    return InvalidArgument("row buckets [%d, %d) are not possible, expected a part of [0, %d)",
                           query.begin, query.end, kRowBuckets);
  }
  if (request.has_min_score()) {
    if (std::isnan(request.min_score())) return InvalidArgument("the minimum score is NaN");
    query.score_min = request.min_score();
  }
  if (!ValueFormat_IsValid(request.format())) {
    return InvalidArgument("values in format %d are unknown, expected f32, bf16 or int8",
                           request.format());
  }
  for (const uint32_t bucket : request.bucket()) {
    const bool ascending =
        query.buckets.empty() || static_cast<int64_t>(bucket) > query.buckets.back();
    if (bucket >= kRowBuckets || !ascending) {
      return InvalidArgument("the row buckets of a request must be ascending and below %d",
                             kRowBuckets);
    }
    query.buckets.push_back(static_cast<int>(bucket));
  }
  const ChangePosition& position = request.position();
  query.after = {
      .version = position.version(), .until = position.until(), .last_id = position.last_id()};
  return query;
}

void ToProto(const TableChanges& changes, ValueFormat format, FetchChangesReply* reply) {
  TD_REQUIRE(reply != nullptr);
  ChangePosition* const position = reply->mutable_position();
  position->set_number(changes.number);
  position->set_version(changes.up_to.version);
  if (changes.up_to.partial()) {
    position->set_until(changes.up_to.until);
    position->set_last_id(changes.up_to.last_id);
  }
  reply->set_version(changes.version);
  reply->set_restart(changes.restart);
  reply->set_dim(static_cast<uint32_t>(changes.dim));
  reply->mutable_id()->Add(changes.ids.begin(), changes.ids.end());
  codec::CodedRows values =
      codec::EncodeRows(static_cast<codec::RowFormat>(format), changes.values,
                        static_cast<size_t>(std::max<int64_t>(1, changes.dim)));
  reply->set_format(format);
  reply->set_values(std::move(values.bytes));
  reply->mutable_scale()->Add(values.scales.begin(), values.scales.end());
  reply->mutable_removed()->Add(changes.removed.begin(), changes.removed.end());
  reply->mutable_bucket()->Add(changes.buckets.begin(), changes.buckets.end());
  for (const TableChanges::Served& served : changes.served) {
    ServedBuckets* const to = reply->add_served();
    to->set_begin(static_cast<uint32_t>(served.begin));
    to->set_end(static_cast<uint32_t>(served.end));
    to->set_epoch(served.epoch);
  }
}

}  // namespace

Status FetchTableChanges(const FetchChangesRequest& request, const StateHistory* history,
                         Shard& shard, FetchChangesReply* reply) {
  if (history == nullptr) {
    return FailedPrecondition(
        "this server has no log, so its tables cannot be followed [TD4036]; hint: start it with "
        "--durability=logged");
  }
  TD_ASSIGN_OR_RETURN(const LogTerm term, history->CurrentTerm());
  TD_ASSIGN_OR_RETURN(ChangesQuery query, QueryOf(request));
  const ChangePosition& from = request.position();
  // A position in another history is no position in this one.
  const bool continues =
      history->Contains({from.history(), from.term(), from.start()}, from.number());
  if (!continues) query.after.reset();
  TD_ASSIGN_OR_RETURN(TableChanges changes, shard.reads().ReadChanges(query));
  // A restore may have replaced the state before or during the read.
  const StatusOr<LogTerm> now = history->CurrentTerm();
  if (!now.ok() || *now != term) {
    return Unavailable("this server restores a checkpoint; hint: try again later");
  }
  changes.restart |= request.has_position() && !continues;
  ToProto(changes, request.format(), reply);
  ChangePosition* const position = reply->mutable_position();
  position->set_history(term.history);
  position->set_term(term.number);
  position->set_start(term.start);
  return OkStatus();
}

bool HasChanges(const FetchChangesRequest& request, const FetchChangesReply& reply) {
  if (!request.has_position() || request.bucket_size() != 0 || reply.restart() ||
      reply.id_size() != 0 || reply.removed_size() != 0 ||
      reply.position().version() < reply.version()) {
    return true;
  }
  return !std::ranges::equal(
      request.known(), reply.served(), [](const ServedBuckets& a, const ServedBuckets& b) {
        return a.begin() == b.begin() && a.end() == b.end() && a.epoch() == b.epoch();
      });
}

}  // namespace tandem::pserver
