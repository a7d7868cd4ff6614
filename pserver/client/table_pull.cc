#include "pserver/client/table_pull.h"

#include <algorithm>
#include <memory>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"
#include "proto/pserver.pb.h"
#include "pserver/client/job/table_rows.h"

namespace tandem::ps {
namespace {

bool Fits(const PullTableReply& reply, size_t dim, uint32_t bucket) {
  const TableRows& rows = reply.rows();
  const size_t of_brief = 1 + static_cast<size_t>(reply.slot_size());
  const auto brief =
      static_cast<size_t>(std::count(rows.brief().begin(), rows.brief().end(), true));
  const size_t weights = (static_cast<size_t>(rows.id_size()) - brief) * dim + brief;
  return HasConsistentLengths(rows) &&
         rows.content().size() == weights * of_brief * sizeof(float) &&
         reply.slot_size() == reply.slot_start_size() && reply.next_bucket() > bucket;
}

}  // namespace

StatusOr<bool> TablePuller::WaitForVersion(const PsServer& server, uint64_t version) {
  PullRequest request;
  requests_.FillPull({.version = version}, &request);
  // A pull without ids only waits for the version.
  request.add_rows()->set_variable(tables_.tables()[0].variable);
  return caller_.CallOwner(server, rpc::PserverCall::kPull, request, std::make_shared<PullReply>(),
                           options_.patience.call_timeout());
}

Status TablePuller::WaitForRows(uint64_t version) {
  const Time deadline = caller_.Now() + options_.patience.call_timeout();
  for (int attempts = 0;;) {
    StatusOr<bool> there = true;
    for (const PsServer* const server : placement_.Servers()) {
      if (there.ok() && *there && placement_.OwnsAny(*server)) {
        there = WaitForVersion(*server, version);
      }
    }
    if (there.ok() && *there) return OkStatus();
    const bool moved = there.ok() || HasMoved(there.status());  // rows of the server have moved
    if (!moved || caller_.Now() >= deadline) return there.status();
    TD_RETURN_IF_ERROR(caller_.ExchangeAndWait(attempts++));
  }
}

Status TablePuller::PullBuckets(const PsTable& table, bool slots, uint32_t& bucket, uint32_t end,
                                const PsServer& server, const RowSink& take) {
  while (bucket < end) {
    PullTableRequest request;
    const auto answer = std::make_shared<PullTableReply>();
    request.set_job(options_.job);
    request.set_variable(table.variable);
    request.set_bucket_begin(bucket);
    request.set_bucket_end(end);
    request.set_slots(slots);
    TD_ASSIGN_OR_RETURN(const bool owns,
                        caller_.CallOwner(server, rpc::PserverCall::kPullTable, request, answer,
                                          options_.patience.start_timeout));
    if (!owns) return OkStatus();
    const PullTableReply& reply = *answer;
    if (!Fits(reply, static_cast<size_t>(table.dim), bucket)) {
      return DataLoss("%s replied with a wrong number of rows of table %s", server.name,
                      table.variable);
    }
    PsTableRows page = RowsFromProto(reply.rows());
    page.slots.assign(reply.slot().begin(), reply.slot().end());
    page.slot_start.assign(reply.slot_start().begin(), reply.slot_start().end());
    TD_RETURN_IF_ERROR(take(page));
    bucket = reply.next_bucket();
  }
  return OkStatus();
}

Status TablePuller::Pull(const PsTable& table, bool slots, uint64_t min_version,
                         const RowSink& take) {
  TD_RETURN_IF_ERROR(WaitForRows(min_version));
  Time deadline = caller_.Now() + options_.patience.call_timeout();  // deadline of the next page
  int attempts = 0;
  uint32_t bucket = 0;
  while (bucket < kRowBuckets) {
    const uint32_t before = bucket;
    const auto now = placement_.Owners();
    TD_REQUIRE(now->rows.size() == kRowBuckets);
    const size_t owner = now->rows[bucket];
    uint32_t end = bucket + 1;
    while (end < kRowBuckets && now->rows[end] == owner) ++end;
    const Status status = PullBuckets(table, slots, bucket, end, placement_.ServerAt(owner), take);
    if (status.code() != StatusCode::kOutOfRange) {
      TD_RETURN_IF_ERROR(status);
      continue;
    }
    // OUT_OF_RANGE: some of the buckets are moving, so the loop continues with the new owners.
    if (bucket != before) {
      deadline = caller_.Now() + options_.patience.call_timeout();
      attempts = 0;
    }
    if (caller_.Now() >= deadline) return status;
    TD_RETURN_IF_ERROR(caller_.ExchangeAndWait(attempts++));
  }
  return OkStatus();
}

}  // namespace tandem::ps
