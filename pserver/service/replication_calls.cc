#include "pserver/service/replication_calls.h"

#include <utility>

#include "common/base/require.h"
#include "proto/pserver.pb.h"
#include "pserver/replication/log_source.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kWaitMax = 10'000;  // maximum of FetchLogRequest::wait_ms, in milliseconds
// Limit of the member numbers in requests, so that a number fits into an int. NumberOf replaces a
// higher number by the limit. LogSource rejects the limit like any other unknown member.
constexpr uint32_t kStandbyMax = 1 << 20;

Status CheckSource(const LogSource* source) {
  if (source != nullptr) return OkStatus();
  return FailedPrecondition(
      "this server has no log for standbys and replicas [TD4028]; hint: start it with "
      "--durability=logged");
}

int NumberOf(uint32_t member, bool replica) {
  return replica ? kReplica : static_cast<int>(std::min(member, kStandbyMax));
}

}  // namespace

Status FetchLogEntries(const FetchLogRequest& request, Time arrived, LogSource* source,
                       FetchLogReply* reply) {
  TD_RETURN_IF_ERROR(CheckSource(source));
  const auto wait = std::chrono::milliseconds(std::min(request.wait_ms(), kWaitMax));
  const LogFetch fetch{.member = NumberOf(request.member(), request.replica()),
                       .incarnation = request.incarnation(),
                       .term = {request.history(), request.term(), request.start()},
                       .has_state = request.has_state(),
                       .after = request.after()};
  TD_ASSIGN_OR_RETURN(const FetchedLog fetched, source->Fetch(fetch, arrived + wait));
  reply->set_history(fetched.term.history);
  reply->set_term(fetched.term.number);
  reply->set_start(fetched.term.start);
  reply->set_needs_checkpoint(fetched.needs_checkpoint);
  reply->set_last(fetched.last);
  for (const auto& entry : fetched.entries) reply->add_entry(*entry);
  return OkStatus();
}

Status FetchCheckpointPart(const FetchCheckpointRequest& request, LogSource* source,
                           FetchCheckpointReply* reply) {
  TD_RETURN_IF_ERROR(CheckSource(source));
  TD_ASSIGN_OR_RETURN(CheckpointPart part,
                      source->FetchCheckpoint(NumberOf(request.member(), request.replica()),
                                              request.incarnation(), request.offset()));
  reply->set_history(part.term.history);
  reply->set_term(part.term.number);
  reply->set_start(part.term.start);
  reply->set_record(std::move(part.record));
  reply->set_bytes(part.bytes);
  reply->set_content(std::move(part.content));
  return OkStatus();
}

void FillReplica(const LogFollower::Progress& progress, StatusReply* reply) {
  TD_REQUIRE(reply != nullptr);
  reply->set_replica(true);
  const uint64_t last = progress.position.last;
  reply->set_lag_entries(progress.primary_last - std::min(progress.primary_last, last));
  reply->set_lag_seconds(Seconds(SteadyNow() - progress.current));
}

void FillReplication(const LogSource& source, int member, StatusReply* reply) {
  TD_REQUIRE(reply != nullptr && member >= 0);
  reply->set_replicas(static_cast<uint32_t>(source.replicas()));
  if (source.standby_count() == 0) return;
  reply->set_term(source.term().number);
  reply->set_member(static_cast<uint32_t>(member));
  for (const StandbyInfo& info : source.standbys()) {
    StandbyStatus* const status = reply->add_standby();
    status->set_member(static_cast<uint32_t>(info.member));
    status->set_current(info.current);
    status->set_lag_entries(info.lag_entries);
    status->set_lag_bytes(info.lag_bytes);
    status->set_lag_seconds(Seconds(info.lag_time));
    status->set_silent_seconds(Seconds(info.silent));
  }
}

}  // namespace tandem::pserver
