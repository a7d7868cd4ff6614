#include "pserver/replication/log_fetcher.h"

#include <unistd.h>

#include <utility>

#include "common/base/check.h"
#include "common/os/files.h"
#include "proto/pserver.pb.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {
namespace {

// Time limit of a request in addition to the time for which the primary may hold it.
constexpr Duration kCallTimeout = std::chrono::seconds(10);
// Time limit of the first part of a checkpoint, for which the primary may have to write it.
constexpr Duration kFirstPartTimeout = std::chrono::minutes(5);

}  // namespace

LogFetcher::LogFetcher(Options options, StandbyState& state, PrimaryCalls& calls)
    : options_(std::move(options)), state_(state), calls_(calls) {}

StatusOr<LogFetcher::Next> LogFetcher::FetchOnce() {
  const StandbyState::Position position = state_.position();
  FetchLogRequest request;
  request.set_job(options_.job);
  request.set_member(static_cast<uint32_t>(options_.member));
  request.set_replica(options_.replica);
  request.set_incarnation(options_.incarnation);
  request.set_history(position.term.history);
  request.set_term(position.term.number);
  request.set_start(position.term.start);
  request.set_has_state(position.has_state);
  request.set_after(position.last);
  // The reply to an incomplete standby may make it complete, so it must not wait.
  const Duration wait = position.complete ? options_.wait : Duration();
  request.set_wait_ms(static_cast<uint32_t>(Millis(wait)));
  FetchLogReply reply;
  TD_RETURN_IF_ERROR(calls_.FetchLog(request, options_.wait + kCallTimeout, &reply));
  if (reply.needs_checkpoint() || !position.has_state) return FetchCheckpoint();
  const LogTerm term = {reply.history(), reply.term(), reply.start()};
  if (term != position.term) TD_RETURN_IF_ERROR(state_.SetTerm(term));
  std::vector<LogEntry> entries;
  for (const std::string& bytes : reply.entry()) {
    TD_ASSIGN_OR_RETURN(LogEntry entry, DecodeLogEntry(position.last + 1 + entries.size(), bytes));
    entries.push_back(std::move(entry));
  }
  if (!entries.empty()) TD_RETURN_IF_ERROR(state_.Append(std::move(entries)));
  if (!position.complete && state_.position().last >= reply.last()) {
    TD_RETURN_IF_ERROR(state_.SetComplete());
  }
  return Next::kNow;
}

StatusOr<LogFetcher::Next> LogFetcher::FetchCheckpoint() {
  FetchCheckpointRequest request;
  request.set_job(options_.job);
  request.set_member(static_cast<uint32_t>(options_.member));
  request.set_replica(options_.replica);
  request.set_incarnation(options_.incarnation);
  FetchCheckpointReply reply;
  const Status first = calls_.FetchCheckpoint(request, kFirstPartTimeout, &reply);
  // The trainers have not sent the initial values yet.
  if (first.code() == StatusCode::kNotFound) return Next::kPause;
  TD_RETURN_IF_ERROR(first);
  const Time begin = SteadyNow();
  const std::string record = reply.record();
  const LogTerm term = {reply.history(), reply.term(), reply.start()};
  const uint64_t bytes = reply.bytes();
  TD_ASSIGN_OR_RETURN(const std::string path, state_.NewValuesFile());
  Status status = CopyValues(std::move(request), std::move(reply), path);
  if (status.ok()) status = state_.Install(record, path, term);
  if (!status.ok()) {
    unlink(path.c_str());
    return Annotate(status, "fetching the checkpoint of the primary");
  }
  LOG(INFO) << "fetched the checkpoint of the primary: " << bytes << " bytes, term " << term.number
            << ", in " << Seconds(SteadyNow() - begin) << " s";
  return Next::kNow;
}

Status LogFetcher::CopyValues(FetchCheckpointRequest request, FetchCheckpointReply reply,
                              const std::string& path) {
  const uint64_t bytes = reply.bytes();
  FileWriter file;
  TD_RETURN_IF_ERROR(file.Open(path));
  uint64_t written = 0;
  while (true) {
    if (reply.content().empty() && written < bytes) {
      return DataLoss("the primary sent an empty part of its checkpoint at offset %d", written);
    }
    TD_RETURN_IF_ERROR(file.Write(reply.content().data(), reply.content().size()));
    written += reply.content().size();
    if (written >= bytes) return file.SyncAndClose();
    if (calls_.stopped()) return Cancelled("the standby stops");
    request.set_offset(written);
    TD_RETURN_IF_ERROR(calls_.FetchCheckpoint(request, kCallTimeout, &reply));
  }
}

}  // namespace tandem::pserver
